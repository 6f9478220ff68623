"""Reading an event log: a directory or a single file, on any file system pyarrow knows.

Every footer is read before Spark is asked. So a file that is no whole Parquet file, or of a newer
schema, is named in one sentence. Files that begin with `_` or `.` are being written, or were when
the broker's machine died. They are no part of the log.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from covey.core.events.event import SCHEMA_VERSION
from covey.core.events.event_log import HOST_MARK
from covey.core.naming.destination import TEMPORARY_ROOT
from covey.pipeline.errors import PipelineError
from covey.pipeline.event_log.schema import SPARK_SCHEMA, VERSION_KEY

HIDDEN: Final = ("_", ".")


def read_log(spark: SparkSession, place: str) -> DataFrame:
    """Return the events at a place, in no order; raises PipelineError if they cannot be read."""
    files = log_files(place)
    scheme = f"{place.partition('://')[0]}://" if "://" in place else "file://"
    return spark.read.schema(SPARK_SCHEMA).parquet(*[scheme + file for file in files])


def lasting(events: DataFrame) -> DataFrame:
    """Return the events of queues that outlive a connection: of these there is something to say."""
    name = F.substring_index("queue", HOST_MARK, -1)
    return events.where(~name.startswith(TEMPORARY_ROOT))


def log_files(place: str) -> list[str]:
    """Return the finished files of a log, each checked; raises PipelineError naming a bad one."""
    try:
        system, path = file_system(place)
        info = system.get_file_info(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise PipelineError(f"--input {place}: {_first_line(error)}") from error
    if info.type == fs.FileType.NotFound:
        raise PipelineError(f"--input {place}: there is no such file or directory")
    files = [path] if info.is_file else _files_in(system, path)
    if not files:
        raise PipelineError(f"--input {place}: there is no finished file of an event log in it")
    for file in files:
        _check(system, file)
    return files


def check_input(options: Namespace) -> None:
    """Raise PipelineError if a job's `--input` is no event log that this covey can read."""
    log_files(options.input)


def file_system(place: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a place, and the path in it."""
    if "://" in place:
        system, path = fs.FileSystem.from_uri(place)
        return system, path
    return fs.LocalFileSystem(), str(Path(place).resolve())


def kind_is(*kinds: int) -> Column:
    """Return the test for events of these kinds."""
    return F.col("kind").isin(*[int(kind) for kind in kinds])


def _files_in(system: fs.FileSystem, path: str) -> list[str]:
    found = system.get_file_info(fs.FileSelector(path))
    return sorted(
        info.path
        for info in found
        if info.is_file
        and not info.base_name.startswith(HIDDEN)
        and info.base_name.endswith(".parquet")
    )


def _check(system: fs.FileSystem, file: str) -> None:
    try:
        schema = pq.read_schema(file, filesystem=system)
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"--input: {file} is no whole Parquet file") from error
    version = (schema.metadata or {}).get(VERSION_KEY)
    if version is None:
        raise PipelineError(f"--input: {file} is Parquet, but not of an event log")
    if int(version) > SCHEMA_VERSION:
        raise PipelineError(
            f"--input: {file} has schema {int(version)}, this covey reads up to {SCHEMA_VERSION};"
            " use the covey-pipeline of the broker that wrote it"
        )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
