"""archive: a queue or a topic as partitioned Parquet, each message exactly once.

    DIR/messages      queue=.../day=.../*.parquet; read it with Spark, which passes over files of
                      batches that were not finished (`_spark_metadata` says which count)
    DIR/checkpoint    how far it is: call the job again with the same DIR and it goes on there
    DIR/archive.html

A queue is only looked at, unless `--trim` gives up what is safely archived. A topic keeps nothing.
So the job makes a durable subscription `archive.TOPIC` the first time, which gathers what is sent
from then on. The job trims that subscription. `day` is the message's own time, or the time of
archiving.
"""

from __future__ import annotations

import signal
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from math import inf
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from covey.pipeline.datasource.client import connected
from covey.pipeline.datasource.columns import SCHEMA
from covey.pipeline.datasource.options import Address, ReadOptions, parse_address, read_options
from covey.pipeline.datasource.source import CoveyDataSource
from covey.pipeline.errors import PipelineError, one_line
from covey.pipeline.job import Job, Task
from covey.pipeline.report import Report, bars

TOPIC: Final = "/topic/"
BATCH_ROWS: Final = 200_000  # one batch's files and replay stay of a size that is quickly done
QUEUES_SHOWN: Final = 50
ENDING: Final = (signal.SIGINT, signal.SIGTERM)
LOOK_EVERY_S: Final = 1


def check(options: Namespace) -> None:
    """Read the address and the options, and see whether the broker lets us in."""
    address = parse_address("--input", options.input)
    if not address.destination:
        raise PipelineError("--input: name the queue or topic behind the address")
    if options.batch_rows < 1:
        raise PipelineError(f"--batch-rows {options.batch_rows}: a number above 0 is meant")
    if not 0 <= options.every < inf:
        raise PipelineError(f"--every {options.every}: seconds are meant")
    given = given_options(options.option)
    read = source_options(address, given, trims=options.trim, rows=options.batch_rows)
    source = read_options(read, is_stream=True)
    with connected(source.places, "--input", address.destination) as client:
        if not address.destination.startswith(TOPIC):
            for queue in source.subscribe:
                client.figures(queue)  # it is one queue, and we may look at it


def run(task: Task) -> int:
    """Archive what is there, or what comes."""
    out: Path = task.options.out
    address = parse_address("--input", task.options.input)
    given = given_options(task.options.option)
    trims, rows = task.options.trim, task.options.batch_rows
    options = source_options(address, given, trims=trims, rows=rows)
    if address.destination.startswith(TOPIC):
        gather(address.destination, read_options(options, is_stream=True))
    task.spark.dataSource.register(CoveyDataSource)
    task.progress.step(f"archiving {address.destination}")
    try:
        with alone(out):
            query = start(task.spark, options, out, task.options.every)
            _wait(query)
    except PySparkException as error:
        raise PipelineError(one_line(error)) from error
    rows = sum(progress["numInputRows"] for progress in query.recentProgress)
    task.progress.step("counting")
    total = report(task.spark, out)
    task.progress.answer(f"archive: {rows:,} messages now, {total:,} in all, in {out / 'messages'}")
    return 0


def source_options(
    address: Address, given: dict[str, str], *, trims: bool, rows: int
) -> dict[str, str]:
    """Return how to read a place: a topic by the durable subscription that gathers it."""
    options = address.options() | {
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(rows),
        "subscribe": address.destination,
    }
    if address.destination.startswith(TOPIC):
        options["subscribe"] = f"/dsub/archive.{address.destination.removeprefix(TOPIC)}"
        trims = True
    if trims:
        options["commit"] = "trim"
    return options | given


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Let one job at a time work in a directory: two would write one checkpoint."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("w") as lock:  # its end frees it, however it comes
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            raise PipelineError(f"--out {out}: another archive is at work in it") from None
        yield


