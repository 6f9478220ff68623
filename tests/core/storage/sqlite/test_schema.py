"""Formats, upgrades, and what is refused at start."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from covey.core.errors import StoreError
from covey.core.storage.sqlite import schema
from covey.core.storage.sqlite.schema import FORMAT, UPGRADES
from tests.core.storage.sqlite.support import Bench, Note

V1 = Path(__file__).with_name("v1.sql").read_text()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "covey.db")) as connection:
        yield connection


def test_store_of_format_1_is_upgraded_with_all_it_holds(
    tmp_path: Path, database: sqlite3.Connection
) -> None:
    database.executescript(V1)
    database.close()
    for _ in ("upgraded", "opened again"):
        bench = Bench(tmp_path)
        assert [record.next_seq for record in bench.store.queues()] == [1001, 2001]
        assert [record.selector for record in bench.store.durables()] == ["x = 1"]
        assert list(bench.store.messages()) == [
            (1, 7, "IBM", 2, 5, 4, 0, 0),
            (2, 1, "", 0, 3, 4, 77, 0),
        ]
        assert [body.body for body in bench.page((1, 7), (2, 1))] == [b"hello", b"abc"]
        assert bench.store.damages == []
        bench.store.close()


def test_upgraded_store_can_be_written(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.executescript(V1)
    bench = Bench(tmp_path)
    bench.store.append(1, 1001, "", Note(b"new"))
    bench.store.delete(1, 7)
    assert bench.flush() is None
    bench.store.close()
    bench = Bench(tmp_path)
    assert bench.numbers() == [(1, 1001), (2, 1)]
    assert bench.page((1, 7)) == []
    bench.store.close()


@pytest.mark.parametrize("older", range(2, FORMAT))
def test_store_of_every_format_is_upgraded_and_goes_on(
    tmp_path: Path, database: sqlite3.Connection, older: int
) -> None:
    """Made as the releases between did it: formats 2 to 5 had a view for what arrives."""
    database.executescript(V1 + "".join(UPGRADES[step] for step in range(1, older)))
    if older < 6:
        database.execute("create view arrivals as select id from messages")
    database.execute(f"pragma user_version = {older}")
    database.close()
    bench = Bench(tmp_path)
    bench.store.append(1, 1001, "", Note(b"new"))
    bench.store.delete(1, 7)
    bench.flush()
    bench.store.close()
    with closing(sqlite3.connect(tmp_path / "covey.db")) as upgraded:
        tables = upgraded.execute("select name from sqlite_master where type in ('table', 'view')")
        assert sorted(name for (name,) in tables) == [
            *("bodies", "durables", "ids", "marks", "messages", "queues", "records")
        ]
        assert upgraded.execute("pragma user_version").fetchone() == (FORMAT,)
    bench = Bench(tmp_path)
    assert bench.numbers() == [(1, 1001), (2, 1)]
    assert [body.body for body in bench.page((1, 1001), (2, 1))] == [b"new", b"abc"]
    assert (len(bench.store.queues()), bench.store.damages) == (2, [])
    bench.store.close()


def test_every_older_format_has_an_upgrade() -> None:
    assert sorted(UPGRADES) == list(range(1, FORMAT))


def test_newer_format_is_refused_and_left_as_it_is(
    tmp_path: Path, database: sqlite3.Connection
) -> None:
    database.executescript(V1)
    database.execute(f"pragma user_version = {FORMAT + 1}")
    database.close()
    before = (tmp_path / "covey.db").read_bytes()
    with pytest.raises(
        StoreError, match=f"has format {FORMAT + 1}, this release knows .* {FORMAT}"
    ):
        Bench(tmp_path)
    assert (tmp_path / "covey.db").read_bytes() == before


def test_database_of_another_program_is_refused_and_left_as_it_is(
    tmp_path: Path, database: sqlite3.Connection
) -> None:
    database.execute("create table recipes (name text)")
    database.close()
    before = (tmp_path / "covey.db").read_bytes()
    with pytest.raises(StoreError, match=r"covey\.db is a database of another program"):
        Bench(tmp_path)
    assert (tmp_path / "covey.db").read_bytes() == before


def test_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "covey.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreError, match=r"covey\.db cannot be opened: file is not a database"):
        Bench(tmp_path)


@pytest.mark.parametrize("check_all_bytes", [2**40, 0], ids=["whole", "tables"])
def test_structural_damage_is_reported_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check_all_bytes: int
) -> None:
    monkeypatch.setattr(schema, "CHECK_ALL_BYTES", check_all_bytes)
    bench = Bench(tmp_path)
    for seq in range(2000):
        bench.store.append(1, seq, "group", Note(b"x"))
    bench.flush()
    bench.store.close()
    with closing(sqlite3.connect(tmp_path / "covey.db")) as connection:
        (root,) = connection.execute(
            "select rootpage from sqlite_master where name = 'messages'"
        ).fetchone()
    with open(tmp_path / "covey.db", "r+b") as file:
        file.seek((root - 1) * 4096 + 8)  # a tree's root names its rightmost child here
        leaf = int.from_bytes(file.read(4), "big")
        file.seek((leaf - 1) * 4096 + 8)  # where its first cell starts
        file.write(b"\xff\xff")
    bench = Bench(tmp_path)
    assert re.search(rf"covey\.db: .*page {leaf}\b", bench.store.damages[0]), bench.store.damages
    bench.store.close()


def test_store_that_was_refused_leaves_the_directory_free(tmp_path: Path) -> None:
    (tmp_path / "covey.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreError):
        Bench(tmp_path)
    (tmp_path / "covey.db").unlink()
    Bench(tmp_path).store.close()
