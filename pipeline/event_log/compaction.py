"""Compaction: merges the many small files of an event log into a few large ones.

Audits may read the log meanwhile. A broker finishes a file each minute, which is half a million a
year. `plan` groups the small files of one run and one hour by their names, sizes and ages alone.
`merge` writes one large file:

1. The new file first has a name that readers do not see. It is written row group by row group, so
   its size costs no memory.
2. It is renamed to `events-RUN-FIRST-LAST.parquet` in one step. From then on it replaces all files
   of its run that begin between these two events. A reader that lists the directory sees either
   only the small files, or all of them. Then it ignores those that are replaced (`reader`).
3. The small files stay for an hour, for readers that have listed them before. A later call removes
   them (`Housekeeping.replaced`).

A merge that is killed leaves a file that nobody sees, and the next call writes it anew. Do not run
two calls at the same time: they might group the same files differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from covey.pipeline.errors import PipelineError
from covey.pipeline.event_log.reader import (
    ALWAYS,
    HOUR,
    HOUR_LENGTH,
    NAME,
    LogFile,
    Period,
    named_file,
    without_replaced,
)
from covey.pipeline.event_log.schema import ARROW_SCHEMA
from covey.pipeline.event_log.writer import ROW_GROUP_EVENTS, open_parquet

UNFINISHED: Final = re.compile(r"_events-.+-\d{16}-\d{16}\.parquet\.part")
UNFINISHED_FOR: Final = timedelta(days=1)  # no merge takes that long


class Stored(NamedTuple):
    """A file of a log, and what its file system says of it."""

    file: LogFile
    size: int
    changed: datetime

    @property
    def folder(self) -> str:
        """Return the directory of its hour."""
        return str(PurePosixPath(self.file.path).parent)


class Housekeeping(NamedTuple):
    """What to do with the files of a log."""

    merges: list[list[Stored]]
    replaced: list[Stored]  # a larger file has replaced them, longer ago than the grace
    outdated: list[Stored]  # older than a log is kept


class Rules(NamedTuple):
    """How a log is kept."""

    size: int  # about how large a merged file is
    age: timedelta  # younger files are left alone
    grace: timedelta  # how long replaced files stay
    keep: timedelta | None  # None: for ever
    period: Period = ALWAYS


def stored_files(system: fs.FileSystem, path: str) -> tuple[list[Stored], list[str]]:
    """Return the files of a log, and those that a merge has not finished."""
    found: list[Stored] = []
    unfinished: list[str] = []
    for info in system.get_file_info(fs.FileSelector(path, recursive=True)):
        file = named_file(info.path)
        if info.type == fs.FileType.File and file.run:
            found.append(Stored(file, info.size, info.mtime.astimezone(UTC)))
        elif UNFINISHED.fullmatch(info.base_name):
            if datetime.now(UTC) - info.mtime.astimezone(UTC) > UNFINISHED_FOR:
                unfinished.append(info.path)
    return found, unfinished


def plan(files: list[Stored], rules: Rules, now: datetime) -> Housekeeping:
    """Decide what to do with the files of a log."""
    outdated = [one for one in files if rules.keep is not None and now - _time(one) > rules.keep]
    gone = set(outdated)
    current = [one for one in files if one not in gone]
    counting = set(without_replaced([one.file for one in current]))
    living = [one for one in current if one.file in counting]
    large = [one for one in living if one.file.last_eid]
    replaced = [
        one
        for one in current
        if one.file not in counting and now - _replaced_at(one, large) >= rules.grace
    ]
    small = [
        one
        for one in living
        if one.file.run
        and one.size < rules.size // 2
        and now - one.changed >= rules.age
        and rules.period.admits(one.file.path)
    ]
    return Housekeeping(list(_merges(small, living, rules.size)), replaced, outdated)


def _replaced_at(one: Stored, large: list[Stored]) -> datetime:
    """Return when a larger file has replaced this one."""
    file = one.file
    return max(
        other.changed
        for other in large
        if other.file.run == file.run
        and other.file.first_eid <= file.first_eid <= other.file.last_eid
    )


def _merges(small: list[Stored], living: list[Stored], size: int) -> Iterator[list[Stored]]:
    """Yield the small files to merge: they follow each other in one run and folder.

    Two files with another file between them are not merged, because a merged file replaces all
    files that begin within its range.
    """
    small_ones = set(small)
    gathered: list[Stored] = []
    total = 0
    for one in sorted(living, key=lambda one: (one.file.run, one.file.first_eid)):
        is_small = one in small_ones
        if gathered:
            last = gathered[-1]
            is_next = (one.file.run, one.folder) == (last.file.run, last.folder)
            if not is_small or not is_next or total + one.size > size:
                if len(gathered) > 1:
                    yield gathered
                gathered, total = [], 0
        if is_small:
            gathered.append(one)
            total += one.size
    if len(gathered) > 1:
        yield gathered


def _time(one: Stored) -> datetime:
    """Return the latest possible time of a file's last event."""
    found = HOUR.search(one.file.path)
    if found is None:
        return one.changed
    return datetime.fromisoformat(f"{found[1]}T{found[2]}:00:00+00:00") + HOUR_LENGTH


def merge(system: fs.FileSystem, paths: list[str]) -> str:
    """Write files of one run, in the order of their events, into one; return its path."""
    folder = PurePosixPath(paths[0]).parent
    name = merged_name(paths[0], _last_eid(system, paths[-1]))
    unfinished = str(folder / f"_{name}.part")
    with system.open_output_stream(unfinished) as out, open_parquet(out) as writer:
        for table in _row_groups(system, paths):
            writer.write_table(table)
    system.move(unfinished, str(folder / name))
    return str(folder / name)


def merged_name(first: str, last_eid: int) -> str:
    """Name the file that replaces those from a file on, up to an event."""
    found = NAME.fullmatch(PurePosixPath(first).name)
    assert found is not None, first
    return f"events-{found[1]}-{found[2]}-{last_eid:016d}.parquet"


def _row_groups(system: fs.FileSystem, paths: list[str]) -> Iterator[pa.Table]:
    known: list[pa.Table] = []
    rows = 0
    for path in paths:
        for batch in _batches(system, path):
            known.append(batch)
            rows += batch.num_rows
            if rows >= ROW_GROUP_EVENTS:
                yield pa.concat_tables(known)
                known, rows = [], 0
    if known:
        yield pa.concat_tables(known)


def _batches(system: fs.FileSystem, path: str) -> Iterator[pa.Table]:
    """Yield the row groups of a file; columns that an older log lacks are null."""
    with system.open_input_file(path) as source:
        try:
            file = pq.ParquetFile(source)
        except pa.ArrowException as error:
            raise PipelineError(f"--input: {path} is no whole Parquet file") from error
        for number in range(file.num_row_groups):
            table = file.read_row_group(number)
            columns = [
                table[field.name].cast(field.type)
                if field.name in table.column_names
                else pa.nulls(table.num_rows, field.type)
                for field in ARROW_SCHEMA
            ]
            yield pa.Table.from_arrays(columns, schema=ARROW_SCHEMA)


def _last_eid(system: fs.FileSystem, path: str) -> int:
    named = NAME.fullmatch(PurePosixPath(path).name)
    if named and named[3]:
        return int(named[3])
    return max(int(table["eid"].to_numpy().max()) for table in _batches(system, path))