def given_options(texts: Iterable[str]) -> dict[str, str]:
    """Read `--option NAME=VALUE`."""
    pairs = [text.partition("=") for text in texts]
    for name, sign, _ in pairs:
        if not sign:
            raise PipelineError(f"--option {name}: NAME=VALUE is meant")
    return {name: value for name, _, value in pairs}


def gather(topic: str, options: ReadOptions) -> None:
    """Let the durable subscription that is read hear a topic from now on; made if not there."""
    name = options.subscribe[0].removeprefix("/dsub/")
    with connected(options.places, "--input", topic) as client:
        # Without credit: it is there to be made, not to be read.
        client.subscribe(topic, [("durable-subscription-name", name), ("credit", "0,0")])


def start(
    spark: SparkSession, options: dict[str, str], out: Path, every_s: float
) -> StreamingQuery:
    """Start the stream: up to what is there now, or on and on."""
    rows = spark.readStream.format("covey").options(**options).load()
    dated = rows.withColumn("day", F.to_date(F.coalesce("ts", F.current_timestamp())))
    writer = (
        dated.writeStream.format("parquet")
        .partitionBy("queue", "day")
        .option("path", str(out / "messages"))
        .option("checkpointLocation", str(out / "checkpoint"))
    )
    if every_s:
        return writer.trigger(processingTime=f"{every_s} seconds").start()
    return writer.trigger(availableNow=True).start()


def _wait(query: StreamingQuery) -> None:
    """Wait for the end, or for a signal to make one: an interrupted call of Java would not do."""
    is_asked = Event()

    def ask(number: int, frame: FrameType | None) -> None:
        is_asked.set()

    before = {number: signal.signal(number, ask) for number in ENDING}
    try:
        while not query.awaitTermination(LOOK_EVERY_S):
            if is_asked.is_set():
                query.stop()
    except PySparkException:
        if not is_asked.is_set():  # else the signal reached Spark's own processes as well
            raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def archived(spark: SparkSession, out: Path) -> DataFrame:
    """Return everything that was ever archived into a directory."""
    place = out / "messages"
    place.mkdir(parents=True, exist_ok=True)
    schema = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in SCHEMA)
    return spark.read.schema(f"{schema}, day date").parquet(str(place))


def report(spark: SparkSession, out: Path) -> int:
    """Write the page; return how many messages there are."""
    found = (
        archived(spark, out)
        .groupBy("queue")
        .agg(
            F.count("*").alias("messages"),
            F.sum(F.length("value")).alias("size"),
            F.min("seq").alias("first"),
            F.max("seq").alias("last"),
            F.countDistinct("group_id").alias("groups"),
        )
        .orderBy(F.desc("messages"))
        .collect()
    )
    page = Report("Archive")
    page.text(f"{sum(row.messages for row in found):,} messages in {out / 'messages'}")
    page.table(
        ("queue", "messages", "bytes", "first number", "last number", "groups"),
        [(row.queue, row.messages, row.size, row.first, row.last, row.groups) for row in found],
    )
    if found:
        shown = found[:QUEUES_SHOWN]
        names = [row.queue for row in shown]
        page.figure(bars(names, [row.messages for row in shown], "messages"), "messages by queue")
    page.write(out / "archive.html")
    return sum(row.messages for row in found)


def add_options(parser: ArgumentParser) -> None:
    """Add how long to go on, and what to leave behind."""
    parser.add_argument(
        "--trim", action="store_true", help="remove from the queue what is safely archived"
    )
    parser.add_argument(
        "--every",
        type=float,
        default=0.0,
        metavar="S",
        help="go on and look every S seconds, until interrupted (default: what is there now)",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the data source, such as failOnDataLoss=false",
    )
    parser.add_argument(
        "--batch-rows",
        type=int,
        default=BATCH_ROWS,
        metavar="N",
        help=f"messages of one batch (default {BATCH_ROWS})",
    )


JOB: Final = Job(
    "write a queue or topic to Parquet, each message exactly once",
    add_options,
    check,
    run,
    "covey://[user@]host[:port]/queue, or .../topic/NAME",
)
