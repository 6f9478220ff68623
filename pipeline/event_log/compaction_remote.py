"""Compaction of a log elsewhere (`s3a://`, `hdfs://`, ...): by Spark and its Java alone.

So such a log needs no library and no credentials besides Spark's. Each merge is a job of Spark with
one task. It writes into `LOG/_compacting`, which readers do not see. From there the file is moved
to its place in one step. Its rows are in no promised order: no reader asks for one.

A call that is killed leaves files in `_compacting`; the next one removes them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from covey.pipeline.errors import PipelineError, one_line
from covey.pipeline.event_log.compaction import Housekeeping, Stored, merged_name
from covey.pipeline.event_log.reader import listed_files, named_file, read_files
from covey.pipeline.places import RemotePlace
from covey.pipeline.spark import parallelism

WORK: Final = "_compacting"
ROW_GROUP_BYTES: Final = 16 << 20


class Written(NamedTuple):
    """A merged file that has not its name yet."""

    folder: RemotePlace  # Spark writes folders; it has one file
    name: RemotePlace


def stored_files(spark: SparkSession, place: str) -> list[Stored]:
    """Return the files of a log."""
    columns = ("path", "length", F.unix_micros("modificationTime").alias("changed"))
    try:
        rows = listed_files(spark, place).select(*columns).collect()
    except PySparkException as error:
        raise PipelineError(f"--input {place}: {one_line(error)}") from error
    found = [(named_file(row.path), row) for row in rows]
    return [
        Stored(file, row.length, datetime.fromtimestamp(row.changed / 1e6, UTC))
        for file, row in found
        if file.run
    ]


def merge_all(spark: SparkSession, place: str, merges: list[list[Stored]]) -> int:
    """Merge files, several merges at a time; return the number of new files."""
    work = RemotePlace(place) / WORK
    work.remove()

    def write(number: int) -> Written:
        return _write(spark, work / str(number), [one.file.path for one in merges[number]])

    try:
        with ThreadPoolExecutor(parallelism(spark)) as pool:
            for written in pool.map(write, range(len(merges))):
                (part,) = [one for one in written.folder.children() if one.name.startswith("part-")]
                part.move(written.name)
    except PySparkException as error:
        raise PipelineError(f"--input {place}: {one_line(error)}") from error
    finally:
        work.remove()
    return len(merges)


def _write(spark: SparkSession, folder: RemotePlace, paths: list[str]) -> Written:
    (last,) = read_files(spark, paths[-1:]).agg(F.max("eid")).collect()
    rows = read_files(spark, paths).coalesce(1)
    options = {"compression": "zstd", "parquet.block.size": str(ROW_GROUP_BYTES)}
    rows.write.options(**options).parquet(folder.url)
    parent = RemotePlace(paths[0].rpartition("/")[0])
    return Written(folder, parent / merged_name(paths[0], last[0]))


def remove(work: Housekeeping) -> None:
    """Delete files that are replaced or outdated."""
    for one in (*work.replaced, *work.outdated):
        RemotePlace(one.file.path).remove()
