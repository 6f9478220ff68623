"""What any durable store does: what was flushed is there after it was opened bench.

A store of another kind is one more name in `KINDS` and a fixture `open_<name>` in conftest.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import get_args

import pytest

from covey.config.settings import StoreSettings
from covey.core.errors import StoreError
from covey.core.storage import STORES, writer
from covey.core.storage.packing import QUEUES_MAX
from covey.core.storage.store import (
    QUEUE,
    DurableRecord,
    MessageStore,
    NamedRecord,
    QueueRecord,
)
from covey.core.storage.writer import Notify
from tests.core.storage.bench import StoreBench, queue_record
from tests.core.storage.sqlite.support import Note

KINDS = ("sqlite", "postgres")

Opener = Callable[[Notify], MessageStore]
Bench = StoreBench[MessageStore]


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    opener: Opener = request.getfixturevalue(f"open_{request.param}")
    made = StoreBench(opener)
    yield made
    made.store.close()


def test_message_survives_with_all_the_core_decides_by(bench: Bench) -> None:
    note = Note(b"hello", "IBM")
    note.expires_ms, note.priority, note.due_ms = 123456789, 7, 99
    bench.store.append(3, 17, "IBM", note)
    assert bench.flush() is None
    bench.reopen()
    (record,) = bench.store.messages()
    assert record == (3, 17, "IBM", 0, 5, 7, 123456789, 99)
    (body,) = bench.page((3, 17))
    assert body == (3, 17, "note", b"\nIBM 123456789", b"hello")


def test_nothing_of_an_unflushed_batch_survives(bench: Bench) -> None:
    bench.store.append(1, 1, "", Note(b"kept"))
    bench.flush()
    bench.store.append(1, 2, "", Note(b"never flushed"))
    bench.reopen()
    assert bench.numbers() == [(1, 1)]


def test_messages_come_back_queue_by_queue_in_order(bench: Bench) -> None:
    places = [(queue, seq) for queue in (1, 2, 300) for seq in (1, 2, 5, 70_000, 2**41)]
    shuffled = random.Random(1).sample(places, len(places))
    for queue, seq in shuffled:
        bench.store.append(queue, seq, "", Note(b"x"))
    bench.flush()
    bench.reopen()
    assert bench.numbers() == places


def test_more_messages_than_a_statement_takes_are_all_kept(bench: Bench) -> None:
    for seq in range(1, 1002):
        bench.store.append(1, seq, "", Note(b"%d" % seq))
    bench.flush()
    bodies = bench.page(*[(1, seq) for seq in range(1, 1002)])
    assert [body.body for body in bodies] == [b"%d" % seq for seq in range(1, 1002)]


def test_deleted_message_is_gone_with_its_body(bench: Bench) -> None:
    for seq in (1, 2, 3):
        bench.store.append(1, seq, "", Note(b"x"))
    bench.flush()
    bench.store.delete(1, 2)
    bench.flush()
    assert bench.numbers() == [(1, 1), (1, 3)]
    assert [body.seq for body in bench.page((1, 1), (1, 2), (1, 3))] == [1, 3]


def test_retry_counts_are_kept_per_message(bench: Bench) -> None:
    for seq in (1, 2, 3):
        bench.store.append(1, seq, "", Note(b"x"))
    bench.flush()
    bench.store.count_retry(1, 1, 4)
    bench.store.count_retry(1, 3, 1)
    bench.store.count_retry(1, 3, 2)
    bench.flush()
    bench.reopen()
    assert [record.deliveries for record in bench.store.messages()] == [4, 0, 2]


def test_forgotten_queue_takes_its_messages_and_no_others(bench: Bench) -> None:
    for number in (1, 2, 3):
        bench.store.define(queue_record(number, f"q{number}"))
        bench.store.append(number, 1, "", Note(b"x"))
    bench.flush()
    bench.store.forget(2)
    bench.store.empty(3)
    bench.flush()
    assert bench.numbers() == [(1, 1)]
    assert [record.name for record in bench.store.queues()] == ["q1", "q3"]


def test_next_number_of_a_queue_never_goes_back(bench: Bench) -> None:
    bench.store.define(queue_record(1))
    bench.store.reserve(1, 5000)
    bench.store.reserve(1, 4000)
    bench.store.define(QueueRecord(1, "default", QUEUE, "a", 7, False, "{}"))
    bench.flush()
    bench.reopen()
    (record,) = bench.store.queues()
    assert record == QueueRecord(1, "default", QUEUE, "a", 5000, False, "{}")


def test_queue_numbers_end_where_a_place_would_overflow(bench: Bench) -> None:
    bench.store.append(QUEUES_MAX - 1, 2**42 - 1, "", Note(b"last"))
    assert bench.flush() is None
    assert bench.numbers() == [(QUEUES_MAX - 1, 2**42 - 1)]
    with pytest.raises(StoreError, match="queue numbers"):
        bench.store.define(queue_record(QUEUES_MAX))


def test_durable_subscription_is_replaced_and_forgotten(bench: Bench) -> None:
    first = DurableRecord("h", "d", ("/topic/a",), "")
    second = DurableRecord("h", "d", ("/topic/b", "/topic/c.*"), "x > 1")
    bench.store.bind(first)
    bench.store.bind(second)
    bench.store.bind(DurableRecord("h2", "d", (), ""))
    bench.store.unbind("h2", "d")
    bench.flush()
    bench.reopen()
    assert bench.store.durables() == [second]


def test_every_byte_value_survives_a_page(bench: Bench) -> None:
    everything = bytes(range(256)) * 3
    notes = [Note(everything), Note(b""), Note(b"\x00"), Note(b"\xff\xfe\x00\n \x00"), Note(b"\n")]
    for seq, note in enumerate(notes):
        bench.store.append(1, seq, "", note)
        bench.store.spill(2, seq, note)
    bench.flush()
    for queue in (1, 2):
        bodies = bench.page(*[(queue, seq) for seq in range(len(notes))])
        assert [body.body for body in bodies] == [note.body for note in notes]


def test_spilled_bodies_are_read_like_others_until_the_restart(bench: Bench) -> None:
    bench.store.append(1, 1, "", Note(b"stays"))
    bench.store.spill(1, 2, Note(b"goes"))
    bench.store.spill(1, 3, Note(b"is taken back"))
    bench.flush()
    bench.store.unspill(1, 3)
    bench.flush()
    assert {body.body for body in bench.page((1, 1), (1, 2), (1, 3))} == {b"stays", b"goes"}
    bench.reopen()
    assert [body.body for body in bench.page((1, 1), (1, 2))] == [b"stays"]


def test_close_finishes_what_was_handed_over(bench: Bench) -> None:
    for seq in range(1, 200):
        bench.store.append(1, seq, "", Note(b"x" * 1000))
        bench.store.flush(seq)
    bench.reopen()
    assert len(bench.numbers()) == 199


def test_named_records_are_replaced_removed_and_told_apart_by_host_kind_and_key(
    bench: Bench,
) -> None:
    first, second = NamedRecord("h", "park", "q/g", "{}"), NamedRecord("h", "park", "q/g", "[1]")
    others = [
        NamedRecord("h2", "park", "q/g", "x"),
        NamedRecord("h", "user", "q/g", "gr\u00fcn \U0001f426"),
        NamedRecord("h", "park", "", ""),
    ]
    for record in (first, second, *others, NamedRecord("h", "park", "gone", "1")):
        bench.store.put(record)
    bench.store.remove("h", "park", "gone")
    bench.store.remove("h", "park", "never was")
    assert bench.flush() is None
    bench.reopen()
    assert set(bench.store.records()) == {second, *others}


def test_a_record_that_is_put_after_it_was_removed_is_there(bench: Bench) -> None:
    record = NamedRecord("h", "park", "a", "1")
    bench.store.put(record)
    bench.flush()
    bench.store.remove("h", "park", "a")
    bench.store.put(record)
    bench.flush()
    bench.reopen()
    assert bench.store.records() == [record]


def test_one_batch_holds_everything_and_is_read_back_in_the_order_of_writing(bench: Bench) -> None:
    bench.store.define(queue_record(1))
    for seq in (1, 2, 3):
        bench.store.append(1, seq, "g", Note(b"%d" % seq))
    bench.flush()
    bench.store.append(1, 4, "g", Note(b"4"))
    bench.store.move(1, 1, 9)
    bench.store.count_retry(1, 2, 3)
    bench.store.delete(1, 3)
    bench.store.remember(1, 1, b"digest")
    bench.store.reserve(1, 500)
    bench.store.note_dropped(1, 2)
    bench.store.put(NamedRecord("default", "park", "g", ""))
    bench.flush()
    bench.reopen()
    found = [(record.seq, record.deliveries) for record in bench.store.messages()]
    assert found == [(2, 3), (4, 0), (9, 0)]
    assert [body.body for body in bench.page((1, 2), (1, 4), (1, 9))] == [b"2", b"4", b"1"]
    assert [(record.number, record.digest) for record in bench.store.ids()] == [(1, b"digest")]
    (queue,) = bench.store.queues()
    assert (queue.next_seq, queue.dropped_to) == (500, 2)
    assert len(bench.store.records()) == 1


def test_the_registry_has_just_the_stores_that_the_settings_know() -> None:
    kinds = get_args(StoreSettings.model_fields["kind"].annotation)
    assert list(STORES) == list(kinds)
    assert set(KINDS) == set(STORES) - {"memory"}


def test_batch_that_can_wait_goes_with_the_next_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SETTLE_S", 1000.0)
    bench.store.append(1, 1, "", Note(b"old"))
    bench.flush()
    bench.store.delete(1, 1)
    bench.store.flush(77, can_wait=True)
    bench.store.append(1, 2, "", Note(b"new"))
    assert 77 not in bench.done
    assert bench.flush() is None
    assert bench.done[77] is None
    assert bench.numbers() == [(1, 2)]


def test_batch_that_can_wait_is_written_soon_when_nothing_follows(bench: Bench) -> None:
    bench.store.append(1, 1, "", Note(b"old"))
    bench.flush()
    for ticket in (77, 78):
        bench.store.flush(ticket, can_wait=True)
        bench.loop.until(lambda ticket=ticket: ticket in bench.done)  # type: ignore[misc]
    assert (bench.done[77], bench.done[78]) == (None, None)


def test_batch_that_can_wait_is_written_at_once_when_it_is_told_to_hurry(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SETTLE_S", 1000.0)
    bench.store.append(1, 1, "", Note(b"old"))
    bench.flush()
    bench.store.delete(1, 1)
    bench.store.flush(77, can_wait=True)
    bench.store.hurry()
    bench.loop.until(lambda: 77 in bench.done)
    assert bench.numbers() == []


def test_batch_that_can_wait_is_written_before_the_store_is_closed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SETTLE_S", 1000.0)
    bench.store.append(1, 1, "", Note(b"old"))
    bench.flush()
    bench.store.delete(1, 1)
    bench.store.flush(77, can_wait=True)
    assert bench.numbers() == []


def test_hurry_with_nothing_to_write_writes_nothing(bench: Bench) -> None:
    bench.store.hurry()
    assert bench.flush() is None
    assert list(bench.done) == [1]
