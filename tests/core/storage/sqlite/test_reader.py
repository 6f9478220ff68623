"""Pages of bodies, and what is damaged in them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from covey.core.storage.sqlite.reader import ROWS
from covey.core.storage.store import DurableRecord
from tests.core.storage.sqlite.support import Bench, House, Note


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


def test_a_damaged_row_of_a_message_is_told_of_and_the_others_come_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for seq in range(1, 9):
        bench.store.append(9, seq, f"group\0{seq}", Note(b"x"))
    bench.flush()
    bench.store.count_retry(9, 8, 3)
    bench.flush()
    bench.store.close()
    changes = {
        1: "grp = 'groux'",
        2: "grp = cast(x'ff' as text)",
        3: "size = 'big'",
        4: "expires_ms = 1",
        5: "priority = 1.5",
        6: "crc = crc + 1",
    }
    with closing(sqlite3.connect(tmp_path / "covey.db")) as connection, connection:
        for seq, change in changes.items():
            connection.execute(f"update messages set {change} where id & 1023 = {seq}")
    bench = Bench(tmp_path)
    assert [(record.group, record.deliveries) for record in bench.store.messages()] == [
        ("group\0007", 0),
        ("group\0008", 3),
    ]
    assert bench.store.damages == [
        f"message {seq} of queue number 9: its checksum is wrong" for seq in changes
    ]
    bench.store.close()


def test_rows_of_any_numbers_come_back_in_order_beside_rows_of_small_ones(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    expected: list[tuple[object, ...]] = []
    for seq in range(1, 5 * ROWS):
        note = Note(b"x" * (seq % 3))
        note.expires_ms = 1_800_000_000_000 + seq
        note.priority = seq % 10
        if seq == 2 * ROWS:
            note.expires_ms, note.size, note.due_ms = 1 << 60, 1 << 31, 1 << 50
        bench.store.append(9, seq, f"g{seq % 7}", note)
        expected.append((seq, f"g{seq % 7}", 0, note.size, note.priority, note.expires_ms))
    bench.flush()
    bench.store.count_retry(9, 4 * ROWS, 3)
    bench.flush()
    bench.store.close()
    with closing(sqlite3.connect(tmp_path / "covey.db")) as connection, connection:
        connection.execute(f"update messages set crc = null where id & 65535 = {ROWS // 2}")
    bench = Bench(tmp_path)
    found = list(bench.store.messages())
    first, group, _, *others = expected[4 * ROWS - 1]
    expected[4 * ROWS - 1] = (first, group, 3, *others)
    assert [record[1:7] for record in found] == expected
    assert [record.due_ms for record in found if record.due_ms] == [1 << 50]
    assert bench.store.damages == []
    bench.store.close()


def test_a_damaged_row_of_a_queue_is_told_of_and_is_no_other_queue(tmp_path: Path) -> None:
    house = House(tmp_path)
    for name in ("a", "b", "c"):
        house.send(name, b"x")
        house.rest()
    house.store.close()
    with closing(sqlite3.connect(tmp_path / "covey.db")) as connection, connection:
        connection.execute("update queues set name = 'x' where name = 'b'")
        connection.execute("update queues set settings = cast(x'ff' as text) where name = 'c'")
    for _ in ("found", "found again"):
        house = House(tmp_path)
        assert list(house.host.queues) == ["a"]
        assert house.store.damages == [
            "queue number 2, perhaps called x: its checksum is wrong",
            "queue number 3, perhaps called c: its checksum is wrong",
            "queue number 2: its name is lost; 1 messages of it stay on the disk",
            "queue number 3: its name is lost; 1 messages of it stay on the disk",
        ]
        house.store.close()


def test_a_damaged_row_of_a_durable_subscription_is_told_of(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for name in ("one", "two"):
        bench.store.bind(DurableRecord("default", name, ("/topic/t",), ""))
    bench.flush()
    bench.store.close()
    with closing(sqlite3.connect(tmp_path / "covey.db")) as connection, connection:
        connection.execute("update durables set selector = 'x = 1' where name = 'one'")
    bench = Bench(tmp_path)
    assert [record.name for record in bench.store.durables()] == ["two"]
    assert bench.store.damages == [
        "durable subscription, perhaps called one: its checksum is wrong"
    ]
    bench.store.close()
