"""Compaction: which files are merged and removed, and that a reader never sees an event twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from covey.pipeline.errors import PipelineError
from covey.pipeline.event_log.compaction import Rules, Stored, merge, plan, stored_files
from covey.pipeline.event_log.reader import LogFile, Period, log_files
from covey.pipeline.event_log.schema import ARROW_SCHEMA
from tests.pipeline.support import Diary, Direct, tell

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
RULES = Rules(100, HOUR, HOUR, timedelta(days=30))


def stored(
    first: int, last: int = 0, *, size: int = 10, hours: float = 5, hour: str = "07", run: str = "r"
) -> Stored:
    """Make up a file of the day, so many hours old."""
    end = f"-{last:016d}" if last else ""
    path = f"/log/date=2026-11-18/hour={hour}/events-{run}-{first:016d}{end}.parquet"
    return Stored(LogFile(path, run, first, last), size, NOW - hours * HOUR)


def merges_of(*files: Stored, rules: Rules = RULES) -> list[list[int]]:
    return [[one.file.first_eid for one in merged] for merged in plan([*files], rules, NOW).merges]


def test_small_files_of_a_run_and_hour_are_merged_up_to_the_size() -> None:
    files = [stored(first, size=40) for first in (1, 11, 21, 31, 41)]
    assert merges_of(*files) == [[1, 11], [21, 31]]
    apart = [
        stored(1),
        stored(11),
        stored(21, hour="08"),
        stored(1, run="s"),
        stored(31, hour="08"),
    ]
    assert merges_of(*apart) == [[1, 11], [21, 31]]


def test_young_and_large_files_are_left_and_nothing_is_merged_around_them() -> None:
    assert merges_of(stored(1), stored(11, hours=0.5), stored(21)) == []
    assert merges_of(stored(1), stored(11, size=60), stored(21)) == []
    behind = (stored(1), stored(11, hour="06"), stored(21))  # the clock was set back
    assert merges_of(*behind) == []
    late = Rules(100, HOUR, HOUR, None, Period(since=NOW))
    assert merges_of(stored(1), stored(11), rules=late) == []


def test_replaced_files_go_after_their_time_of_grace_and_old_ones_after_their_days() -> None:
    small = [stored(1), stored(11)]
    work = plan([*small, stored(1, 20, hours=0.5)], RULES, NOW)
    assert (work.merges, work.replaced, work.outdated) == ([], [], [])
    work = plan([*small, stored(1, 20, hours=2)], RULES, NOW)
    assert work.replaced == small
    work = plan(small, Rules(100, HOUR, HOUR, timedelta(hours=3)), NOW)
    assert (work.outdated, work.merges) == (small, [])
    again = [stored(1, 20), stored(21), stored(31)]
    assert merges_of(*again) == [[1, 21, 31]]


def write_log(directory: Path) -> list[str]:
    """Write a log of several files; return their paths in order."""
    directory.mkdir(parents=True, exist_ok=True)
    log = Diary(Direct(directory, "r1", rotate_bytes=1))
    for number in range(1, 7):
        tell(log, "q", "g", f"in {number}")
        log.flush()
    log.close()
    return [file.path for file in log_files(str(directory))]


def events_of(directory: Path) -> pa.Table:
    files = [file.path for file in log_files(str(directory))]
    tables = [pq.ParquetFile(path).read() for path in files]
    return pa.concat_tables(tables).sort_by("eid")


def test_a_reader_sees_each_event_once_before_during_and_after_a_merge(tmp_path: Path) -> None:
    paths = write_log(tmp_path)
    assert len(paths) > 2
    before = events_of(tmp_path)
    system = fs.LocalFileSystem()
    made = merge(system, paths[1:])
    assert events_of(tmp_path).equals(before)
    assert [file.path for file in log_files(str(tmp_path))] == [paths[0], made]
    for path in paths[1:]:
        Path(path).unlink()
    again = merge(system, [paths[0], made])
    assert events_of(tmp_path).equals(before)
    files, unfinished = stored_files(system, str(tmp_path))
    assert sorted(one.file.path for one in files) == sorted([paths[0], made, again])
    assert unfinished == []
    assert pq.read_schema(again).metadata.items() >= ARROW_SCHEMA.metadata.items()


def test_columns_that_an_older_log_has_not_are_null(tmp_path: Path) -> None:
    paths = write_log(tmp_path)
    for path in paths:
        pq.write_table(pq.ParquetFile(path).read().select(ARROW_SCHEMA.names[:8]), path)
    table = pq.ParquetFile(merge(fs.LocalFileSystem(), paths)).read()
    assert table.schema.equals(ARROW_SCHEMA)
    assert table["virtual_host"].null_count == table.num_rows


def test_a_file_that_is_not_whole_ends_the_merge_and_leaves_nothing_to_be_seen(
    tmp_path: Path,
) -> None:
    paths = write_log(tmp_path)
    Path(paths[1]).write_bytes(b"PAR1")
    with pytest.raises(PipelineError, match="is no whole Parquet file"):
        merge(fs.LocalFileSystem(), paths)
    assert len(list(tmp_path.rglob("*.parquet"))) == len(paths)
