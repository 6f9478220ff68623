"""The journal: one row a commit, folded when it is full, replayed after a crash."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from zlib import crc32

import pytest

from covey.core.storage.sqlite import schema
from covey.core.storage.sqlite.changes import Changes, carry_out
from covey.core.storage.sqlite.journal import (
    ADD,
    DIRECT,
    GONE_MAX,
    ROWS_MAX,
    Journal,
    packed,
    places_of,
    replay,
    unpacked,
)
from covey.core.storage.store import MessageRecord, QueueRecord
from tests.core.storage.sqlite.faults import DISK_FULL, Plan, failing
from tests.core.storage.sqlite.support import Bench, House, Note, bodies

JOURNAL_SIZE = 2 * 1024 * 1024


def batch(first: int, count: int, *deletions: int, body: bytes = b"x") -> Changes:
    changes = Changes()
    for place in range(first, first + count):
        changes.arrive(place, "g", Note(body))
    changes.deletions += deletions
    return changes


def write(connection: sqlite3.Connection, journal: Journal, changes: Changes) -> None:
    carry_out(connection, journal.take(changes))
    journal.written()


def fold(connection: sqlite3.Connection, journal: Journal) -> None:
    carry_out(connection, journal.fold(Changes()))
    journal.written()


def restart(connection: sqlite3.Connection, damages: list[str]) -> Journal:
    journal = replay(connection, JOURNAL_SIZE, damages)
    fold(connection, journal)
    return journal


def places(connection: sqlite3.Connection, table: str = "messages") -> list[int]:
    return [place for (place,) in connection.execute(f"select id from {table} order by id")]


def rows(connection: sqlite3.Connection) -> int:
    (count,) = connection.execute("select count(*) from journal where number > 0").fetchone()
    assert isinstance(count, int)
    return count


def crashed(directory: Path, copy: Path) -> Path:
    """Return the files of a running store, as a crash would leave them."""
    copy.mkdir()
    for file in directory.glob("covey.db*"):
        shutil.copy(file, copy)
    return copy


def test_a_batch_of_arrivals_and_deletions_is_one_row(connection: sqlite3.Connection) -> None:
    journal = Journal(JOURNAL_SIZE)
    write(connection, journal, batch(1, 100))
    statements = journal.take(batch(101, 50, *range(1, 60)))
    assert [text for text, _ in statements] == [ADD]
    carry_out(connection, statements)
    journal.written()
    assert rows(connection) == 2
    assert places(connection) == []


def test_a_full_journal_leaves_the_living_in_the_tables(connection: sqlite3.Connection) -> None:
    journal = Journal(JOURNAL_SIZE)
    journal.bytes_max = 90_000
    for number in range(100):
        settled = range(number * 10 - 9, number * 10 - 1) if number else ()
        write(connection, journal, batch(number * 10 + 1, 10, *settled, body=b"x" * 500))
    assert 0 < rows(connection) <= 20
    fold(connection, journal)
    assert rows(connection) == 0
    alive = [place for place in range(1, 1001) if place % 10 in (9, 0) or place > 990]
    assert places(connection) == places(connection, "bodies") == alive


def test_what_is_in_the_tables_leaves_them_by_the_journal(connection: sqlite3.Connection) -> None:
    journal = Journal(JOURNAL_SIZE)
    write(connection, journal, batch(1, 9))
    fold(connection, journal)
    write(connection, journal, batch(10, 1, 2, 3))
    assert places(connection) == list(range(1, 10))
    fold(connection, journal)
    assert places(connection) == places(connection, "bodies") == [1, *range(4, 11)]


def test_a_fold_is_bounded_in_rows_too(connection: sqlite3.Connection) -> None:
    journal = Journal(JOURNAL_SIZE)
    for number in range(ROWS_MAX // 100 + 1):
        write(connection, journal, batch(number * 100, 100, body=b""))
    assert rows(connection) == 0
    assert len(places(connection)) == ROWS_MAX // 100 * 100 + 100


def test_after_a_fold_of_the_living_batches_go_to_the_tables_for_a_while(
    connection: sqlite3.Connection,
) -> None:
    journal = Journal(JOURNAL_SIZE)
    journal.bytes_max = 10_000
    was_used = []
    for number in range(2 * (DIRECT + 1) * 10):
        write(connection, journal, batch(number, 1, body=b"x" * 997))
        was_used.append(rows(connection) > 0)
    assert all(was_used[:10])
    assert not any(was_used[10 : 10 + DIRECT * 10])
    assert was_used.count(True) == 20
    fold(connection, journal)
    assert places(connection) == list(range(len(was_used)))


def test_readers_of_a_backlog_never_wait_for_many_deletions(
    connection: sqlite3.Connection,
) -> None:
    journal = Journal(JOURNAL_SIZE)
    write(connection, journal, batch(1, 1000))
    fold(connection, journal)
    for first in range(1, 1000, 50):
        write(connection, journal, batch(0, 0, *range(first, first + 50)))
        assert len(journal.gone) <= GONE_MAX
    assert len(places(connection)) <= GONE_MAX


def test_a_batch_as_large_as_the_journal_goes_to_the_tables(
    connection: sqlite3.Connection,
) -> None:
    journal = Journal(JOURNAL_SIZE)
    write(connection, journal, batch(1, 1))
    write(connection, journal, batch(2, 1, body=b"x" * journal.bytes_max))
    assert rows(connection) == 0
    assert places(connection) == [1, 2]


def test_one_that_moved_is_deleted_by_its_new_place(connection: sqlite3.Connection) -> None:
    journal = Journal(JOURNAL_SIZE)
    write(connection, journal, batch(1, 2))
    changes = batch(3, 1, 9)
    changes.moves[2] = 9
    write(connection, journal, changes)
    assert places(connection) == places(connection, "bodies") == [1, 3]


def test_arrivals_are_read_back_as_they_were_written() -> None:
    arrivals = {
        7 << schema.SEQ_BITS: ("gr\u00fcn", 5, 2**40, 9, 0, "note", b"head", b"body\0"),
        1: ("", 0, 0, 4, 2**41, "stomp", b"", b""),
    }
    assert unpacked(packed(arrivals)) == arrivals


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_blob_that_was_cut_is_refused(cut: int) -> None:
    blob = packed(batch(1, 2, body=b"x" * 40).arrivals)
    with pytest.raises(ValueError, match="byte"):
        unpacked(blob[:-cut])


def test_places_are_read_back_and_a_part_of_one_is_refused(connection: sqlite3.Connection) -> None:
    journal = Journal(JOURNAL_SIZE)
    settled = [1, 2**40, 2**62]
    write(connection, journal, batch(3, 0, *settled))
    (blob,) = connection.execute("select deletions from journal").fetchone()
    assert places_of(blob) == settled
    with pytest.raises(ValueError, match="23 bytes of places"):
        places_of(blob[1:])


def test_bodies_come_from_the_journal_and_the_tables_alike(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.store.append(1, 1, "", Note(b"folded"))
    bench.store.count_retry(1, 1, 1)
    bench.flush()
    bench.store.append(1, 2, "", Note(b"not yet"))
    bench.flush()
    assert [body.body for body in bench.page((1, 1), (1, 2), (1, 3))] == [b"folded", b"not yet"]
    assert bench.page((1, 2)) == [(1, 2, "note", b" 0", b"not yet")]
    bench.store.close()


def test_a_crash_loses_nothing_and_brings_nothing_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "running")
    bench.store._database.journal.bytes_max = 2_000
    for seq in range(1, 101):
        bench.store.append(1, seq, "g", Note(b"%d" % seq * 10))
        if seq > 5:
            bench.store.delete(1, seq - 5)
        bench.flush()
        if seq % 9 == 0:
            again = Bench(crashed(tmp_path / "running", tmp_path / str(seq)))
            kept = [(1, number) for number in range(max(1, seq - 4), seq + 1)]
            assert again.numbers() == kept
            assert [body.body for body in again.page(*kept)] == [b"%d" % n * 10 for _, n in kept]
            again.store.close()
    bench.store.close()


def test_retries_and_emptying_know_what_is_in_the_journal_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for queue in (1, 2):
        bench.store.append(queue, 1, "", Note(b"x"))
    bench.flush()
    bench.store.count_retry(1, 1, 3)
    bench.store.empty(2)
    bench.flush()
    bench.store.close()
    bench = Bench(tmp_path)
    assert [(record.queue, record.deliveries) for record in bench.store.messages()] == [(1, 3)]
    bench.store.close()


def test_a_store_at_rest_has_everything_in_its_tables(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.store.append(1, 1, "", Note(b"x"))
    bench.flush()
    bench.store.close()
    with closing(sqlite3.connect(tmp_path / "covey.db")) as connection:
        assert rows(connection) == 0
        assert len(places(connection)) == 1


def test_a_damaged_row_is_reported_and_kept_and_the_others_count(
    connection: sqlite3.Connection,
) -> None:
    journal = Journal(JOURNAL_SIZE)
    for first in (1, 2, 3):
        write(connection, journal, batch(first, 1))
    connection.execute("update journal set arrivals = arrivals || 'x' where number = 2")
    for _ in range(2):
        damages: list[str] = []
        again = restart(connection, damages)
        assert damages == [
            "row 2 of the journal cannot be replayed: its checksum is wrong;"
            " it held, as far as it can be read, no message of any queue"
        ]
        assert places(connection) == [1, 3]
        assert rows(connection) == 1
    write(connection, again, batch(4, 1))
    assert places(connection) == [1, 3] and rows(connection) == 2
    restart(connection, damages)
    assert places(connection) == [1, 3, 4] and rows(connection) == 1


def test_a_damaged_row_is_reported_with_the_queues_and_numbers_it_held(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "running")
    for number, name in ((1, "orders"), (2, "bills")):
        bench.store.define(QueueRecord(number, "default", "queue", name, 1, True, "{}", 0))
    bench.flush()
    for queue, seq in ((1, 7), (1, 9), (2, 3)):
        bench.store.append(queue, seq, "g", Note(b"%d" % seq))
    bench.flush()
    copy = crashed(tmp_path / "running", tmp_path / "copy")
    bench.store.close()
    with closing(sqlite3.connect(copy / "covey.db")) as connection:
        connection.execute("update journal set crc = crc + 1 where number > 0")
        connection.commit()
    bench = Bench(copy)
    assert bench.store.damages == [
        "row 2 of the journal cannot be replayed: its checksum is wrong; it held, as far as it can"
        " be read, 2 messages from 7 to 9 of queue orders, 1 messages from 3 to 3 of queue bills"
    ]
    bench.store.close()


def test_a_fold_that_failed_leaves_the_journal_as_it_was(connection: sqlite3.Connection) -> None:
    journal = Journal(JOURNAL_SIZE)
    write(connection, journal, batch(1, 3))
    assert journal.fold(Changes())
    assert list(journal.waiting) == [1, 2, 3]
    assert [body.seq for body in journal.bodies([2, 9])] == [2]
    fold(connection, journal)
    assert not journal.waiting
    assert places(connection) == [1, 2, 3]


def test_a_torn_row_in_the_tables_gives_way_to_the_journals(
    connection: sqlite3.Connection,
) -> None:
    write(connection, Journal(JOURNAL_SIZE), batch(5, 1))
    connection.execute("insert into messages values (5, 'torn', 0, 0, 0, 4, 0, null)")
    journal = replay(connection, JOURNAL_SIZE, ["salvaged"])
    assert places(connection) == [5], "a start on a full disk changes nothing"
    torn = MessageRecord(0, 5, "torn", 0, 0, 4, 0, 0)
    assert [record.group for record in journal.messages(iter([torn]))] == ["g"]
    write(connection, journal, batch(6, 1))
    fold(connection, journal)
    assert connection.execute("select id, grp from messages").fetchall() == [(5, "g"), (6, "g")]
    assert places(connection, "bodies") == [5, 6]


def test_a_row_that_makes_no_sense_is_no_better(connection: sqlite3.Connection) -> None:
    connection.execute(ADD, (1, b"nonsense", b"", crc32(b"nonsense")))
    damages: list[str] = []
    restart(connection, damages)
    assert len(damages) == 1 and damages[0].startswith("row 1 of the journal cannot be replayed")
    assert rows(connection) == 1


def test_a_restart_on_a_full_disk_uses_the_journal_as_it_is(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "running")
    for seq in range(1, 31):
        bench.store.append(1, seq, "g", Note(b"%d" % seq))
        if seq == 10:
            bench.store.count_retry(1, 1, 1)  # so that these ten are in the tables
            bench.flush()
    bench.store.delete(1, 4)
    bench.flush()
    bench.store.delete(1, 25)
    bench.store.append(2, 1, "", Note(b"x"))
    bench.flush()
    bench.store.delete(1, 7)
    bench.flush()
    folder = crashed(tmp_path / "running", tmp_path / "full")
    bench.store.close()
    plan = Plan(1, DISK_FULL, times=1, start="insert into messages")
    again = Bench(folder, failing(plan))
    assert plan.failures == 1
    kept = [(1, seq) for seq in range(1, 31) if seq not in (4, 7, 25)] + [(2, 1)]
    assert again.numbers() == kept
    assert len(again.page(*kept)) == len(kept)
    again.store.delete(1, 1)
    assert again.flush() is None
    assert again.numbers() == kept[1:]
    again.store.close()


def test_a_broker_goes_on_where_a_crash_left_the_journal(tmp_path: Path) -> None:
    house = House(tmp_path / "running")
    reader = house.reader("a")
    for number in range(20):
        house.send("a", b"%d" % number, "g")
    house.rest()
    for entry in reader.entries[:12]:
        house.settle(entry)
    house.rest()
    copy = House(crashed(tmp_path / "running", tmp_path / "copy"))
    again = copy.reader("a")
    copy.rest()
    assert bodies(again) == [b"%d" % number for number in range(12, 20)]
    copy.store.close()
    house.store.close()
