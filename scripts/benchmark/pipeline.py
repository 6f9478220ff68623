"""Pipeline: rows a second to and from Spark, how long audit and plan take and how that grows, and
what the event log costs the broker.

The log is made up: messages of several queues with groups as uneven as in life (Zipf), each
enqueued, delivered and acknowledged, written by the event log's own writer. A job is a process as
`scripts/pipeline` starts it, so its figure has the start of Spark and its Java in it. `local[8]`
on fewer cores shows what more partitions cost; `local[1]` against `local[2]` what a core brings.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Final

import numpy as np
from scripts.benchmark.contender import ROOT, Covey
from scripts.benchmark.process import StartError, scratch_directory
from scripts.benchmark.result import Result
from scripts.benchmark.runner import Runner
from scripts.benchmark.workloads import cases

from covey.core.event_log import GROUP_SHIFT, LENGTH, QUEUE_SHIFT
from covey.core.events import EventKind
from covey.pipeline.writer import Events, Writer

MESSAGES: Final = 1_000_000
PARTS: Final = (0.1, 1.0)  # of the messages: how a job grows with them
MASTERS: Final = ("local[1]", "local[2]", "local[8]")
FULL_MASTER: Final = "local[2]"

QUEUES: Final = 8
GROUPS: Final = 100_000
CONSUMERS: Final = 4
ZIPF: Final = 1.2
MESSAGES_PER_S: Final = 20_000
WAIT_S: Final = 0.010
WORK_S: Final = 0.005
LIFE: Final = (EventKind.ENQUEUE, EventKind.DELIVER, EventKind.ACK)
EVENTS_PER_CHUNK: Final = 1 << 17
ROTATE_BYTES: Final = 4 << 20

EVENT_LOG_SIZE: Final = 128  # bytes of a body where the event log's cost is measured

ROWS: Final = 200_000
ROWS_REPETITIONS: Final = 2  # of each: a repetition takes seconds, and there are seven of them
NOTHING: Final = "nothing"

JOBS: Final = {"audit": "events", "plan": "messages"}


def measure(builds: Sequence[Covey], scale: float, say: Callable[[str], None]) -> list[Result]:
    """Measure the jobs with each build, then the event log."""
    results = []
    scratch = scratch_directory()
    try:
        for part in PARTS:
            count = int(MESSAGES * part * scale)
            write_log(scratch / str(part), count)
            masters = MASTERS if part == PARTS[-1] else (FULL_MASTER,)
            for job, counted in JOBS.items():
                size = count * len(LIFE) if counted == "events" else count
                for master in masters:
                    for build in builds:
                        case = f"pipeline {job}, {size:,} {counted}, {master}"
                        seconds = _run_job(job, scratch / str(part), master, build)
                        results.append(Result(case, build.name, "s", [seconds]))
                        say(f"{case:<48} {build.name:<16} {seconds:.1f} s")
    finally:
        rmtree(scratch, ignore_errors=True)
    return results


def measure_rows(builds: Sequence[Covey], scale: float, say: Callable[[str], None]) -> list[Result]:
    """Measure source and sink with each build, client and broker alike."""
    count = int(ROWS * scale)
    results = []
    for build in builds:
        process = build.start()
        before = process.cpu_s()
        try:
            found = _run_rows(build, f"127.0.0.1:{process.port}", count)
            used_s = process.cpu_s() - before
        finally:
            process.stop()
        for name, seconds in found.items():
            is_nothing = name == NOTHING
            values = seconds if is_nothing else [count / one for one in seconds]
            unit = "s" if is_nothing else "rows/s"
            of = "source, no rows" if is_nothing else f"{name}, {count:,} rows of 1 KiB"
            result = Result(f"pipeline {of}", build.name, unit, values)
            results.append(result)
            say(f"{result.case:<56} {build.name:<16} {result.text()} {unit}")
        say(f"the broker of {build.name} used {used_s:.0f} s of processor")
    return results


def measure_event_log(
    builds: Sequence[Covey], repetitions: int, scale: float, say: Callable[[str], None]
) -> list[Result]:
    """Run the plain queue with and without an event log."""
    loggers = [
        Covey(f"{build.name} +log", build.package, ("--event-log", "events")) for build in builds
    ]
    runner = Runner([*builds, *loggers], repetitions, scale, say)
    try:
        results = [one for case in cases(["queue"], (EVENT_LOG_SIZE,)) for one in runner.run(case)]
    finally:
        runner.stop()
    by_name = {result.contender: result for result in results}
    for build in builds:
        plain, logging = by_name[build.name], by_name[f"{build.name} +log"]
        if plain.values and logging.values:
            logging.notes["cost_percent"] = 100 * (1 - logging.median / plain.median)
            say(f"the event log costs {build.name} {logging.notes['cost_percent']:.0f} %")
    return results


def _run_job(job: str, log: Path, master: str, build: Covey) -> float:
    """Return the wall time of a job, its start included."""
    arguments = [job, "--input", str(log), "--out", str(log.with_suffix(".out"))]
    began = time.monotonic()
    _run(build, "covey.pipeline", *arguments, "--master", master)
    return time.monotonic() - began


def _run_rows(build: Covey, broker: str, count: int) -> dict[str, list[float]]:
    said = _run(build, "scripts.benchmark.rows", broker, str(count), str(ROWS_REPETITIONS))
    found: dict[str, list[float]] = json.loads(said)
    return found


def _run(build: Covey, module: str, *arguments: str) -> str:
    """Run a module with a build's package; return what it said."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", module, *arguments],
        env={**os.environ, "PYTHONPATH": f"{build.package}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise StartError(f"{module} {arguments[0]}: {done.stderr[-300:].strip()}")
    return done.stdout


def write_log(directory: Path, messages: int) -> None:
    """Write a log in which every promise is kept."""
    directory.mkdir(parents=True)
    chance = np.random.default_rng(messages)
    weights = np.arange(1, GROUPS + 1) ** -ZIPF
    group = chance.choice(GROUPS, messages, p=weights / weights.sum())
    queue = chance.integers(0, QUEUES, messages)
    seq = np.zeros(messages, "u8")
    for number in range(QUEUES):
        seq[queue == number] = np.arange(1, (queue == number).sum() + 1)
    came = 1.7e9 + np.cumsum(chance.exponential(1 / MESSAGES_PER_S, messages))
    names = (1 + queue).astype("u8") << QUEUE_SHIFT | (1 + QUEUES + group).astype(
        "u8"
    ) << GROUP_SHIFT
    consumer = (1 + group % CONSUMERS).astype("u4")
    whats = [names | int(kind) for kind in LIFE]
    times = [came, came + WAIT_S, came + WAIT_S + WORK_S]
    order = np.argsort(np.concatenate(times), kind="stable")
    consumers = [np.zeros_like(consumer), consumer, consumer]
    columns = (whats, consumers, [seq] * len(LIFE), times)
    _write(directory, Events(*[np.concatenate(column)[order] for column in columns]))


def _write(directory: Path, events: Events) -> None:
    names = [f"queue-{number}" for number in range(QUEUES)]
    names += [f"group-{number}" for number in range(GROUPS)]
    block = b"".join(LENGTH.pack(len(name)) + name.encode() for name in names)
    writer = Writer(directory, "bench", ROTATE_BYTES, float("inf"))
    for at in range(0, len(events.seq), EVENTS_PER_CHUNK):
        chunk = Events(*[column[at : at + EVENTS_PER_CHUNK] for column in events])
        writer.take(1 + at, 0, block if at == 0 else b"", chunk, 0.0)
    writer.finish()
