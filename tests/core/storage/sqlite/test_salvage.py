"""Salvage: damage costs what lies on the damaged page, is reported, and nothing else suffers."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from covey.core.errors import StoreError
from covey.core.model.entry import Entry
from covey.core.storage.sqlite import database
from covey.core.storage.sqlite import salvage as module
from covey.core.storage.sqlite.database import FILE
from covey.core.storage.sqlite.salvage import CHECK, DAMAGED, SALVAGED, SALVAGING
from tests.core.storage.bench import queue_record
from tests.core.storage.sqlite.support import Bench, House, Note, bodies, snapshot

PAGE = 4096
EACH = 300  # messages of a queue
QUEUES = ("a", "b", "c")


def fill(directory: Path) -> None:
    bench = Bench(directory)
    for number, name in enumerate(QUEUES, start=1):
        bench.store.define(queue_record(number, name, EACH + 1))
        for seq in range(1, EACH + 1):
            bench.store.append(number, seq, "g", Note(b"%d" % seq + b"x" * 500, "g"))
    bench.flush()
    bench.store.close()


def pages_of(directory: Path, table: str) -> list[int]:
    """Return a table's pages, leaves and root alike."""
    with closing(sqlite3.connect(directory / FILE)) as connection:
        (root,) = connection.execute(
            "select rootpage from sqlite_master where name = ?", (table,)
        ).fetchone()
    data = (directory / FILE).read_bytes()
    found = [root]
    for page in found:
        start = (page - 1) * PAGE
        if data[start] == 5:  # an inner page of a table: its cells start with a child's number
            count = int.from_bytes(data[start + 3 : start + 5], "big")
            found.append(int.from_bytes(data[start + 8 : start + 12], "big"))
            for cell in range(count):
                at = start + 12 + 2 * cell
                child = start + int.from_bytes(data[at : at + 2], "big")
                found.append(int.from_bytes(data[child : child + 4], "big"))
    return found


