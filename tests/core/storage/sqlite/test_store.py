"""The SQLite store: what was flushed is there after it was opened again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.core.errors import StoreError
from covey.core.storage.sqlite.schema import QUEUES_MAX
from covey.core.storage.store import QUEUE, DurableRecord, QueueRecord
from tests.core.storage.sqlite.support import Bench, Note, queue_record


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.store.close()


def reopened(bench: Bench, directory: Path) -> Bench:
    bench.store.close()
    again = Bench(directory)
    bench.store = again.store  # the fixture closes what is open last
    return again


def test_message_survives_with_all_the_core_decides_by(bench: Bench, tmp_path: Path) -> None:
    note = Note(b"hello", "IBM")
    note.expires_ms, note.priority, note.due_ms = 123456789, 7, 99
    bench.store.append(3, 17, "IBM", note)
    assert bench.flush() is None
    again = reopened(bench, tmp_path)
    (record,) = again.store.messages()
    assert record == (3, 17, "IBM", 0, 5, 7, 123456789, 99)
    (body,) = again.page((3, 17))
    assert body == (3, 17, "note", b"IBM 123456789", b"hello")


def test_nothing_of_an_unflushed_batch_survives(bench: Bench, tmp_path: Path) -> None:
    bench.store.append(1, 1, "", Note(b"kept"))
    bench.flush()
    bench.store.append(1, 2, "", Note(b"never flushed"))
    assert reopened(bench, tmp_path).numbers() == [(1, 1)]


def test_messages_come_back_queue_by_queue_in_order(bench: Bench, tmp_path: Path) -> None:
    places = [(queue, seq) for queue in (1, 2, 300) for seq in (1, 2, 5, 70_000, 2**41)]
    shuffled = random.Random(1).sample(places, len(places))
    for queue, seq in shuffled:
        bench.store.append(queue, seq, "", Note(b"x"))
    bench.flush()
    assert reopened(bench, tmp_path).numbers() == places


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


def test_next_number_of_a_queue_never_goes_back(bench: Bench, tmp_path: Path) -> None:
    bench.store.define(queue_record(1))
    bench.store.reserve(1, 5000)
    bench.store.reserve(1, 4000)
    bench.store.define(QueueRecord(1, "default", QUEUE, "a", 7, False, "{}"))
    bench.flush()
    (record,) = reopened(bench, tmp_path).store.queues()
    assert record == QueueRecord(1, "default", QUEUE, "a", 5000, False, "{}")


def test_queue_numbers_end_where_a_place_would_overflow(bench: Bench) -> None:
    bench.store.append(QUEUES_MAX - 1, 2**42 - 1, "", Note(b"last"))
    assert bench.flush() is None
    assert bench.numbers() == [(QUEUES_MAX - 1, 2**42 - 1)]
    with pytest.raises(StoreError, match="queue numbers"):
        bench.store.define(queue_record(QUEUES_MAX))


def test_durable_subscription_is_replaced_and_forgotten(bench: Bench, tmp_path: Path) -> None:
    first = DurableRecord("h", "d", ("/topic/a",), "")
    second = DurableRecord("h", "d", ("/topic/b", "/topic/c.*"), "x > 1")
    bench.store.bind(first)
    bench.store.bind(second)
    bench.store.bind(DurableRecord("h2", "d", (), ""))
    bench.store.unbind("h2", "d")
    bench.flush()
    assert reopened(bench, tmp_path).store.durables() == [second]


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


def test_spilled_bodies_are_read_like_others_until_the_restart(
    bench: Bench, tmp_path: Path
) -> None:
    bench.store.append(1, 1, "", Note(b"stays"))
    bench.store.spill(1, 2, Note(b"goes"))
    bench.store.spill(1, 3, Note(b"is taken back"))
    bench.flush()
    bench.store.unspill(1, 3)
    bench.flush()
    assert {body.body for body in bench.page((1, 1), (1, 2), (1, 3))} == {b"stays", b"goes"}
    again = reopened(bench, tmp_path)
    assert [body.body for body in again.page((1, 1), (1, 2))] == [b"stays"]


def test_close_finishes_what_was_handed_over(bench: Bench, tmp_path: Path) -> None:
    for seq in range(1, 200):
        bench.store.append(1, seq, "", Note(b"x" * 1000))
        bench.store.flush(seq)
    assert len(reopened(bench, tmp_path).numbers()) == 199


def test_second_broker_on_the_directory_is_refused_with_the_first_ones_process(
    bench: Bench, tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match=r"in use by another broker \(process \d+\)"):
        Bench(tmp_path)
    bench.store.append(1, 1, "", Note(b"the first one goes on"))
    assert bench.flush() is None


def test_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"data directory .*file/data cannot be made"):
        Bench(tmp_path / "file" / "data")
