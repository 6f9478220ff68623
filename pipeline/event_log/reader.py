"""Reading an event log: a directory or a single file on any file system, or a table.

A log on this machine is checked before Spark is started. So one sentence names an `--input` that is
not there, an incomplete Parquet file, or a file of a newer schema. In a log with very many files
only the first and the last are checked. Spark's tasks read the footers of the others. A log
elsewhere (`s3a://`, `hdfs://`, ...) is listed by Spark, with its own credentials.

The names of files alone decide which files are read:
- Files that begin with `_` or `.` are being written, or were when the broker's machine died.
- `events-RUN-FIRST-LAST.parquet` was made by `compact`. It replaces all files of its run that begin
  in this range of event ids. Those files may still be there.
- `--since` and `--until` leave out the directories of other hours.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from covey.core.events.event import SCHEMA_VERSION
from covey.core.events.event_log import HOST_MARK
from covey.core.naming.destination import TEMPORARY_ROOT
from covey.pipeline.errors import PipelineError, one_line
from covey.pipeline.event_log.schema import ARROW_SCHEMA, SPARK_SCHEMA, VERSION_KEY
from covey.pipeline.places import readable

HIDDEN: Final = ("_", ".")
NAME: Final = re.compile(r"events-(.+?)-(\d{16})(?:-(\d{16}))?\.parquet")
HOUR: Final = re.compile(r"/date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/")
HOUR_LENGTH: Final = timedelta(hours=1)
LATE: Final = timedelta(minutes=5)  # how far a file's events may reach into the next hour
CHECKED_MAX: Final = 64  # files checked before Spark is started
REQUIRED: Final = tuple(ARROW_SCHEMA.names[:8])  # columns that logs of all versions have


class LogFile(NamedTuple):
    """What a file's name tells."""

    path: str
    run: str
    first_eid: int
    last_eid: int  # 0 if the name does not tell


class Period(NamedTuple):
    """From when to when, as `--since` and `--until` say."""

    since: datetime | None = None
    until: datetime | None = None

    def admits(self, path: str) -> bool:
        """Return True if a file may have events of the period."""
        found = HOUR.search(path)
        if found is None:
            return True
        begins = datetime.fromisoformat(f"{found[1]}T{found[2]}:00:00+00:00")
        if self.since is not None and begins + HOUR_LENGTH + LATE <= self.since:
            return False
        return self.until is None or begins < self.until

    def cut(self, events: DataFrame) -> DataFrame:
        """Return the events of the period."""
        if self.since is not None:
            events = events.where(F.col("ts") >= F.lit(self.since))
        if self.until is not None:
            events = events.where(F.col("ts") < F.lit(self.until))
        return events


ALWAYS: Final = Period()


def add_log_options(parser: ArgumentParser) -> None:
    """Add the options that choose a part of a log, or a table."""
    parser.add_argument("--table", default="", metavar="NAME", help="read a table instead")
    parser.add_argument(
        "--since", default="", metavar="TIME", help="leave out events before it (ISO 8601, UTC)"
    )
    parser.add_argument("--until", default="", metavar="TIME", help="leave out events from it on")


def period_of(options: Namespace) -> Period:
    """Read `--since` and `--until`; raises PipelineError if one is not a time."""
    times: list[datetime | None] = []
    for name in ("since", "until"):
        text = getattr(options, name, "")
        try:
            at = datetime.fromisoformat(text) if text else None
        except ValueError:
            raise PipelineError(f"--{name} {text}: a time is meant, as in 2026-11-18T04") from None
        times.append(at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at)
    return Period(*times)


def check_input(options: Namespace) -> None:
    """Raise PipelineError if a job's input is not an event log that this version can read."""
    period = period_of(options)
    if getattr(options, "table", ""):
        if options.input:
            raise PipelineError("--table: give either it or --input")
        return
    if not options.input:
        raise PipelineError("--input: name the event log, or a --table")
    if not is_remote(options.input):
        log_files(options.input, period)


def read_log(spark: SparkSession, options: Namespace) -> DataFrame:
    """Return the events that a job's options choose, in no order."""
    period = period_of(options)
    table = getattr(options, "table", "")
    if table:
        return period.cut(read_table(spark, table))
    files = find_files(spark, options.input, period)
    return period.cut(read_files(spark, [file.path for file in files]))