def tear(directory: Path, page: int, content: bytes = b"\0" * PAGE) -> None:
    with open(directory / FILE, "r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(content)


@pytest.mark.parametrize("table", ["messages", "bodies"])
@pytest.mark.parametrize("place", [1, -1, 3])
def test_a_torn_page_costs_its_own_rows_and_every_other_message_is_there(
    tmp_path: Path, table: str, place: int
) -> None:
    fill(tmp_path)
    tear(tmp_path, pages_of(tmp_path, table)[place])
    house = House(tmp_path)
    damages = house.store.damages
    assert damages[0].startswith(f"{tmp_path / FILE}: ") and len(damages) > 1
    assert any("of queue" in text and "cannot be read" in text for text in damages[1:])
    assert len(damages) < 5, "messages in a row are one line"
    readers = [house.reader(name) for name in QUEUES]
    house.rest()
    got = [len(reader.entries) for reader in readers]
    assert 0 < 3 * EACH - sum(got) < EACH
    for reader in readers:
        assert bodies(reader) == [
            b"%d" % entry.seq + b"x" * 500 for entry in sorted(reader.entries, key=by_number)
        ]
    house.send("a", b"new")
    house.rest()
    house = house.restart()
    assert house.store.damages == []
    house.store.close()


def by_number(entry: Entry) -> int:
    return entry.seq


def test_what_is_in_the_journal_alone_does_not_suffer_from_a_torn_page(tmp_path: Path) -> None:
    fill(tmp_path)
    bench = Bench(tmp_path)
    for seq in range(5001, 5041):
        bench.store.append(1, seq, "g", Note(b"%d" % seq + b"x" * 500, "g"))
        bench.flush()
    crash = snapshot(tmp_path, tmp_path.with_name("crash"))
    bench.store.close()
    tear(crash, pages_of(crash, "messages")[1])
    bench = Bench(crash)
    assert bench.store.damages
    left = [seq for _, seq in bench.numbers()]
    assert set(range(5001, 5041)) <= set(left)
    found = bench.page(*[(1, seq) for seq in range(5001, 5041)])
    assert [body.body for body in found] == [b"%d" % seq + b"x" * 500 for seq in range(5001, 5041)]
    bench.store.close()


def test_the_damaged_file_is_kept(tmp_path: Path) -> None:
    fill(tmp_path)
    page = pages_of(tmp_path, "messages")[1]
    tear(tmp_path, page)
    before = (tmp_path / FILE).read_bytes()
    bench = Bench(tmp_path)
    bench.store.close()
    assert (tmp_path / (FILE + DAMAGED + "1")).read_bytes() == before
    assert f"kept as {FILE}{DAMAGED}1" in bench.store.damages[0]


def test_a_message_without_its_body_is_reported_and_left_out(tmp_path: Path) -> None:
    fill(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute("delete from bodies where id & 255 = 7")
        connection.commit()
    tear(tmp_path, pages_of(tmp_path, "ids")[0])
    bench = Bench(tmp_path)
    assert "message 7 of queue a cannot be read" in bench.store.damages
    assert (1, 7) not in bench.numbers() and (1, 8) in bench.numbers()
    bench.store.close()


@pytest.mark.parametrize("percent", [30, 50, 70, 95])
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_file_that_was_cut_short_gives_all_that_is_left_of_it(
    tmp_path: Path, percent: int, *, is_killed: bool
) -> None:
    folder = tmp_path / "store"
    fill(folder)
    if is_killed:  # with a log beside it that goes on from the whole file
        bench = Bench(folder)
        bench.store.append(1, EACH + 1, "g", Note(b"%d" % (EACH + 1) + b"x" * 500, "g"))
        bench.flush()
        shutil.copytree(folder, tmp_path / "killed")
        bench.store.close()
        folder = tmp_path / "killed"
    size = (folder / FILE).stat().st_size
    os.truncate(folder / FILE, size * percent // 100)
    house = House(folder)
    assert house.store.damages[0].startswith(f"{folder / FILE}: ")
    assert any("cannot be read" in text for text in house.store.damages[1:])
    readers = {name: house.reader(name) for name in QUEUES}
    house.rest()
    found = 0
    for reader in readers.values():
        for entry in reader.entries:
            assert entry.content.neutral().body == b"%d" % entry.seq + b"x" * 500
            found += 1
    assert found or percent < 70  # the first half has no bodies in it
    assert found > 2 * EACH or percent < 95
    house = house.restart()
    assert house.store.damages == []
    house.store.close()


def test_a_file_that_nothing_can_be_read_of_refuses_the_start_and_says_how_to_go_on(
    tmp_path: Path,
) -> None:
    fill(tmp_path)
    os.truncate(tmp_path / FILE, PAGE // 2)
    with pytest.raises(StoreError, match=r"covey\.db cannot be opened: .*restore a backup"):
        Bench(tmp_path)


def test_a_damaged_first_page_refuses_the_start(tmp_path: Path) -> None:
    fill(tmp_path)
    tear(tmp_path, 1)
    with pytest.raises(StoreError, match="cannot be opened"):
        Bench(tmp_path)


@pytest.mark.parametrize(
    ("text", "damaged"),
    [
        (b"expires_ms integer", b"expiret_ms integer"),
        (b"kind text not null, head", b"kinx text not null, head"),
        (b"delete from bodies", b"delete from bodiet"),
        (b"TABLE ids", b"TABLE\xffids"),
        (b"TABLE ids (place", b"TABLE ids (pl\xffce"),
    ],
)
def test_a_first_page_that_describes_other_tables_refuses_the_start(
    tmp_path: Path, text: bytes, damaged: bytes
) -> None:
    fill(tmp_path)
    content = (tmp_path / FILE).read_bytes()
    assert text in content[:PAGE]
    (tmp_path / FILE).write_bytes(content.replace(text, damaged, 1))
    with pytest.raises(StoreError, match="cannot be opened"):
        Bench(tmp_path)


@pytest.mark.parametrize("seed", range(12))
def test_random_damage_never_stops_the_other_messages(tmp_path: Path, seed: int) -> None:
    """Noise on any page but the first: the store opens, and what it gives is true."""
    random = Random(seed)
    fill(tmp_path)
    pages = (tmp_path / FILE).stat().st_size // PAGE
    tear(tmp_path, random.randrange(2, pages + 1), random.randbytes(PAGE))
    house = House(tmp_path)
    readers = {name: house.reader(name) for name in QUEUES}
    house.rest()
    total = 0
    for reader in readers.values():
        for entry in reader.entries:
            assert entry.content.neutral().body == b"%d" % entry.seq + b"x" * 500
            total += 1
    assert total > EACH
    assert total == 3 * EACH or house.store.damages
    house.store.close()


@pytest.mark.parametrize("step", ["copying", "complete", "log removed"])
def test_a_crash_in_the_middle_loses_nothing(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    tear(tmp_path, pages_of(tmp_path, "messages")[1])

    class Killed(Exception):
        pass

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        if step == "copying":
            patch.setattr(module, "_next_readable", die)
        elif step == "complete":
            patch.setattr(module, "sync", die)
        else:
            patch.setattr(Path, "replace", die)
        with pytest.raises(Killed):
            Bench(tmp_path / "")
    crashed = tmp_path / "crashed"
    shutil.copytree(tmp_path, crashed, ignore=shutil.ignore_patterns("crashed", "lock"))
    is_there = {SALVAGING: step == "copying", SALVAGED: step != "copying"}
    assert {name: (crashed / (FILE + name)).exists() for name in is_there} == is_there
    bench = Bench(crashed)
    assert 2 * EACH < len(bench.numbers()) < 3 * EACH
    bench.store.close()
    assert not any(os.path.exists(crashed / (FILE + name)) for name in is_there)
    assert len(list(crashed.glob(f"{FILE}{DAMAGED}[0-9]"))) == 1


def test_damage_met_while_serving_costs_the_damaged_bodies_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "CACHE_KIB", 8)  # or it would remember the page as it was
    fill(tmp_path)
    torn = pages_of(tmp_path, "bodies")[2]
    house = House(tmp_path)
    tear(tmp_path, torn)
    readers = [house.reader(name) for name in QUEUES]
    house.rest()
    assert house.broker.promises.failure is None
    assert house.broker.commits.pager is not None and house.broker.commits.pager.damages
    assert 2 * EACH < sum(len(reader.entries) for reader in readers) < 3 * EACH
    assert (tmp_path / (FILE + CHECK)).exists()
    house = house.restart()
    assert house.store.damages
    assert not (tmp_path / (FILE + CHECK)).exists()
    house.store.close()
