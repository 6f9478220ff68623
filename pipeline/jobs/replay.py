"""replay: sends recorded traffic to a broker, at the recorded speed or faster.

The record is an archive (`covey-pipeline archive`), with bodies and headers, or an event log. An
event log tells when messages came and of which group, but not their content. Such messages get a
body of zeros. Ids are the recorded ones, so a queue with a `duplicate_window` recognises a second
replay and drops it.

Each sender is a task. It gets whole groups, so that the order of a group is kept. It gets the
messages in the order of their times, and sends each one when its time has come. A message without a
time goes at once. Each sender reports its greatest delay: a broker that is slower than the recorded
one holds the sender up, and the report should show that.

In an event log, queues of virtual hosts other than the first are named `host/name`. A connection
belongs to one virtual host, so a sender has one connection for each. The job logs in to all hosts
before it sends anything. The log knows hosts by their ids, but a login needs a host name. `--host`
gives the name of an id where the two differ.

Nothing can be sent to a durable subscription. Messages recorded from one are left out, unless
`--to` names a destination.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from covey.client.place import Place
from covey.core.events.event import EventKind
from covey.core.events.event_log import HOST_MARK
from covey.core.naming.destination import DURABLE_PREFIX
from covey.pipeline.datasource.client import connected
from covey.pipeline.datasource.options import WriteOptions, parse_address, write_options
from covey.pipeline.datasource.sink import send_rows
from covey.pipeline.errors import PipelineError, one_line
from covey.pipeline.event_log.reader import (
    add_log_options,
    check_input,
    is_remote,
    kind_is,
    local,
    period_of,
    read_log,
)
from covey.pipeline.job import Job, Task
from covey.pipeline.jobs.archive import TOTALS, archived
from covey.pipeline.places import place_of
from covey.pipeline.report import Report
from covey.pipeline.spark import parallelism

SLICE_ROWS: Final = 500  # how many a late sender sends at once
RECORDED: Final = "the recorded queues"

Times = npt.NDArray[np.float64]
"""Seconds since the epoch; not a number where none was recorded."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When the first message came, and how many times faster to send; 0 means without waiting."""

    first_at: float
    speed: float


@dataclass(frozen=True, slots=True)
class Target:
    """How to send, and where each recorded host's messages go; "" is the first virtual host."""

    options: WriteOptions
    places: dict[str, tuple[Place, ...]]


class Sender:
    """A task's connections, one for each virtual host."""

    def __init__(self, target: Target) -> None:
        self._options = target.options
        what = target.options.queue or RECORDED
        with ExitStack() as opened:  # if one fails, the others are closed
            self._clients = {
                host: opened.enter_context(connected(places, "--to", what))
                for host, places in target.places.items()
            }
            self._open = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()

    def send(self, batch: pa.RecordBatch) -> None:
        """Post rows; the rows of one host keep their order."""
        hosts = batch.column("host")
        for host in pc.unique(hosts).to_pylist():
            rows = batch.filter(pc.equal(hosts, host))
            send_rows(self._clients[host], self._options, rows)

    def flush(self) -> None:
        """Send what was posted."""
        for client in self._clients.values():
            client.flush()

    def confirm(self) -> None:
        """Wait until the broker has everything."""
        for client in self._clients.values():
            client.confirm()


