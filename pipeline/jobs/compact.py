"""compact: keep an event log small in files and in days, while brokers write it and audits read it.

    covey-pipeline compact --input events [--size 256M] [--keep-days 90]

Small files of one run and hour become one file of about `--size`. Each merge is a Spark task. The
small files stay beside the new one for an hour (`--grace-minutes`), because somebody may be reading
them. A later call removes them. `--keep-days` removes older files. Call the job once an hour or
once a day. A call that finds nothing to do does nothing.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import SparkSession

from covey.pipeline.errors import PipelineError
from covey.pipeline.event_log import compaction_remote
from covey.pipeline.event_log.compaction import Housekeeping, Rules, merge, plan, stored_files
from covey.pipeline.event_log.reader import is_remote, local, period_of
from covey.pipeline.job import Job, Task

SIZE: Final = "256M"
UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
SIZE_TEXT: Final = re.compile(r"([1-9]\d*)([kmgKMG]?)")
MERGED_SCHEMA: Final = "path string, files int"


def rules_of(options: Namespace) -> Rules:
    """Read the options; raises PipelineError that names the one that is wrong."""
    size = SIZE_TEXT.fullmatch(options.size)
    if size is None:
        raise PipelineError(f"--size {options.size}: a size as 256M is meant")
    for name in ("age_minutes", "grace_minutes", "keep_days"):
        if getattr(options, name) < 0:
            raise PipelineError(f"--{name.replace('_', '-')}: a number from 0 on is meant")
    return Rules(
        int(size[1]) * UNITS[size[2].lower()],
        timedelta(minutes=options.age_minutes),
        timedelta(minutes=options.grace_minutes),
        timedelta(days=options.keep_days) if options.keep_days else None,
        period_of(options),
    )


def check(options: Namespace) -> None:
    """Check that there is a log, and that the options are valid."""
    rules_of(options)
    if not options.input:
        raise PipelineError("--input: name the event log")
    if is_remote(options.input):
        return
    folder = local(options.input)
    if not folder.is_dir():
        raise PipelineError(f"--input {options.input}: there is no such directory")
    if _has_other_things(folder) and not any(stored_files(fs.LocalFileSystem(), str(folder))):
        raise PipelineError(f"--input {options.input}: nothing in it is of an event log")


def run(task: Task) -> int:
    """Merge and remove; return 0."""
    options = task.options
    if is_remote(options.input):
        sentence = compact_remotely(task, options.input)
    else:
        with alone(local(options.input)):
            sentence = compact_here(task, str(local(options.input)))
    task.progress.answer(sentence)
    return 0


@contextmanager
def alone(log: Path) -> Iterator[None]:
    """Let only one call at a time work on a log of this machine."""
    with (log / ".compact.lock").open("w") as lock:  # the system frees it when the process ends
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            raise PipelineError(f"--input {log}: another compact is at work in it") from None
        yield


def compact_here(task: Task, log: str) -> str:
    """Merge and remove files of this machine, or of one that all workers see; say what was done."""
    system = fs.LocalFileSystem()
    files, unfinished = stored_files(system, log)
    work = plan(files, rules_of(task.options), datetime.now(UTC))
    if not task.options.dry_run:
        task.progress.step(f"merging {sum(map(len, work.merges)):,} files")
        merge_all(task.spark, work)
        gone = [one.file.path for one in (*work.replaced, *work.outdated)]
        for path in (*gone, *unfinished):
            system.delete_file(path)
    return sentence_of(work, is_dry=task.options.dry_run)


def _has_other_things(folder: Path) -> bool:
    """Return True if a folder has what no event log has; one that is empty may be a new log's."""
    names = [each.name for each in folder.iterdir()]
    return any(not name.startswith((".", "date=")) for name in names)


def compact_remotely(task: Task, log: str) -> str:
    """Merge and remove files elsewhere; say what was done."""
    files = compaction_remote.stored_files(task.spark, log)
    work = plan(files, rules_of(task.options), datetime.now(UTC))
    if not task.options.dry_run:
        task.progress.step(f"merging {sum(map(len, work.merges)):,} files")
        compaction_remote.merge_all(task.spark, log, work.merges)
        compaction_remote.remove(work)
    return sentence_of(work, is_dry=task.options.dry_run)


def merge_all(spark: SparkSession, work: Housekeeping) -> None:
    """Run each merge as a Spark task."""
    if not work.merges:
        return
    rows = [([one.file.path for one in files],) for files in work.merges]
    asked = spark.createDataFrame(rows, "paths array<string>").repartition(len(rows))
    asked.mapInArrow(_merge, MERGED_SCHEMA).count()


def _merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for paths in batch.column("paths").to_pylist():
            made = [merge(fs.LocalFileSystem(), paths)]
            yield pa.RecordBatch.from_pydict(
                {"path": made, "files": pa.array([len(paths)], pa.int32())}
            )


def sentence_of(work: Housekeeping, *, is_dry: bool) -> str:
    """Say what was done."""
    small = sum(map(len, work.merges))
    would = "would be " if is_dry else ""
    return (
        f"compact: {small:,} files {would}merged into {len(work.merges):,},"
        f" {len(work.replaced):,} replaced and {len(work.outdated):,} old ones {would}removed"
    )


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this job."""
    parser.add_argument("--size", default=SIZE, help=f"of a new file, about (default {SIZE})")
    parser.add_argument("--keep-days", type=float, default=0, metavar="N", help="remove older ones")
    parser.add_argument(
        "--age-minutes", type=float, default=60, metavar="N", help="leave younger files (60)"
    )
    parser.add_argument(
        "--grace-minutes",
        type=float,
        default=60,
        metavar="N",
        help="how long files stay beside the one that replaces them, for who reads them (60)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument("--since", default="", metavar="TIME", help="merge no files before it")
    parser.add_argument("--until", default="", metavar="TIME", help="merge no files from it on")


JOB: Final = Job(
    "merge an event log's small files, and remove old ones", add_options, check, run, has_out=False
)
