"""Pipeline: rows a second to and from Spark, how long audit and plan take and how that grows, and
what the event log costs the broker.

The log is artificial: messages of several queues with groups as uneven as in practice (Zipf), each
enqueued, delivered and acknowledged, written by the event log's own writer. A job is a process as
`scripts/pipeline` starts it, so its figure includes the start of Spark and its Java. `local[8]` on
fewer cores shows what more partitions cost. `local[1]` against `local[2]` shows what a core gains.
All measurements use the same build as `scripts/pipeline` and `scripts/serve`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryFile
from typing import Final

import numpy as np
from scripts.benchmark.contender import ROOT, Covey
from scripts.benchmark.process import StartError, scratch_directory
from scripts.benchmark.runner import Runner
from scripts.benchmark.workloads.rows import NOTHING
from scripts.benchmark.workloads.workloads import cases

from covey.bench.result import Result
from covey.core.events.event import EventKind
from covey.core.events.event_log import GROUP_SHIFT, LENGTH, QUEUE_SHIFT
from covey.pipeline.event_log.writer import Events, Writer

MESSAGES: Final = 1_000_000
# Each job, the part of the messages, and the cores: how the time grows with both. `plan` on one
# core would take as long as all the others.
JOBS: Final = (
    ("audit", 0.1, ("local[2]",)),
    ("audit", 1.0, ("local[1]", "local[2]", "local[8]")),
    ("plan", 0.1, ("local[1]", "local[2]")),
    ("plan", 1.0, ("local[2]",)),
)

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
ROWS_REPETITIONS: Final = 2  # of each of nine measurements: a repetition takes seconds
WINDOWS: Final = ("COVEY_BROKER__MEMORY_WINDOW_QUEUE", "COVEY_BROKER__MEMORY_WINDOW_TOTAL")
ROOM: Final = "1G"  # for all rows


class Steps:
    """Prints the current step, its number among all steps, and the time since the start."""

    def __init__(self, count: int, say: Callable[[str], None]) -> None:
        self.count = count
        self.say = say
        self.done = 0
        self.began = time.monotonic()

    def begin(self, what: str) -> None:
        """Print the step that begins."""
        self.done += 1
        self.say(f"[{self.done} of {self.count}, {time.monotonic() - self.began:.0f} s] {what}")

    def tell(self, result: Result) -> Result:
        """Print the result of a step."""
        self.say(f"{result.case:<56} {result.contender:<16} {result.text()} {result.unit}")
        return result


def measure(
    build: Covey, repetitions: int, scale: float, say: Callable[[str], None]
) -> list[Result]:
    """Measure everything with one build, the compiled one if there is one."""
    steps = Steps(2 + sum(len(masters) for _, _, masters in JOBS), say)
    results = measure_rows(build, scale, steps) + measure_jobs(build, scale, steps)
    steps.begin("the event log's cost")
    return results + measure_event_log(build, repetitions, scale, say)


def measure_jobs(build: Covey, scale: float, steps: Steps) -> list[Result]:
    """Measure how long the jobs take."""
    results = []
    scratch = scratch_directory()
    try:
        for part in sorted({part for _, part, _ in JOBS}):
            write_log(scratch / str(part), int(MESSAGES * part * scale))
        for job, part, masters in JOBS:
            count = int(MESSAGES * part * scale)
            size = f"{count * len(LIFE):,} events" if job == "audit" else f"{count:,} messages"
            for master in masters:
                case = f"pipeline {job}, {size}, {master}"
                steps.begin(case)
                seconds = _run_job(job, scratch / str(part), master, build)
                results.append(steps.tell(Result(case, build.name, "s", [seconds])))
    finally:
        rmtree(scratch, ignore_errors=True)
    return results


def measure_rows(build: Covey, scale: float, steps: Steps) -> list[Result]:
    """Measure source and sink, with a broker that keeps all in memory and with a usual one."""
    count = int(ROWS * scale)
    steps.begin(f"source and sink, {count:,} rows of 1 KiB")
    roomy = Covey(build.name, build.package, settings=dict.fromkeys(WINDOWS, ROOM))
    processes = [roomy.start(), build.start()]
    results = []
    try:
        brokers = [f"127.0.0.1:{process.port}" for process in processes]
        arguments = (*brokers, str(count), str(ROWS_REPETITIONS))
        for line in _lines(build, "scripts.benchmark.workloads.rows", *arguments):
            name, seconds = json.loads(line)
            case, unit, values = f"pipeline {name}", "s", seconds
            if name != NOTHING:
                case, unit = f"{case}, {count:,} rows of 1 KiB", "rows/s"
                values = [count / one for one in seconds]
            results.append(steps.tell(Result(case, build.name, unit, values)))
    finally:
        for process in processes:
            process.stop()
    return results


def measure_event_log(
    build: Covey, repetitions: int, scale: float, say: Callable[[str], None]
) -> list[Result]:
    """Run the plain queue with and without an event log."""
    logger = Covey(f"{build.name} +log", build.package, ("--event-log", "events"))
    runner = Runner([build, logger], repetitions, scale, say)
    try:
        results = [one for case in cases(["queue"], (EVENT_LOG_SIZE,)) for one in runner.run(case)]
    finally:
        runner.stop()
    by_name = {result.contender: result for result in results}
    plain, logging = by_name[build.name], by_name[logger.name]
    if plain.values and logging.values:
        logging.notes["cost_percent"] = 100 * (1 - logging.median / plain.median)
        say(f"the event log costs {build.name} {logging.notes['cost_percent']:.0f} %")
    return results


def _run_job(job: str, log: Path, master: str, build: Covey) -> float:
    """Return the wall time of a job, its start included."""
    arguments = [job, "--input", str(log), "--out", str(log.with_suffix(".out"))]
    began = time.monotonic()
    for _ in _lines(build, "covey.pipeline", *arguments, "--master", master):
        pass
    return time.monotonic() - began


def _lines(build: Covey, module: str, *arguments: str) -> Iterator[str]:
    """Run a module with a build's package; yield the lines it prints as they come."""
    with TemporaryFile("w+") as trouble:
        done = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            env={**os.environ, "PYTHONPATH": f"{build.package}:{ROOT}"},
            stdout=subprocess.PIPE,
            stderr=trouble,
            text=True,
        )
        assert done.stdout is not None
        yield from done.stdout
        if done.wait():
            trouble.seek(0)
            raise StartError(f"{module} {arguments[0]}: {trouble.read()[-300:].strip()}")


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
