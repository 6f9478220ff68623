"""Database: a directory is one broker's at a time, and in order once it is open."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from covey.core.errors import StoreError
from covey.core.storage.sqlite import database as module
from covey.core.storage.sqlite.database import FILE, SCRATCH_FILE, Database
from tests.core.storage.sqlite.support import Bench, Note

JOURNAL_SIZE = 100_000


def opened(directory: Path, *, allow_open_files: bool = False) -> Database:
    return Database(directory, JOURNAL_SIZE, sqlite3.Connection, allow_open_files=allow_open_files)


def closed(database: Database) -> None:
    database.connection.close()
    database.release()


def test_directory_is_made_with_all_its_parents(tmp_path: Path) -> None:
    database = opened(tmp_path / "a" / "b")
    assert database.file == tmp_path / "a" / "b" / FILE
    assert database.damages == []
    assert database.file.parent.stat().st_mode & 0o777 == 0o700
    closed(database)


def modes(directory: Path) -> dict[str, int]:
    """Return the mode of everything in a directory, and of itself as "."."""
    found = {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}
    return found | {".": directory.stat().st_mode & 0o777}


@pytest.fixture
def careless() -> Iterator[None]:
    """Make files that everybody may read, as most systems do."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("careless")
def test_everything_of_ours_is_the_owners_alone_whoever_made_the_directory(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir(0o755)
    (directory / "notes.txt").touch(0o644)
    database = opened(directory)
    database.connection.execute("insert into ids (digest) values (zeroblob(50000))")
    names = (FILE, f"{FILE}-wal", f"{FILE}-shm", SCRATCH_FILE, "confirmed", "lock")
    ours = dict.fromkeys(names, 0o600)
    assert modes(directory) == ours | {".": 0o700, "notes.txt": 0o644}
    assert database.exposed == []
    closed(database)


@pytest.mark.usefixtures("careless")
def test_what_an_earlier_start_left_open_is_closed(tmp_path: Path) -> None:
    closed(opened(tmp_path))
    left = (FILE, "lock", f"{FILE}.damaged-1", f"{FILE}.damaged-1-wal")
    for name in left:
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o664)
    tmp_path.chmod(0o755)
    database = opened(tmp_path)
    found = modes(tmp_path)
    assert found.pop(".") == 0o700
    assert set(left) < set(found)
    assert set(found.values()) == {0o600}
    closed(database)


def refuse(path: Path, mode: int) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_a_directory_that_stays_open_refuses_the_start_and_says_to_whom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed(opened(tmp_path))
    (tmp_path / FILE).chmod(0o644)
    tmp_path.chmod(0o775)
    monkeypatch.setattr(Path, "chmod", refuse)  # it is another user's
    with pytest.raises(StoreError) as refusal:
        opened(tmp_path)
    text = str(refusal.value)
    assert f"data directory {tmp_path} is open to others" in text
    assert f"{tmp_path} (of user {os.getuid()}): its group " in text
    assert f"{FILE} (of user {os.getuid()}): its group " in text
    assert "everybody may read" in text
    assert "allow_open_files = true in [store]" in text
    database = opened(tmp_path, allow_open_files=True)  # the lock was given up
    assert len(database.exposed) == 2
    closed(database)


def test_modes_are_left_alone_if_that_is_allowed(tmp_path: Path) -> None:
    closed(opened(tmp_path))
    tmp_path.chmod(0o750)
    (tmp_path / FILE).chmod(0o640)
    database = opened(tmp_path, allow_open_files=True)
    found = modes(tmp_path)
    assert (found["."], found[FILE], found[f"{FILE}-wal"]) == (0o750, 0o640, 0o640)
    closed(database)


def test_file_that_could_only_be_read_refuses_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed(opened(tmp_path))
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    with pytest.raises(StoreError, match=f"{FILE} cannot be written to"):
        opened(tmp_path)
    monkeypatch.undo()
    closed(opened(tmp_path))


def test_log_that_grew_beside_a_reader_is_cut_when_the_reader_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOG_BYTES", 100_000)
    database = opened(tmp_path)
    log = tmp_path / f"{FILE}-wal"

    def write() -> int:
        for _ in range(10):
            database.connection.execute("insert into ids (digest) values (zeroblob(50000))")
            database.connection.execute("pragma wal_checkpoint(passive)").fetchone()
        return log.stat().st_size

    with closing(sqlite3.connect(database.file, isolation_level=None)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from ids").fetchone()
        assert write() > 400_000
    assert write() <= 100_000
    closed(database)


def test_a_large_batch_needs_no_file_elsewhere(tmp_path: Path) -> None:
    opened_files: set[str] = set()

    class Watched(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            if arguments[0] == "commit":
                for descriptor in os.listdir("/proc/self/fd"):
                    with suppress(OSError):
                        opened_files.add(os.readlink(f"/proc/self/fd/{descriptor}"))
            return super().execute(*arguments)

    bench = Bench(tmp_path, Watched)
    for seq in range(1, 1000):
        bench.store.append(1, seq, "", Note(b"x" * 1000))
    assert bench.flush() is None
    for seq in range(1, 1000):
        bench.store.move(1, seq, 10_000 - seq)
    assert bench.flush() is None
    bench.store.close()
    assert any(name.endswith("-wal") for name in opened_files)
    assert [name for name in opened_files if "etilqs" in name] == []


def test_directory_is_free_again_after_a_file_that_could_not_be_opened(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(StoreError, match=f"{FILE} cannot be opened"):
        opened(tmp_path)
    (tmp_path / FILE).rmdir()
    closed(opened(tmp_path))


def test_scratch_file_of_an_earlier_run_is_dropped(tmp_path: Path) -> None:
    closed(opened(tmp_path))
    (tmp_path / SCRATCH_FILE).write_bytes(b"left behind" * 1000)
    database = opened(tmp_path)
    (count,) = database.connection.execute("select count(*) from scratch.sqlite_master").fetchone()
    assert count
    closed(database)


def test_second_broker_on_the_directory_is_refused_with_the_first_ones_process(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    with pytest.raises(StoreError, match=r"in use by another broker \(process \d+\)"):
        Bench(tmp_path)
    bench.store.append(1, 1, "", Note(b"the first one goes on"))
    assert bench.flush() is None
    bench.store.close()


def test_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"data directory .*file/data cannot be made"):
        Bench(tmp_path / "file" / "data")
