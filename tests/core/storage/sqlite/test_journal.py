"""The journal: one write a commit, folded when it is nearly full, replayed after a crash."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from covey.core.queue.timers import PLACE
from covey.core.storage.changes import Changes, add_rest, packed_rest
from covey.core.storage.packing import SEQ_BITS, packed, place_of, places_of, unpacked
from covey.core.storage.sqlite.journal import SEGMENT_MIN, SEGMENTS, Journal
from covey.core.storage.sqlite.segments import READ_SIZE, segment_files
from covey.core.storage.sqlite.statements import carry_out
from covey.core.storage.store import DurableRecord, NamedRecord
from tests.core.storage.bench import queue_record
from tests.core.storage.sqlite.support import Bench, House, Note, bodies, snapshot

SMALL = SEGMENTS * SEGMENT_MIN  # so that a short life folds and uses segments again


def batch(first: int, count: int, *deletions: int, body: bytes = b"x") -> Changes:
    changes = Changes()
    for place in range(first, first + count):
        changes.arrive(place, "g", Note(body))
    changes.deletions += deletions
    return changes


def fold(connection: sqlite3.Connection, journal: Journal, *, everything: bool = True) -> int:
    """Fold until nothing is due; return in how many steps."""
    steps = 0
    while step := journal.next_fold(10, 1 << 20, everything=everything):
        carry_out(connection, step.statements)
        journal.written(step)
        steps += 1
    return steps


def places(connection: sqlite3.Connection, table: str = "messages") -> list[int]:
    return [place for (place,) in connection.execute(f"select id from {table} order by id")]


def test_messages_that_are_settled_in_time_never_see_the_tables(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    journal = Journal(tmp_path, SMALL)
    for number in range(200):
        journal.commit(batch(number * 10, 10, *range((number - 1) * 10, number * 10)))
        fold(connection, journal, everything=False)
        journal.release(journal.number)
    assert connection.total_changes < 40  # marks, and nothing else
    assert len(journal.segments) < SEGMENTS
    journal.close()


def test_what_is_old_and_alive_goes_to_the_tables_a_little_at_a_time(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    journal = Journal(tmp_path, SMALL)
    for number in range(100):
        journal.commit(batch(number * 10, 10, body=b"x" * 100))
    assert journal.is_full
    step = journal.next_fold(7, 1 << 20)
    assert step is not None and step.places == list(range(7)) and not step.is_last
    step = journal.next_fold(10_000, 250)
    assert step is not None and len(step.places) == 3
    fold(connection, journal, everything=False)
    assert not journal.is_full
    assert 0 < len(places(connection)) < 1000
    fold(connection, journal)
    assert places(connection) == places(connection, "bodies") == list(range(1000))
    journal.close()


def test_what_is_in_the_tables_leaves_them_by_the_journal(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    journal = Journal(tmp_path, SMALL)
    journal.commit(batch(1, 9))
    fold(connection, journal)
    journal.commit(batch(10, 1, 2, 3))
    assert places(connection) == list(range(1, 10))
    fold(connection, journal)
    assert places(connection) == places(connection, "bodies") == [1, *range(4, 11)]
    journal.close()


def test_a_step_that_failed_leaves_the_journal_as_it_was(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    journal = Journal(tmp_path, SMALL)
    journal.commit(batch(1, 3))
    assert journal.next_fold(10, 1 << 20, everything=True) is not None
    assert [body.seq for body in journal.bodies([2, 9])] == [2]
    fold(connection, journal)
    assert journal.bodies([2, 9]) == []
    assert places(connection) == [1, 2, 3]
    journal.close()


def test_a_message_that_moved_is_known_by_its_new_place_in_the_journal_and_in_the_tables(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    journal = Journal(tmp_path, SMALL)
    journal.commit(batch(1, 2))
    fold(connection, journal)
    journal.commit(batch(3, 2))
    moves = Changes()
    moves.moves = {1: 11, 2: 12, 3: 13, 4: 14}
    journal.commit(moves)
    assert journal.places_in_tables([11, 5]) == {1: 11, 5: 5}
    assert [body.seq for body in journal.bodies([13, 14, 3])] == [13, 14, 3]
    journal.commit(batch(20, 1, 12, 14))
    fold(connection, journal)
    assert places(connection) == places(connection, "bodies") == [11, 13, 20]
    assert journal.moved == {}
    journal.commit(batch(21, 1, 11))
    fold(connection, journal)
    assert places(connection) == [13, 20, 21]
    journal.close()


def test_files_are_used_again_once_the_tables_are_on_the_disk(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    journal = Journal(tmp_path, SMALL)
    number = 0
    while len(journal.folded) < 2:
        number += 1
        journal.commit(batch(number, 1, number - 1, body=b"x" * 500))
        fold(connection, journal, everything=False)
    files = {path for _, _, path in segment_files(tmp_path)}
    assert len(files) == len(journal.segments) + 2, "nothing is given back before that"
    journal.release(journal.number)
    while journal.next is None:
        journal.commit(batch(0, 0, 1))
        journal.prepare()
    later = {path for _, _, path in segment_files(tmp_path)}
    assert len(later) == len(files)
    assert len(later - files) == 1, "one has a new name"
    journal.remove_unused()
    assert len(segment_files(tmp_path)) == len(journal.segments)
    journal.close()


def test_a_batch_larger_than_a_segment_is_written_whole(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "running", journal_size=SMALL)
    for seq in (1, 2):
        bench.store.append(1, seq, "", Note(b"%d" % seq * 5 * SMALL))
    assert bench.flush() is None
    again = Bench(snapshot(tmp_path / "running", tmp_path / "copy"))
    assert [len(body.body) for body in again.page((1, 1), (1, 2))] == [5 * SMALL] * 2
    again.store.close()
    assert [len(body.body) for body in bench.page((1, 1), (1, 2))] == [5 * SMALL] * 2
    bench.store.close()


def test_a_body_of_any_size_is_read_back_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 1 << 26)
    sizes = [*range(READ_SIZE - 150, READ_SIZE + 150, 7), 0, 10 * READ_SIZE, 1 << 20]
    for place, size in enumerate(sizes):
        journal.commit(batch(place, 1, body=Random(size).randbytes(size)))
    for place, size in enumerate(sizes):
        (found,) = journal.bodies([place])
        assert (found.seq, found.body) == (place, Random(size).randbytes(size))
    journal.close()


def test_arrivals_are_read_back_as_they_were_written() -> None:
    arrivals = {
        7 << SEQ_BITS: ("gr\u00fcn", 5, 2**40, 9, 0, "note", b"head", b"body\0"),
        1: ("", 0, 0, 4, 2**41, "stomp", b"", b""),
    }
    assert unpacked(packed(arrivals)) == arrivals


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_blob_that_was_cut_is_refused(cut: int) -> None:
    blob = packed(batch(1, 2, body=b"x" * 40).arrivals)
    with pytest.raises(ValueError, match="byte"):
        unpacked(blob[:-cut])
    with pytest.raises(ValueError, match="23 bytes of places"):
        places_of(bytes(23))


def test_everything_but_messages_is_read_back_as_it_was_written() -> None:
    changes = Changes()
    changes.definitions += [
        queue_record(
            1, "gr\u00fcn \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")
        ),
        DurableRecord("h", "d", ("/topic/a", "/topic/b"), "x > 1", "me"),
        NamedRecord("h", "park", "g", "{}"),
    ]
    changes.emptied, changes.drops, changes.forgotten = {3, 4}, {1: 5}, {2: 7}
    changes.moves, changes.retries = {place_of(1, PLACE): place_of(1, 2)}, {place_of(1, 2): 3}
    again = Changes()
    add_rest(again, packed_rest(changes))
    for name in ("definitions", "emptied", "drops", "forgotten", "moves", "retries"):
        assert getattr(again, name) == getattr(changes, name)
    assert packed_rest(Changes()) == b""
    with pytest.raises(ValueError, match="called nonsense"):
        add_rest(again, b'{"definitions": [["nonsense", 1]]}')


def test_bodies_come_from_the_journal_and_the_tables_alike(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.store.append(1, 1, "", Note(b"folded"))
    bench.flush()
    bench.reopen()
    bench.store.append(1, 2, "", Note(b"not yet"))
    bench.flush()
    assert [body.body for body in bench.page((1, 1), (1, 2), (1, 3))] == [b"folded", b"not yet"]
    assert bench.page((1, 2)) == [(1, 2, "note", b"\n 0", b"not yet")]
    bench.store.close()


def test_a_store_at_rest_has_everything_in_its_tables_and_no_journal(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.store.append(1, 1, "", Note(b"x"))
    bench.flush()
    assert segment_files(tmp_path)
    bench.store.close()
    assert segment_files(tmp_path) == []
    with closing(sqlite3.connect(tmp_path / "covey.db")) as connection:
        assert places(connection) == places(connection, "bodies") == [place_of(1, 1)]


class Model:
    """What a store should hold, and a hand that changes both at random."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.chance = Random(seed)
        self.next_seq = dict.fromkeys((1, 2, 3), 1)
        self.messages: dict[tuple[int, int], tuple[int, bytes]] = {}  # deliveries, body
        self.ids: dict[tuple[int, int], bytes] = {}
        self.records: dict[str, str] = {}
        self.safe: list[tuple[int, int]] = []  # only what was flushed may be settled

    def act(self) -> None:
        store, chance = self.bench.store, self.chance
        what = chance.randrange(100)
        queue = chance.choice((1, 2, 3))
        if what < 55:
            self._arrive(queue)
        elif what < 90 and self.safe:
            place = self.safe.pop(chance.randrange(len(self.safe)))
            if what < 80:
                store.delete(*place)
                del self.messages[place]
            elif what < 86:
                deliveries, body = self.messages[place]
                store.count_retry(*place, deliveries + 1)
                self.messages[place] = (deliveries + 1, body)
            elif place[1] >= PLACE:
                self._move(place)
        elif what < 94:
            key = f"k{chance.randrange(5)}"
            if self.records.pop(key, None) is None:
                self.records[key] = str(chance.random())
                store.put(NamedRecord("h", "kind", key, self.records[key]))
            else:
                store.remove("h", "kind", key)
        elif what < 97:
            number = chance.randrange(1000)
            self.ids[queue, number] = b"%16d" % number
            store.remember(queue, number, b"%16d" % number)
        elif what == 98:
            self._empty(queue)

    def _arrive(self, queue: int) -> None:
        seq = self.next_seq[queue]
        self.next_seq[queue] += 1
        if self.chance.random() < 0.1:
            seq += PLACE
        body = self.chance.randbytes(self.chance.choice((0, 10, 300, 3000)))
        self.messages[queue, seq] = (0, body)
        self.bench.store.append(queue, seq, "g", Note(body))

    def _move(self, place: tuple[int, int]) -> None:
        queue = place[0]
        seq = self.next_seq[queue]
        self.next_seq[queue] += 1
        self.bench.store.move(*place, seq)
        self.messages[queue, seq] = self.messages.pop(place)

    def _empty(self, queue: int) -> None:
        """Forget a queue; its number, and its places, are another's from now on."""
        self.bench.store.empty(queue)
        self.next_seq[queue] = 1
        for known in (self.messages, self.ids):
            for place in [place for place in known if place[0] == queue]:
                del known[place]
        self.safe = [place for place in self.safe if place[0] != queue]

    def flush(self) -> None:
        assert self.bench.flush() is None
        self.safe = list(self.messages)

    def compare(self, again: Bench) -> None:
        """Fail if another store does not hold the same."""
        assert again.store.damages == []
        found = {(record.queue, record.seq): record.deliveries for record in again.store.messages()}
        assert found == {place: deliveries for place, (deliveries, _) in self.messages.items()}
        assert {(each.queue, each.number): each.digest for each in again.store.ids()} == self.ids
        assert {each.key: each.value for each in again.store.records()} == self.records
        self.read(again)

    def read(self, bench: Bench) -> None:
        """Fail if bodies are not what they were."""
        pages = {(each.queue, each.seq): each.body for each in bench.page(*self.messages)}
        assert pages == {place: body for place, (_, body) in self.messages.items()}


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_a_crash_finds_just_what_was_flushed(tmp_path: Path, seed: int) -> None:
    bench = Bench(tmp_path / "running", journal_size=SMALL)
    model = Model(bench, seed)
    for turn in range(400):
        for _ in range(model.chance.randrange(1, 8)):
            model.act()
        model.flush()
        if turn % 50 == 25:
            model.read(bench)
            again = Bench(snapshot(tmp_path / "running", tmp_path / str(turn)))
            model.compare(again)
            again.store.close()
            # A second start finds the same: nothing is brought back, nothing is told.
            again = Bench(tmp_path / str(turn))
            model.compare(again)
            again.store.close()
        if turn % 130 == 129:
            bench.reopen()
            model.compare(bench)
    bench.store.close()


def test_a_broker_goes_on_where_a_crash_left_the_journal(tmp_path: Path) -> None:
    house = House(tmp_path / "running")
    reader = house.reader("a")
    for number in range(20):
        house.send("a", b"%d" % number, "g")
    house.rest()
    for entry in reader.entries[:12]:
        house.settle(entry)
    house.rest()
    copy = House(snapshot(tmp_path / "running", tmp_path / "copy"))
    again = copy.reader("a")
    copy.rest()
    assert bodies(again) == [b"%d" % number for number in range(12, 20)]
    copy.store.close()
    house.store.close()
