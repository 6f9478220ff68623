"""archive: a queue or a topic as partitioned Parquet, each message exactly once.

    DIR/messages      queue=.../day=.../*.parquet; read it with Spark, which ignores files of
                      batches that were not finished (`_spark_metadata` lists the valid files)
    DIR/checkpoint    how far the job is: call it again with the same DIR and it goes on there
    DIR/totals.json   the figures of each queue so far, so that only new files need counting; and
                      the format, which must stay the same
    DIR/archive.html  the report

`--format delta` (or another format that the session knows) and `--table NAME` write a table
instead. Other programs can read such a table correctly while the job runs.

The job only browses a queue, unless `--trim` removes the messages that are safely archived. A topic
keeps no messages. So the job's first call makes a durable subscription `archive.TOPIC`, which
gathers what is sent from then on. The job trims that subscription. `day` is the day of the
message's own time, or of its archiving if it has none.
"""

from __future__ import annotations

import json
import signal
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from math import inf
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any, Final
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from covey.pipeline.datasource.client import connected
from covey.pipeline.datasource.columns import SCHEMA
from covey.pipeline.datasource.options import Address, ReadOptions, parse_address, read_options
from covey.pipeline.datasource.source import register
from covey.pipeline.errors import PipelineError, one_line
from covey.pipeline.job import Job, Task
from covey.pipeline.places import Place, put_text, readable, url_of
from covey.pipeline.report import Report, bars

TOPIC: Final = "/topic/"
BATCH_ROWS: Final = 200_000  # so that a batch is written, or repeated, quickly
QUEUES_SHOWN: Final = 50
PARQUET: Final = "parquet"
TOTALS: Final = "totals.json"
FORM: Final = ("format", "table")
FIGURES: Final = ("messages", "size", "first", "last", "groups")
ENDING: Final = (signal.SIGINT, signal.SIGTERM)
LOOK_EVERY_S: Final = 1


def check(options: Namespace) -> None:
    """Check the address and the options, and log in to the broker once."""
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
                client.figures(queue)  # fails unless this is one queue that we may browse


def run(task: Task) -> int:
    """Archive the messages that are there, or all that come."""
    out: Place = task.options.out
    address = parse_address("--input", task.options.input)
    given = given_options(task.options.option)
    trims, rows = task.options.trim, task.options.batch_rows
    options = source_options(address, given, trims=trims, rows=rows)
    if address.destination.startswith(TOPIC):
        gather(address.destination, read_options(options, is_stream=True))
    register(task.spark)
    task.progress.step(f"archiving {address.destination}")
    try:
        with alone(out):
            keep_form(task.options)
            _wait(start(task, options))
    except PySparkException as error:
        raise PipelineError(one_line(error)) from error
    task.progress.step("counting")
    now, total = count_new(task)
    target = task.options.table or out / "messages"
    task.progress.answer(f"archive: {now:,} messages now, {total:,} in all, in {target}")
    return 0


def source_options(
    address: Address, given: dict[str, str], *, trims: bool, rows: int
) -> dict[str, str]:
    """Return the options to read a queue, or the durable subscription that gathers a topic."""
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
def alone(out: Place) -> Iterator[None]:
    """Let only one job at a time work in a directory: two would write the same checkpoint.

    A directory on another file system has no lock. There Spark fails the second job's batches.
    """
    if not isinstance(out, Path):
        yield
        return
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("w") as lock:  # the system frees the lock when the process ends
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            raise PipelineError(f"--out {out}: another archive is at work in it") from None
        yield


def keep_form(options: Namespace) -> None:
    """Note the format and the table; raises PipelineError if the archive was begun with others.

    All calls share a checkpoint. So another table would get only what the first has not.
    """
    out: Place = options.out
    wanted = {name: getattr(options, name) for name in FORM}
    known = totals_of(out)
    begun = {name: known.get(name, wanted[name]) for name in FORM}
    if begun != wanted:
        said = " ".join(f"--{name} {text}" for name, text in begun.items() if text)
        raise PipelineError(f"--out {out}: what is there was begun with {said}; name another --out")
    put_text(out / TOTALS, json.dumps({"queues": {}, **known, **wanted}))


