"""replay: sends recorded traffic to a broker, as it came or faster.

The record is an archive (`covey-pipeline archive`), with its bodies and headers, or an event log,
which knows when messages came and of which group, but not what was in them: those get a body of
zeros. Ids are the recorded ones, so a queue with a `duplicate_window` takes a second replay for
what it is.

Each sender is a task with a connection of its own and whole groups, so that a group's order is
kept; it sends each message when its time has come, and tells how late it was at worst. A message
without a time goes at once.

Queues of another virtual host than the first are `host/name` in an event log. A connection speaks
to one host, so these go where `--to` says, or are refused before anything is sent.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from covey.core.event_log import HOST_MARK
from covey.core.events import EventKind
from covey.pipeline.address import parse_address
from covey.pipeline.client import QueueClient, connected
from covey.pipeline.errors import PipelineError, one_line
from covey.pipeline.job import Job, Task
from covey.pipeline.jobs.archive import archived
from covey.pipeline.log import kind_is, log_files, read_log
from covey.pipeline.options import WriteOptions, write_options
from covey.pipeline.report import Report
from covey.pipeline.session import parallelism
from covey.pipeline.sink import send_rows

COLUMNS: Final = ["at", "place", "queue", "group_id", "message_id", "value", "headers"]
SLICE_ROWS: Final = 500  # sent at once by a sender that is late
RECORDED: Final = "the recorded queues"
DONE: Final = "rows long, seconds double, late_s double"

Times = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pace:
    """When the first message came, and how many times faster it all goes now; 0: no waiting."""

    first_at: float
    speed: float


def check(options: Namespace) -> None:
    """Look at the record and the options, and see whether the broker lets us in."""
    if not is_archive(options.input):
        log_files(options.input)
    if not 0 <= options.speed < inf:
        raise PipelineError(f"--speed {options.speed}: 0 or a number above it is meant")
    if options.body_bytes < 0:
        raise PipelineError(f"--body-bytes {options.body_bytes}: 0 or a number above it is meant")
    write = target(options.to)
    with connected(write.places, "--to", write.queue or RECORDED):
        pass


def target(to: str) -> WriteOptions:
    """Return where to send, as `--to` says."""
    address = parse_address("--to", to)
    return write_options(address.options() | {"queue": address.destination}, COLUMNS)


def run(task: Task) -> int:
    """Send a record."""
    options = task.options
    write = target(options.to)
    record = arrivals(task.spark, options.input, options.body_bytes)
    task.progress.step("reading the record")
    if not write.queue:
        refuse_other_hosts(record)
    first_at = record.agg(F.min("at")).first()
    pace = Pace((first_at and first_at[0]) or 0.0, options.speed)
    senders = min(options.senders or parallelism(task.spark), parallelism(task.spark))
    lanes = record.repartition(senders, "queue", "group_id").sortWithinPartitions("at", "place")
    task.progress.step(f"sending to {write.places[0].address}")
    try:
        done = lanes.mapInArrow(partial(send_paced, write, pace), DONE).collect()
    except PySparkException as error:
        raise PipelineError(one_line(error)) from error
    rows = sum(row.rows for row in done)
    seconds = max((row.seconds for row in done), default=0.0)
    late = max((row.late_s for row in done), default=0.0)
    sentence = f"replay: {rows:,} messages in {seconds:.1f} s, at worst {late:.2f} s late"
    _report(options.out, sentence, [(row.rows, row.seconds, row.late_s) for row in done])
    task.progress.answer(sentence)
    return 0


def arrivals(spark: SparkSession, place: str, body_bytes: int) -> DataFrame:
    """Return what came in, one row a message; `place` settles equal times."""
    if is_archive(place):
        return archived(spark, Path(place)).select(
            (F.unix_micros("ts") / 1e6).alias("at"), F.col("seq").alias("place"), *COLUMNS[2:]
        )
    came = read_log(spark, place).where(kind_is(EventKind.ENQUEUE))
    return came.select(
        (F.unix_micros("ts") / 1e6).alias("at"),
        F.col("eid").alias("place"),
        "queue",
        "group_id",
        F.concat_ws("-", "run", "eid").alias("message_id"),
        F.lit(bytes(body_bytes)).alias("value"),
        F.lit(None).cast("map<string,string>").alias("headers"),
    )


def refuse_other_hosts(record: DataFrame) -> None:
    """Raise PipelineError if the recorded queues are not all of the first virtual host."""
    other = record.where(F.col("queue").contains(HOST_MARK)).select("queue").first()
    if other is not None:
        host, _, name = str(other[0]).partition(HOST_MARK)
        raise PipelineError(
            f"the record has the queue {name} of the virtual host {host}, and --to reaches the"
            " first host only; name a destination for all of it in --to"
        )


def is_archive(place: str) -> bool:
    """Say whether `covey-pipeline archive` has written there."""
    return (Path(place) / "messages" / "_spark_metadata").is_dir()


def send_paced(
    options: WriteOptions, pace: Pace, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Send a partition's rows when their times come; give one row that says how it went."""
    rows, late_s = 0, 0.0
    with connected(options.places, "--to", options.queue or RECORDED) as client:
        begun_at = time.time()
        for batch in batches:
            late_s = max(late_s, _send_batch(client, options, pace, batch, begun_at))
            rows += batch.num_rows
        client.confirm()
    yield pa.RecordBatch.from_pydict(
        {"rows": [rows], "seconds": [time.time() - begun_at], "late_s": [late_s]}
    )


def _send_batch(
    client: QueueClient,
    options: WriteOptions,
    pace: Pace,
    batch: pa.RecordBatch,
    begun_at: float,
) -> float:
    """Send one Arrow batch; return how late its latest message was."""
    due = due_times(batch.column("at").to_numpy(zero_copy_only=False), pace, begun_at)
    sent, late_s = 0, 0.0
    while sent < len(due):
        now = time.time()
        wait_s = due[sent] - now
        if wait_s > 0:
            client.flush()
            time.sleep(wait_s)
            continue
        late_s = max(late_s, -wait_s) if pace.speed else 0.0
        ready = min(int(np.searchsorted(due, now, "right")), sent + SLICE_ROWS)
        send_rows(client, options, batch.slice(sent, ready - sent))
        sent = ready
    return late_s


def due_times(at: Times, pace: Pace, begun_at: float) -> Times:
    """Return when each message goes; the times of a partition ascend, unknown ones first."""
    if not pace.speed:
        return np.full(len(at), begun_at)
    known = np.nan_to_num(at, nan=pace.first_at)
    due: Times = begun_at + (known - pace.first_at) / pace.speed
    return due


def _report(out: Path, sentence: str, senders: list[tuple[int, float, float]]) -> None:
    page = Report("Replay")
    page.text(sentence)
    page.table(("messages of a sender", "seconds", "late at worst, s"), senders)
    page.write(out / "replay.html")


def add_options(parser: ArgumentParser) -> None:
    """Add where to, how fast, and by how many."""
    parser.add_argument(
        "--to",
        required=True,
        metavar="ADDRESS",
        help="covey://host:port[/destination]; without a destination, to the recorded queues",
    )
    parser.add_argument(
        "--speed", type=float, default=1.0, metavar="X", help="times faster; 0: without waiting"
    )
    parser.add_argument(
        "--senders", type=int, default=0, metavar="N", help="connections, at most one a core"
    )
    parser.add_argument(
        "--body-bytes", type=int, default=100, metavar="N", help="of messages of an event log"
    )


JOB: Final = Job(
    "send recorded traffic to a broker, as it came or faster",
    add_options,
    check,
    run,
    "an archive's or an event log's directory",
)
