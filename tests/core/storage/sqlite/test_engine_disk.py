"""Room on the disk: what the log will need counts against it, free pages of the file for it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from covey.config.settings import StoreSettings
from covey.core.storage.sqlite.engine import Disk
from tests.core.storage.sqlite.support import Bench

BLOCK = 4096
LEAST = 100 * BLOCK


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk with 150 blocks free."""
    seen = SimpleNamespace(f_bavail=150, f_frsize=BLOCK, f_blocks=1000)
    monkeypatch.setattr(os, "statvfs", lambda path: seen)
    return Disk(tmp_path / "covey.db", lambda total: LEAST)


def test_nothing_is_short_while_there_is_room(disk: Disk, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "covey.db")) as connection:
        assert disk.shortage(connection, 0) == ""
        assert disk.shortage(connection, 50 * BLOCK) == ""


def test_a_disk_that_does_not_answer_is_short_of_room(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "gone" / "covey.db", lambda total: LEAST)
    with closing(sqlite3.connect(tmp_path / "covey.db")) as connection:
        assert disk.shortage(connection, 0).startswith("the disk cannot be asked")


def test_what_is_in_the_log_alone_needs_room_in_the_file(disk: Disk, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "covey.db")) as connection:
        said = "the disk has 396.0 KiB free, less than 400.0 KiB"
        assert disk.shortage(connection, 51 * BLOCK) == said


def test_free_pages_of_the_file_are_room(disk: Disk, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "covey.db")) as connection:
        connection.execute("create table t (body blob)")
        connection.execute("insert into t values (zeroblob(?))", (100 * BLOCK,))
        connection.commit()
        assert disk.shortage(connection, 100 * BLOCK) != ""
        connection.execute("delete from t")
        connection.commit()
        assert disk.shortage(connection, 100 * BLOCK) == ""


def test_another_limit_is_looked_at_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    settings = StoreSettings(path=str(tmp_path), disk_free_min=1 << 50, disk_free_percent=0)
    bench.store.allow(settings)
    bench.loop.until(lambda: bool(bench.pressures))
    assert "less than 1,048,576.0 GiB" in bench.pressures[0]
    bench.store.allow(settings.model_copy(update={"disk_free_min": 0}))
    bench.until_unpressed()
    bench.store.close()
