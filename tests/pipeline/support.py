"""Writing event logs for tests: through the real event log and writer, in this process."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from io import StringIO
from pathlib import Path

from pyspark.sql import SparkSession

from covey.core.clock import Clock
from covey.core.events.event import EventKind, EventSink
from covey.core.events.event_log import ChunkTaker, EventLog
from covey.pipeline.event_log.writer import Writer, feed
from covey.pipeline.job import Job, Task
from covey.pipeline.spark import Progress

WORDS = {
    "in": EventKind.ENQUEUE,
    "back": EventKind.RECOVER,
    "out": EventKind.DELIVER,
    "ack": EventKind.ACK,
    "release": EventKind.RELEASE,
    "join": EventKind.JOIN,
    "leave": EventKind.LEAVE,
    "aside": EventKind.ASIDE,
    "delete": EventKind.DELETE,
    "enlist": EventKind.ENLIST,
    "delist": EventKind.DELIST,
}


class Direct(ChunkTaker):
    """Feeds a writer without a process between, in pieces as a pipe might bring them."""

    def __init__(self, directory: Path, run: str, rotate_bytes: int = 1 << 20) -> None:
        self.writer = Writer(directory, run, rotate_bytes, 60.0)
        self.data = bytearray()

    def take(self, chunk: bytes) -> bool:
        for piece in (chunk[:5], chunk[5:40], chunk[40:]):
            self.data += piece
            feed(self.writer, self.data, 100.0)
        return True

    def close(self) -> None:
        self.writer.finish()


class Diary:
    """An event log whose clock goes on by a millisecond with each event."""

    def __init__(self, taker: ChunkTaker) -> None:
        self.clock = Clock()
        self.clock.now = 1000.0
        self.log = EventLog(taker, ("**",), self.clock)
        self.sink: EventSink = self.log

    def start(self, before: str = "", position: int = 0) -> None:
        """Begin as a run of a broker does, behind another that had its store."""
        self.sink = self.log.of_host("", before, position)

    def record(self, kind: int, queue: str, group: str, consumer: int, seq: int) -> None:
        """Note one event of a queue."""
        self.clock.now += 0.001
        events = self.sink.of_queue(queue)
        assert events is not None
        events.record(kind, group, consumer, seq)

    def arrive(self, kind: int, queue: str, group: str, seq: int, *, persistent: bool) -> None:
        """Note that a message came or was recovered."""
        self.clock.now += 0.001
        events = self.sink.of_queue(queue)
        assert events is not None
        events.arrive(kind, group, seq, 100, persistent, None)

    def flush(self) -> None:
        self.log.flush()

    def close(self) -> None:
        self.log.close()


def log_in(directory: Path, run: str = "r1") -> Diary:
    """Make an event log whose clock goes on by itself."""
    directory.mkdir(parents=True, exist_ok=True)
    return Diary(Direct(directory, run))


def tell(log: Diary, queue: str, group: str, story: str) -> None:
    """Record `in 1, out 1 to 7, ack 1 by 7, aside 2, leave 7, delete 0` of one group."""
    for step in story.split(","):
        word, number, *rest = step.split()
        if word in ("in", "back"):
            is_kept = rest == ["kept"]
            log.arrive(WORDS[word], queue, group, int(number), persistent=is_kept)
        elif word in ("join", "leave", "delete"):
            log.record(WORDS[word], queue, "", int(number), 0)
        else:
            consumer = int(rest[1]) if rest else 0
            log.record(WORDS[word], queue, group, consumer, int(number))


def run_job(spark: SparkSession, job: Job, **options: object) -> tuple[int, str]:
    """Run a job; give its exit code and what it said."""
    answers = StringIO()
    progress = Progress("test", spark, StringIO(), answers)
    parser = ArgumentParser()
    job.add_options(parser)
    defaults = {one.dest: one.default for one in parser._actions}
    code = job.run(Task(spark, Namespace(**{**defaults, **options}), progress))
    return code, answers.getvalue()