def send_paced(
    target: Target, pace: Pace, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Send a partition's rows when their times come; yield one row with the result."""
    rows, late_s = 0, 0.0
    with Sender(target) as sender:
        begun_at = time.time()
        for batch in batches:
            late_s = max(late_s, _send_batch(sender, pace, batch, begun_at))
            rows += batch.num_rows
        sender.confirm()
    yield pa.RecordBatch.from_pydict(
        {"rows": [rows], "seconds": [time.time() - begun_at], "late_s": [late_s]}
    )


def _send_batch(sender: Sender, pace: Pace, batch: pa.RecordBatch, begun_at: float) -> float:
    """Send one Arrow batch; return how late its latest message was."""
    due = due_times(batch.column("at").to_numpy(zero_copy_only=False), pace, begun_at)
    sent, late_s = 0, 0.0
    while sent < len(due):
        now = time.time()
        wait_s = due[sent] - now
        if wait_s > 0:
            sender.flush()
            time.sleep(wait_s)
            continue
        late_s = max(late_s, -wait_s) if pace.speed else 0.0
        ready = min(int(np.searchsorted(due, now, "right")), sent + SLICE_ROWS)
        sender.send(batch.slice(sent, ready - sent))
        sent = ready
    return late_s


def due_times(at: Times, pace: Pace, begun_at: float) -> Times:
    """Return when to send each message; recorded times ascend, messages without one come first."""
    if not pace.speed:
        return np.full(len(at), begun_at)
    known = np.nan_to_num(at, nan=pace.first_at)
    due: Times = begun_at + (known - pace.first_at) / pace.speed
    return due


COLUMNS: Final = ["at", "place", "host", "queue", "group_id", "message_id", "value", "headers"]
DONE: Final = "rows long, seconds double, late_s double"

# How an event log and an archive name the queue of a durable subscription.
IS_DURABLE: Final = f"(startswith(queue, '{DURABLE_PREFIX}') or startswith(queue, '/dsub/'))"


def check(options: Namespace) -> None:
    """Check the record and the options, and log in to the broker once."""
    if options.table or not (is_remote(options.input) or is_archive(options.input)):
        check_input(options)
    if not 0 <= options.speed < inf:
        raise PipelineError(f"--speed {options.speed}: 0 or a number above it is meant")
    if options.body_bytes < 0:
        raise PipelineError(f"--body-bytes {options.body_bytes}: 0 or a number above it is meant")
    if options.senders < 0:
        raise PipelineError(f"--senders {options.senders}: 0 or a number above it is meant")
    host_names(options.host)
    write = write_options_of(options.to)
    with connected(write.places, "--to", write.queue or RECORDED):
        pass


def write_options_of(to: str) -> WriteOptions:
    """Return how to send, as `--to` says."""
    address = parse_address("--to", to)
    return write_options(address.options() | {"queue": address.destination}, COLUMNS)


def host_names(texts: Iterable[str]) -> dict[str, str]:
    """Read `--host ID=NAME`."""
    pairs = [text.partition("=") for text in texts]
    for given, (host, _, name) in zip(texts, pairs, strict=True):
        if not host or not name:
            raise PipelineError(f"--host {given}: ID=NAME is meant")
    return {host: name for host, _, name in pairs}


def run(task: Task) -> int:
    """Send a record."""
    options = task.options
    write = write_options_of(options.to)
    task.progress.step("reading the record")
    record = arrivals(task.spark, options)
    left_out = 0
    if write.queue:
        record = record.withColumn("host", F.lit(""))
    else:
        left_out = record.where(IS_DURABLE).count()
        record = record.where(f"not {IS_DURABLE}")
    hosts = [row.host for row in record.select("host").distinct().collect()]
    if left_out and not hosts:
        raise PipelineError(
            "--to: the record is of durable subscriptions, to which nothing can be sent; name a"
            " destination behind the address"
        )
    target = Target(write, places_of(write, hosts, host_names(options.host)))
    task.progress.step(f"sending to {write.places[0].address}")
    done = send_all(task.spark, record, target, options)
    sentence = _sentence(done, left_out)
    _report(options, sentence, done)
    task.progress.answer(sentence)
    return 0


def send_all(
    spark: SparkSession, record: DataFrame, target: Target, options: Namespace
) -> list[Row]:
    """Send each message in its time; return the result of each sender."""
    first_at = record.agg(F.min("at")).first()
    pace = Pace((first_at and first_at[0]) or 0.0, options.speed)
    cores = parallelism(spark)
    senders = min(options.senders or cores, cores)
    lanes = record.repartition(senders, "host", "queue", "group_id")
    paced = lanes.sortWithinPartitions("at", "place")
    try:
        return paced.mapInArrow(partial(send_paced, target, pace), DONE).collect()
    except PySparkException as error:
        raise PipelineError(one_line(error)) from error


def arrivals(spark: SparkSession, options: Namespace) -> DataFrame:
    """Return the recorded messages, one row each; `place` orders those with equal times."""
    if not options.table and is_archive(options.input, spark):
        return (
            period_of(options)
            .cut(archived(spark, place_of(options.input)))
            .select(
                (F.unix_micros("ts") / 1e6).alias("at"),
                F.col("seq").alias("place"),
                F.lit("").alias("host"),
                *COLUMNS[3:],
            )
        )
    came = read_log(spark, options).where(kind_is(EventKind.ENQUEUE))
    name = F.split("queue", HOST_MARK)  # [name], or [host, name]
    return came.select(
        (F.unix_micros("ts") / 1e6).alias("at"),
        F.col("eid").alias("place"),
        F.when(F.size(name) > 1, name[0]).otherwise("").alias("host"),
        F.element_at(name, -1).alias("queue"),
        "group_id",
        F.concat_ws("-", "run", "eid").alias("message_id"),
        F.lit(bytes(options.body_bytes)).alias("value"),
        F.lit(None).cast("map<string,string>").alias("headers"),
    )


def places_of(
    write: WriteOptions, hosts: Iterable[str], names: dict[str, str]
) -> dict[str, tuple[Place, ...]]:
    """Log in to each host; return where each recorded host's messages go; "" is the first."""
    found = {"": write.places}
    for host in sorted(set(hosts) - {""}):
        name = names.get(host, host)
        found[host] = tuple(replace(place, virtual_host=name) for place in write.places)
        try:
            with connected(found[host], "--to", RECORDED):
                pass
        except PipelineError as error:
            raise PipelineError(
                f"the record has queues of the virtual host {host}: {error}; --host {host}=NAME"
                " says by which of its host names to log in, a destination in --to sends all there"
            ) from None
    return found


def is_archive(place: str, spark: SparkSession | None = None) -> bool:
    """Return True if `covey-pipeline archive` has written there; a place elsewhere needs Spark."""
    if is_remote(place):
        return hasattr(spark, "_jvm") and (place_of(place) / TOTALS).exists()
    return bool(place) and any((local(place) / name).exists() for name in (TOTALS, "messages"))


def _sentence(done: list[Row], left_out: int) -> str:
    rows = sum(row.rows for row in done)
    seconds = max((row.seconds for row in done), default=0.0)
    late_s = max((row.late_s for row in done), default=0.0)
    without = f"; {left_out:,} of durable subscriptions left out" if left_out else ""
    return f"replay: {rows:,} messages in {seconds:.1f} s, at worst {late_s:.2f} s late{without}"


def _report(options: Namespace, sentence: str, done: list[Row]) -> None:
    page = Report("Replay")
    page.text(f"Input: {options.input}")
    page.text(sentence)
    senders = [(row.rows, row.seconds, row.late_s) for row in done]
    page.table(("messages of a sender", "seconds", "late at worst, s"), senders)
    page.write(options.out, "replay")


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this job."""
    add_log_options(parser)
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
        "--host",
        action="append",
        default=[],
        metavar="ID=NAME",
        help="a host name of the virtual host that was recorded as ID (default: ID itself)",
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
