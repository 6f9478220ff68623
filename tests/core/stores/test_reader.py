"""Pages of bodies, and what is damaged in them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.core.stores.support import Bench, Note


def test_flipped_bit_is_found_reported_and_not_deleted(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for seq in (1, 2, 3):
        bench.store.append(9, seq, "", Note(b"body number %d" % seq))
    bench.flush()
    bench.store.close()
    file = tmp_path / "covey.db"
    file.write_bytes(file.read_bytes().replace(b"body number 2", b"bodx number 2"))
    bench = Bench(tmp_path)
    assert [body.seq for body in bench.page((9, 1), (9, 2), (9, 3))] == [1, 3]
    assert bench.store.damages == ["message 2 of queue number 9: its checksum is wrong"]
    assert bench.numbers() == [(9, 1), (9, 2), (9, 3)]
    bench.store.close()
    with closing(sqlite3.connect(file)) as connection:
        (count,) = connection.execute("select count(*) from bodies").fetchone()
    assert count == 3


def test_page_of_nothing_is_empty(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.page() == []
    assert bench.page((1, 1)) == []
    bench.store.close()


def test_page_keeps_the_order_it_was_asked_in(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for seq in range(1, 9):
        bench.store.append(1, seq, "", Note(b"%d" % seq))
    bench.flush()
    assert [body.seq for body in bench.page((1, 5), (1, 2), (1, 8))] == [5, 2, 8]
    bench.store.close()


@pytest.mark.parametrize(
    "change",
    [
        "kind = 'two words'",
        "kind = cast(x'ff00ff' as text)",
        "crc = 'no number'",
        "crc = 1.5",
        "head = ''",
        "head = head || 'x', body = substr(body, 2)",
        "body = cast('\u00e4\u00e4' as text)",
    ],
)
def test_whatever_a_damaged_row_says_the_others_are_read(tmp_path: Path, change: str) -> None:
    bench = Bench(tmp_path)
    for seq in range(1, 10):
        bench.store.append(9, seq, "", Note(b"body number %d" % seq))
    bench.flush()
    bench.store.close()
    with closing(sqlite3.connect(tmp_path / "covey.db")) as connection, connection:
        connection.execute(f"update bodies set {change} where id & 1023 = 4")
    bench = Bench(tmp_path)
    for places in ([(9, seq) for seq in range(1, 10)], [(9, seq) for seq in (5, 4, 7)]):
        found = {body.seq: body.body for body in bench.page(*places)}
        others = {seq: b"body number %d" % seq for _, seq in places if seq != 4}
        assert found == others
    assert bench.store.damages[0] == "message 4 of queue number 9: its checksum is wrong"
    assert bench.flush() is None
    bench.store.close()
