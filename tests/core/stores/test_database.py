"""Database: a directory is one broker's at a time, and in order once it is open."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from covey.core.errors import StoreError
from covey.core.stores.database import FILE, SCRATCH_FILE, Database

JOURNAL_SIZE = 100_000


def opened(directory: Path) -> Database:
    return Database(directory, JOURNAL_SIZE, sqlite3.Connection)


def closed(database: Database) -> None:
    database.connection.close()
    database.release()


def test_directory_is_made_with_all_its_parents(tmp_path: Path) -> None:
    database = opened(tmp_path / "a" / "b")
    assert database.file == tmp_path / "a" / "b" / FILE
    assert database.damages == []
    closed(database)


def test_directory_is_free_again_after_a_file_that_could_not_be_opened(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(StoreError, match=f"{FILE} cannot be opened"):
        opened(tmp_path)
    (tmp_path / FILE).rmdir()
    closed(opened(tmp_path))


def test_scratch_file_of_an_earlier_run_is_dropped(tmp_path: Path) -> None:
    (tmp_path / SCRATCH_FILE).write_bytes(b"left behind" * 1000)
    database = opened(tmp_path)
    (count,) = database.connection.execute("select count(*) from scratch.sqlite_master").fetchone()
    assert count
    closed(database)
