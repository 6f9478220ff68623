"""Pages of bodies, and what is damaged in them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

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