def totals_of(out: Place) -> dict[str, Any]:
    """Return what `totals.json` has; empty if it is not there."""
    file = out / TOTALS
    return json.loads(file.read_text()) if file.exists() else {}


def given_options(texts: Iterable[str]) -> dict[str, str]:
    """Read `--option NAME=VALUE`."""
    pairs = [text.partition("=") for text in texts]
    for name, sign, _ in pairs:
        if not sign:
            raise PipelineError(f"--option {name}: NAME=VALUE is meant")
    return {name: value for name, _, value in pairs}


def gather(topic: str, options: ReadOptions) -> None:
    """Subscribe to a topic durably, so that its messages are gathered from now on."""
    name = options.subscribe[0].removeprefix("/dsub/")
    with connected(options.places, "--input", topic) as client:
        # Without credit: this only creates the subscription and reads nothing.
        client.subscribe(topic, [("durable-subscription-name", name), ("credit", "0,0")])


def start(task: Task, options: dict[str, str]) -> StreamingQuery:
    """Start the stream: up to the messages that are there now, or without an end."""
    out, every_s = task.options.out, task.options.every
    rows = task.spark.readStream.format("covey").options(**options).load()
    dated = rows.withColumn("day", F.to_date(F.coalesce("ts", F.current_timestamp())))
    writer = (
        dated.writeStream.format(task.options.format)
        .partitionBy("queue", "day")
        .option("checkpointLocation", url_of(out / "checkpoint"))
    )
    if every_s:
        writer = writer.trigger(processingTime=f"{every_s} seconds")
    else:
        writer = writer.trigger(availableNow=True)
    if task.options.table:
        return writer.toTable(task.options.table)
    return writer.option("path", url_of(out / "messages")).start()


def _wait(query: StreamingQuery) -> None:
    """Wait until the query ends, or stop it on a signal; never interrupt a call into Java."""
    is_asked = Event()

    def ask(number: int, frame: FrameType | None) -> None:
        is_asked.set()

    before = {number: signal.signal(number, ask) for number in ENDING}
    try:
        while not query.awaitTermination(LOOK_EVERY_S):
            if is_asked.is_set():
                query.stop()
    except PySparkException:
        if not is_asked.is_set():  # else Spark's processes got the signal, too
            raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def archived(spark: SparkSession, out: Place) -> DataFrame:
    """Return all messages that were ever archived into a directory, or into its table."""
    place = out / "messages"
    form = totals_of(out)
    if form.get("table") or form.get("format", PARQUET) != PARQUET:
        return _table(spark, place, form["format"], form["table"])
    if isinstance(place, Path):
        place.mkdir(parents=True, exist_ok=True)
    return spark.read.schema(stored_columns()).parquet(url_of(place))


def _table(spark: SparkSession, place: Place, format_name: str, table: str) -> DataFrame:
    if table:
        return spark.read.table(table)
    return spark.read.format(format_name).load(url_of(place))


def stored_columns() -> str:
    """Return the columns of an archive as SQL has them."""
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in SCHEMA)
    return f"{columns}, day date"


def count_new(task: Task) -> tuple[int, int]:
    """Count the messages since the last call; return that number and the total."""
    out = task.options.out
    known = totals_of(out)
    queues: dict[str, dict[str, Any]] = known.get("queues", {})
    before = sum(one["messages"] for one in queues.values())
    new, seen = new_rows(task, known)
    if new is not None:
        for row in summed(new).collect():
            queues[row.queue] = added(queues.get(row.queue), row)
    put_text(out / TOTALS, json.dumps({**known, "queues": queues, **seen}))
    total = sum(one["messages"] for one in queues.values())
    show(queues, total, out, str(task.options.table or out / "messages"))
    return total - before, total