def read_files(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Return the events of these files."""
    urls = [path if "://" in path or ":/" in path else f"file://{path}" for path in paths]
    return spark.read.schema(SPARK_SCHEMA).parquet(*map(readable, urls))


def read_table(spark: SparkSession, name: str) -> DataFrame:
    """Return the events of a table of any format; columns that it lacks are null."""
    try:
        table = spark.read.table(name)
    except PySparkException as error:
        raise PipelineError(f"--table {name}: {one_line(error)}") from error
    missing = [column for column in REQUIRED if column not in table.columns]
    if missing:
        raise PipelineError(f"--table {name}: it is no event log: it has no {', '.join(missing)}")
    for column in SPARK_SCHEMA.split(","):
        field, kind = column.split()
        if field not in table.columns:
            table = table.withColumn(field, F.lit(None).cast(kind))
    return table.select(*ARROW_SCHEMA.names)


def lasting(events: DataFrame) -> DataFrame:
    """Return the events of queues that outlive a connection: temporary ones say nothing."""
    name = F.substring_index("queue", HOST_MARK, -1)
    return events.where(~name.startswith(TEMPORARY_ROOT) & (F.col("queue") != ""))


def kind_is(*kinds: int) -> Column:
    """Return the test for events of these kinds."""
    return F.col("kind").isin(*[int(kind) for kind in kinds])


def is_remote(place: str) -> bool:
    """Return True if a place is not a path of this machine."""
    return ":/" in place and not place.startswith("file:")


def local(place: str) -> Path:
    """Return the path of a place of this machine."""
    return Path(re.sub("^file:/*(?=/)", "", place)).resolve()


def find_files(spark: SparkSession, place: str, period: Period = ALWAYS) -> list[LogFile]:
    """Return the files of a log, local or remote; raises PipelineError if there are none."""
    if not is_remote(place):
        return log_files(place, period)
    try:
        rows = listed_files(spark, place).select("path").collect()
    except PySparkException as error:
        raise PipelineError(f"--input {place}: {one_line(error)}") from error
    return _chosen(place, [row.path for row in rows], period)


def listed_files(spark: SparkSession, place: str) -> DataFrame:
    """Return the Parquet files below a place of Spark's: path, length, modificationTime."""
    listed = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    return listed.option("pathGlobFilter", "*.parquet").load(place)


def log_files(place: str, period: Period = ALWAYS) -> list[LogFile]:
    """Return the files of a log on this machine; raises PipelineError naming a bad one."""
    path = local(place)
    if not path.exists():
        raise PipelineError(f"--input {place}: there is no such file or directory")
    paths = [path] if path.is_file() else _visible(path)
    files = _chosen(place, [str(one) for one in paths], period)
    checked = files if len(files) <= CHECKED_MAX else [*files[:32], *files[-32:]]
    for file in checked:
        _check(file.path)
    return files


def _visible(folder: Path) -> Iterator[Path]:
    """Yield the Parquet files below a folder, but none of a hidden folder, as Spark does."""
    for path in folder.rglob("*.parquet"):
        if not any(part.startswith(HIDDEN) for part in path.relative_to(folder).parts):
            yield path


def _chosen(place: str, paths: list[str], period: Period) -> list[LogFile]:
    found = [named_file(path) for path in paths if not Path(path).name.startswith(HIDDEN)]
    if not found:
        raise PipelineError(f"--input {place}: there is no finished file of an event log in it")
    files = [file for file in without_replaced(found) if period.admits(file.path)]
    if not files:
        raise PipelineError(f"--input {place}: it has no events of that time")
    return files


def named_file(path: str) -> LogFile:
    """Return what a file's name tells; without a run if it is not one of an event log's writer."""
    found = NAME.fullmatch(Path(path).name)
    if found is None:
        return LogFile(path, "", 0, 0)
    return LogFile(path, found[1], int(found[2]), int(found[3] or 0))


def without_replaced(files: list[LogFile]) -> list[LogFile]:
    """Return the files that no compacted file replaces, in the order of their names."""
    kept: list[LogFile] = []
    reached: dict[str, int] = {}  # by run: the end of the compacted files so far
    for file in sorted(files, key=lambda one: (one.run, one.first_eid, -one.last_eid)):
        end = max(file.first_eid, file.last_eid)
        if file.run and end <= reached.get(file.run, 0):
            continue
        kept.append(file)
        if file.last_eid:
            reached[file.run] = end
    return sorted(kept, key=lambda file: Path(file.path).name)


def _check(file: str) -> None:
    try:
        schema = pq.read_schema(file)
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"--input: {file} is no whole Parquet file") from error
    if any(name not in schema.names for name in REQUIRED):
        raise PipelineError(f"--input: {file} is Parquet, but not of an event log")
    version = int((schema.metadata or {}).get(VERSION_KEY, b"0"))
    if version > SCHEMA_VERSION:
        raise PipelineError(
            f"--input: {file} has schema {version}, this covey reads up to {SCHEMA_VERSION};"
            " use the covey-pipeline of the broker that wrote it"
        )
