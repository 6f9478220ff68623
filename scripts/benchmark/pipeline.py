"""Pipeline: how long audit and plan take, how that grows, and what the event log costs the broker.

The log is made up: messages of several queues with groups as uneven as in life (Zipf), each
enqueued, delivered and acknowledged, written by the event log's own writer. A job is a process as
`scripts/pipeline` starts it, so its figure has the start of Spark and its Java in it. `local[8]`
on fewer cores shows what more partitions cost; `local[1]` against `local[2]` what a core brings.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Final

import numpy as np
from scripts.benchmark.contender import Covey
from scripts.benchmark.process import scratch_directory
from scripts.benchmark.result import Result
from scripts.benchmark.runner import Runner
from scripts.benchmark.workloads import cases

from covey.core.event_log import LENGTH
from covey.core.events import EventKind
from covey.pipeline.writer import RECORD_TYPE, Writer

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
    command = [sys.executable, "-P", "-m", "covey.pipeline", job, "--input", str(log)]
    command += ["--out", str(log.with_suffix(".out")), "--master", master]
    began = time.monotonic()
    subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": build.package},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.monotonic() - began


def write_log(directory: Path, messages: int) -> None:
    """Write a log in which every promise is kept."""
    directory.mkdir(parents=True)
    chance = np.random.default_rng(messages)
    weights = np.arange(1, GROUPS + 1) ** -ZIPF
    group = chance.choice(GROUPS, messages, p=weights / weights.sum())
    queue = chance.integers(0, QUEUES, messages)
    came = 1.7e9 + np.cumsum(chance.exponential(1 / MESSAGES_PER_S, messages))
    records = np.zeros((len(LIFE), messages), RECORD_TYPE)
    records["queue"] = 1 + queue
    records["group"] = 1 + QUEUES + group
    for number in range(QUEUES):
        mine = queue == number
        records["seq"][:, mine] = np.arange(1, mine.sum() + 1)
    records["consumer"][1:] = 1 + group % CONSUMERS
    records["kind"] = np.array(LIFE)[:, None]
    records["time"] = came + np.array([0.0, WAIT_S, WAIT_S + WORK_S])[:, None]
    flat = records.reshape(-1)
    _write(directory, flat[np.argsort(flat["time"], kind="stable")])


def _write(directory: Path, records: np.ndarray[tuple[int], np.dtype[np.void]]) -> None:
    names = [f"queue-{number}" for number in range(QUEUES)]
    names += [f"group-{number}" for number in range(GROUPS)]
    block = b"".join(LENGTH.pack(len(name)) + name.encode() for name in names)
    writer = Writer(directory, "bench", ROTATE_BYTES, float("inf"))
    for at in range(0, len(records), EVENTS_PER_CHUNK):
        packed = records[at : at + EVENTS_PER_CHUNK].tobytes()
        writer.take(1 + at, 0, block if at == 0 else b"", packed, 0.0)
    writer.finish()