def new_rows(task: Task, known: dict[str, Any]) -> tuple[DataFrame | None, dict[str, Any]]:
    """Return the rows that were not counted yet, and what the next call must know.

    In plain Parquet these are the files of newer batches, as listed in Spark's metadata. In a table
    these are the rows above the last known sequence number of each queue.
    """
    spark, out, options = task.spark, task.options.out, task.options
    if options.table or options.format != PARQUET or not isinstance(out, Path):
        rows = _table(spark, out / "messages", options.format, options.table)
        lasts = {name: one["last"] for name, one in known.get("queues", {}).items()}
        if lasts:
            pairs = [F.lit(item) for pair in lasts.items() for item in pair]
            known_last = F.coalesce(F.create_map(*pairs)[F.col("queue")], F.lit(-1))
            rows = rows.where(F.col("seq") > known_last)
        return rows, {}
    files, last = finished_files(out / "messages", known.get("batch", -1))
    if not files:
        return None, {"batch": last}
    reader = spark.read.schema(stored_columns()).option("basePath", url_of(out / "messages"))
    return reader.parquet(*map(readable, files)), {"batch": last}


def finished_files(messages: Path, after: int) -> tuple[list[str], int]:
    """Return the files of all batches after a given one, from Spark's notes, and the last batch.

    Spark writes a note for each batch. Every ten batches it writes a compact note, which repeats
    all notes before. The single notes are deleted a while later. Where they are gone, the new files
    are those that the compact note lists and the compact note before it does not.
    """
    notes = {
        (int(note.name.removesuffix(".compact")), note.name.endswith(".compact")): note
        for note in (messages / "_spark_metadata").glob("[0-9]*")
    }
    if not notes:
        return [], after
    last = max(number for number, _ in notes)
    whole = max((number for number, is_whole in notes if is_whole and number <= after), default=-1)
    base = max((number for number, is_whole in notes if is_whole), default=-1)
    files: dict[str, None] = {}
    if base > after:
        files |= dict.fromkeys(_paths(notes[base, True]))
        if whole >= 0:
            for path in _paths(notes[whole, True]):
                files.pop(path, None)
        begin = whole + 1
        for number in range(begin, after + 1):
            note = notes.get((number, False))
            for path in _paths(note) if note is not None else ():
                files.pop(path, None)
    for number in range(max(base, after) + 1, last + 1):
        files |= dict.fromkeys(_paths(notes[number, False]))
    return list(files), last


def _paths(note: Path) -> list[str]:
    return [unquote(json.loads(line)["path"]) for line in note.read_text().splitlines()[1:]]


def summed(rows: DataFrame) -> DataFrame:
    """Return the figures of each queue in these rows."""
    return rows.groupBy("queue").agg(
        F.count("*").alias("messages"),
        F.sum(F.length("value")).alias("size"),
        F.min("seq").alias("first"),
        F.max("seq").alias("last"),
        F.approx_count_distinct("group_id").alias("groups"),
    )


def added(known: dict[str, Any] | None, row: Row) -> dict[str, Any]:
    """Return a queue's known figures with those of new rows added."""
    if known is None:
        return {name: row[name] for name in FIGURES}
    return {
        "messages": known["messages"] + row.messages,
        "size": known["size"] + (row.size or 0),
        "first": min(known["first"], row["first"]),
        "last": max(known["last"], row["last"]),
        "groups": max(known["groups"], row.groups),
    }


def show(queues: dict[str, dict[str, Any]], total: int, out: Place, target: str) -> None:
    """Write the report."""
    found = sorted(queues.items(), key=lambda item: (-item[1]["messages"], item[0]))
    page = Report("Archive")
    page.lead(f"{total:,} messages in {target}")
    if found:
        shown = found[:QUEUES_SHOWN]
        counts = [one["messages"] for _, one in shown]
        page.figure(bars([name for name, _ in shown], counts, "messages"), "messages by queue")
    page.table(
        ("queue", "messages", "bytes", "first number", "last number", "groups"),
        [(name, *(one[key] for key in FIGURES)) for name, one in found],
        {"groups": "the most that one call has seen, estimated", "bytes": "of the bodies"},
    )
    page.write(out, "archive")


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this job."""
    parser.add_argument(
        "--format", default=PARQUET, metavar="F", help="as in delta, where the session knows it"
    )
    parser.add_argument("--table", default="", metavar="NAME", help="write a table of the catalog")
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
