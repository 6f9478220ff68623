"""The writer's files: whole when they are seen, rotated by size and by age, names resolved."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from covey.core.events.event import EventKind
from covey.pipeline.event_log import writer as writing
from tests.pipeline.support import Diary, Direct


def events(log: Diary, count: int) -> None:
    for seq in range(1, count + 1):
        log.record(EventKind.ENQUEUE, "work", f"g{seq}", 0, seq)


def files_in(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def names_in(directory: Path) -> list[str]:
    return [path.name for path in files_in(directory)]


def test_a_file_has_its_name_only_once_it_is_whole(tmp_path: Path) -> None:
    direct = Direct(tmp_path, "r", 1 << 20)
    log = Diary(direct)
    events(log, 3)
    log.flush()
    direct.writer._write_row_group()
    assert names_in(tmp_path) == ["_events-r-0000000000000001.parquet.part"]
    direct.writer.finish()
    assert names_in(tmp_path) == ["events-r-0000000000000001.parquet"]


def test_a_directory_that_went_away_ends_the_log_in_one_line(tmp_path: Path) -> None:
    chunks: list[bytes] = []

    class Kept(Direct):
        def take(self, chunk: bytes) -> bool:
            chunks.append(chunk)
            return True

    log = Diary(Kept(tmp_path, "r"))
    events(log, 3)
    log.flush()
    words = ["-m", "covey.pipeline.event_log.writer", str(tmp_path / "gone"), "r", "1000", "60"]
    child = subprocess.run([sys.executable, *words], input=b"".join(chunks), capture_output=True)
    assert child.returncode == 1
    assert child.stderr.startswith(b"covey: the event log in ")
    assert child.stderr.count(b"\n") == 1


def test_a_file_is_finished_by_age(tmp_path: Path) -> None:
    direct = Direct(tmp_path, "r", 1 << 20)
    log = Diary(direct)
    direct.writer.finish_if_old(500.0)
    events(log, 3)
    log.flush()
    direct.writer.finish_if_old(159.9)
    assert names_in(tmp_path) == []
    direct.writer.finish_if_old(160.0)
    assert names_in(tmp_path) == ["events-r-0000000000000001.parquet"]


def test_a_file_is_finished_by_size_and_the_next_goes_on(tmp_path: Path) -> None:
    direct = Direct(tmp_path, "r", 20_000)
    log = Diary(direct)
    events(log, 5000)
    log.close()
    assert names_in(tmp_path) == [
        "events-r-0000000000000001.parquet",
        "events-r-0000000000004097.parquet",
    ]
    tables = [pq.read_table(path) for path in files_in(tmp_path)]
    assert [table.num_rows for table in tables] == [4096, 904]
    assert tables[1]["group_id"].to_pylist()[0] == "g4097"


def test_names_of_a_new_dictionary_do_not_mix_with_the_old(tmp_path: Path) -> None:
    direct = Direct(tmp_path, "r", 1 << 20)
    log = Diary(direct)
    log.log.names_max = 100
    events(log, 5000)
    events(log, 5000)
    log.close()
    table = pq.read_table(files_in(tmp_path)[0])
    assert table["group_id"].to_pylist() == [f"g{seq}" for seq in range(1, 5001)] * 2


def test_enough_records_become_a_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "ROW_GROUP_EVENTS", 4000)
    direct = Direct(tmp_path, "r", 1 << 20)
    log = Diary(direct)
    events(log, 5000)
    log.close()
    metadata = pq.read_metadata(files_in(tmp_path)[0])
    assert [metadata.row_group(index).num_rows for index in range(2)] == [4096, 904]


def test_a_file_lies_in_the_directory_of_its_hour_and_ends_with_it(tmp_path: Path) -> None:
    direct = Direct(tmp_path, "r", 1 << 20)
    log = Diary(direct)
    events(log, 2)
    log.flush()
    log.clock.now += 3600
    events(log, 2)
    log.close()
    assert [str(path.relative_to(tmp_path).parent) for path in files_in(tmp_path)] == [
        "date=1970-01-01/hour=00",
        "date=1970-01-01/hour=01",
    ]
