"""A log is what is finished in its directory; what cannot be read is named in one sentence.

Events become messages with their times, and work is not counted twice.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from covey.pipeline.errors import PipelineError
from covey.pipeline.event_log.messages import messages, with_service
from covey.pipeline.event_log.reader import (
    LogFile,
    log_files,
    period_of,
    read_log,
    without_replaced,
)
from covey.pipeline.event_log.schema import ARROW_SCHEMA, VERSION_KEY
from tests.pipeline.support import log_in, tell


def write_log(directory: Path) -> Path:
    log = log_in(directory)
    tell(log, "q", "g", "in 1")
    log.close()
    return next(directory.rglob("*.parquet"))


def test_finished_files_are_the_log_and_others_are_not(tmp_path: Path) -> None:
    file = write_log(tmp_path)
    (tmp_path / "_events-x.parquet.part").write_bytes(b"PAR1")
    (tmp_path / ".hidden.parquet").write_bytes(b"")
    (tmp_path / "README").write_text("not a log")
    for place in (str(tmp_path), str(file), f"file://{tmp_path}"):
        assert [one.path for one in log_files(place)] == [str(file)]


def test_a_place_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"--input .*nowhere: there is no such"):
        log_files(str(tmp_path / "nowhere"))


def test_a_directory_without_a_finished_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "_events-x.parquet.part").write_bytes(b"PAR1")
    with pytest.raises(PipelineError, match="no finished file"):
        log_files(str(tmp_path))


@pytest.mark.parametrize("kept", [0, 4, 200])
def test_a_half_written_file_is_named(tmp_path: Path, kept: int) -> None:
    file = write_log(tmp_path)
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(PipelineError, match=rf"{file.name} is no whole Parquet file"):
        log_files(str(tmp_path))


def test_a_newer_schema_is_refused_with_both_versions(tmp_path: Path) -> None:
    schema = ARROW_SCHEMA.with_metadata({VERSION_KEY: b"99"})
    pq.write_table(schema.empty_table(), tmp_path / "events-r-1.parquet")
    with pytest.raises(PipelineError, match="has schema 99, this covey reads up to 3"):
        log_files(str(tmp_path))


def test_any_other_parquet_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(PipelineError, match="not of an event log"):
        log_files(str(tmp_path))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_message_has_its_times_and_its_own_work(spark: SparkSession, tmp_path: Path) -> None:
    log = log_in(tmp_path)
    # The clock goes on by 1 ms an event: 1001, 1002, ...
    tell(log, "q", "g", "in 1, in 2, in 3, out 1 to 7, out 2 to 7, ack 1 by 7, ack 2 by 7")
    tell(log, "q", "g", "out 3 to 7, release 3 by 7, out 3 to 7")
    log.close()
    rows = (
        with_service(messages(read_log(spark, Namespace(input=str(tmp_path)))))
        .orderBy("seq")
        .collect()
    )
    milliseconds = [
        [round((time - 1000) * 1000) if time else None for time in (row.enqueued, row.delivered)]
        for row in rows
    ]
    assert milliseconds == [[1, 4], [2, 5], [3, 8]]
    assert [row.deliveries for row in rows] == [1, 1, 2]
    # The second was in hand from 5 on, but worked on only once the first was done at 6.
    assert [round(row.service * 1000) for row in rows[:2]] == [2, 1]
    assert rows[2].settled is None
    assert rows[2].service > 0


def test_only_the_hours_that_are_asked_for_are_read(tmp_path: Path) -> None:
    for hour in ("date=2026-11-17/hour=23", "date=2026-11-18/hour=00", "date=2026-11-18/hour=01"):
        (tmp_path / hour).mkdir(parents=True)
        write_log(tmp_path / "one").rename(tmp_path / hour / f"events-{hour[-2:]}.parquet")
    asked = Namespace(since="2026-11-18T00:10", until="2026-11-18T01:00Z")
    files = log_files(str(tmp_path), period_of(asked))
    assert [Path(file.path).name for file in files] == ["events-00.parquet"]
    with pytest.raises(PipelineError, match="--since soon: a time is meant"):
        period_of(Namespace(since="soon"))
    with pytest.raises(PipelineError, match="it has no events of that time"):
        log_files(str(tmp_path), period_of(Namespace(since="2027-01-01")))


def named(run: str, first: int, last: int = 0) -> LogFile:
    behind = f"-{last:016d}" if last else ""
    return LogFile(f"/log/events-{run}-{first:016d}{behind}.parquet", run, first, last)


def test_a_compacted_file_stands_for_those_it_was_made_of() -> None:
    old = [named("a", 1), named("a", 50), named("a", 100), named("a", 101), named("b", 1)]
    made = [named("a", 1, 100), named("a", 101, 120)]
    assert without_replaced([*old, *made]) == [*made, named("b", 1)]
    larger = named("a", 1, 120)
    assert without_replaced([*old, *made, larger]) == [larger, named("b", 1)]
