"""A store of format 7, killed with its journal in a table: v7.sql is what its release wrote."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from covey.core.storage.sqlite.confirmed import Confirmed
from covey.core.storage.store import DurableRecord
from tests.core.storage.sqlite.support import Bench, Note

V7 = Path(__file__).with_name("v7.sql").read_text()
KEPT = [(1, 2), (1, 3), (1, 5), (2, 1), (2, 2), (2, 3), (2, 4)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "covey.db", isolation_level=None)) as connection:
        connection.executescript(V7)
    confirmed = Confirmed(tmp_path)
    confirmed.open()
    for number in range(1, 5):
        confirmed.note(number, 1)
    confirmed.close()
    return tmp_path


def change(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "covey.db", isolation_level=None)) as connection:
        connection.execute(statement)


def test_everything_of_the_older_store_is_there_and_it_goes_on(folder: Path) -> None:
    bench = Bench(folder)
    assert bench.store.damages == bench.store.losses == []
    records = {(record.queue, record.seq): record for record in bench.store.messages()}
    assert list(records) == KEPT
    assert records[1, 2].deliveries == 3
    assert [body.body for body in bench.page(*KEPT)] == [b"%d:%d" % place for place in KEPT]
    assert bench.store.durables() == [DurableRecord("default", "d", ("/topic/a",), "x > 1")]
    assert [record.digest for record in bench.store.ids()] == [b"d" * 16]
    assert [record.name for record in bench.store.queues()] == ["orders", "bills"]
    assert bench.batch == 4, "numbers go on"
    bench.store.append(1, 6, "", Note(b"1:6"))
    bench.store.delete(2, 1)
    assert bench.flush() is None
    bench.reopen()
    assert bench.store.damages == []
    assert bench.numbers() == [(1, 2), (1, 3), (1, 5), (1, 6), (2, 2), (2, 3), (2, 4)]
    bench.store.close()


def test_batches_that_the_older_store_confirmed_and_lacks_are_told(folder: Path) -> None:
    """As a write-ahead log that was cut would leave it."""
    change(folder, "delete from journal where number > 2")
    bench = Bench(folder)
    (loss,) = bench.store.losses
    assert loss.startswith("batches 3 to 4 of the store, confirmed before the last end, cannot be")
    assert (1, 4) in bench.numbers()
    assert bench.store.damages == []
    bench.store.close()


def test_a_damaged_row_is_told_with_what_it_held_and_the_others_count(folder: Path) -> None:
    change(folder, "update journal set crc = crc + 1 where number = 2")
    bench = Bench(folder)
    assert bench.store.damages == [
        "row 2 of the journal cannot be replayed: its checksum is wrong; it held, as far as it can"
        " be read, 1 messages from 4 to 4 of queue orders, 1 messages from 4 to 4 of queue bills"
    ]
    assert bench.numbers() == [place for place in KEPT if place != (2, 4)]
    assert bench.store.damages == []
    bench.store.close()


def test_a_row_that_makes_no_sense_is_no_better(folder: Path) -> None:
    change(folder, "update journal set arrivals = x'00', crc = 2768625435 where number = 4")
    change(folder, "update journal set deletions = x'' where number = 4")
    change(folder, "update journal set crc = 3523407757 where number = 4")
    bench = Bench(folder)
    assert bench.store.damages[0].startswith("row 4 of the journal cannot be replayed")
    bench.store.close()
