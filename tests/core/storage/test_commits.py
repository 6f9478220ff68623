"""Commits: nothing is seen or promised before the disk has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.model.entry import KEPT, Outcome
from covey.core.naming.destination import Destination, Kind
from covey.core.storage.commits import STUCK_S
from covey.core.storage.ledger import BLOCK
from covey.core.storage.memory import MemoryStore
from tests.core.double import HeldStore, Room
from tests.core.storage.sqlite.support import House, Note, bodies


class LeasedStore(HeldStore):
    """A store whose right to write ends by itself."""

    until = 0.0

    def valid_until(self) -> float:
        return self.until


def test_without_a_store_everything_is_safe_at_once() -> None:
    room = Room(store=MemoryStore())
    assert room.enter().send("/queue/a", "first", persistent=True) == ["first"]


def test_persistent_message_is_seen_and_receipted_only_after_its_commit(tmp_path: Path) -> None:
    house = House(tmp_path)
    reader = house.reader("a")
    house.rest()
    house.send("a", b"x", receipt="r1")
    house.broker.run(0.0)
    assert (reader.got, house.receipts) == ([], [])
    house.rest()
    assert (reader.got, house.receipts) == ([1], ["r1"])
    house.store.close()


def test_message_without_persistence_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    house = House(tmp_path)
    reader = house.reader("a")
    house.rest()  # the queue's first numbers are reserved now
    house.send("a", b"x", persistent=False, receipt="r1")
    house.broker.run(0.0)
    assert (reader.got, house.receipts) == ([1], ["r1"])
    house.store.close()


def test_nothing_kept_is_delivered_while_the_store_hangs() -> None:
    store = HeldStore()
    room = Room(store=store)
    client = room.enter()
    for _ in range(3):
        client.send("/queue/kept", persistent=True)
        client.send("/queue/passing")
    store.write()
    readers = [client.read(f"/queue/{name}", name, credit=1) for name in ("kept", "passing")]
    store.write()
    assert [reader.got for reader in readers] == [[1], [1]]
    client.settle(readers[0])  # the disk does not get it
    for seconds, got in ((STUCK_S - 0.1, 2), (0.2, 2), (5.0, 2)):
        room.wait(seconds)
        for reader in readers:
            reader.window.grant(1, 0)
        room.broker.run(room.now)
        assert len(readers[0].got) == got
    assert len(readers[1].got) == 3
    assert not room.broker.turns.run(10)  # it waits without one turn after the other
    store.write()
    room.broker.run(room.now)
    assert len(readers[0].got) == 3


@pytest.mark.parametrize("passed_s", [1.9, 2.1])
def test_nothing_is_delivered_when_another_broker_may_have_the_store(passed_s: float) -> None:
    store = LeasedStore()
    room = Room(store=store)
    client = room.enter()
    store.until = room.now + 2.0
    client.send("/queue/a")
    store.write()
    room.wait(passed_s)
    reader = client.read("/queue/a")
    store.write()
    assert bool(reader.got) == (passed_s < 2.0)
    store.until = room.now + 2.0
    room.wait(0.1)
    store.write()
    room.wait(0.1)
    assert reader.got == [1]


def test_number_is_not_shown_to_anybody_before_its_block_is_reserved(tmp_path: Path) -> None:
    house = House(tmp_path)
    reader = house.reader("a")
    house.send("a", b"x", persistent=False)
    house.broker.run(0.0)
    assert reader.got == []
    house.rest()
    assert reader.got == [1]
    house.store.close()


def test_no_number_is_given_twice_whatever_became_of_its_message(tmp_path: Path) -> None:
    house = House(tmp_path)
    seen: list[int] = []
    for count in (3, BLOCK + 7, 1):
        reader = house.reader("a", 10**6)
        for _ in range(count):
            house.send("a", b"", persistent=False)
        house.rest()
        seen += reader.got
        house = house.restart()
    assert len(seen) == len(set(seen)) == BLOCK + 11
    assert seen == sorted(seen)
    house.store.close()


def test_next_block_is_reserved_before_the_last_one_is_used_up(tmp_path: Path) -> None:
    house = House(tmp_path)
    reader = house.reader("a", 10**6)
    house.rest()
    for start in range(0, 3 * BLOCK, 1000):
        for _ in range(1000):
            house.send("a", b"", persistent=False)
        house.broker.run(0.0)
        assert len(reader.got) == start + 1000, "a consumer that keeps up waits for no block"
        house.rest()
    house.store.close()


def test_settled_message_is_gone_from_the_disk(tmp_path: Path) -> None:
    house = House(tmp_path)
    reader = house.reader("a")
    for body in (b"1", b"2", b"3"):
        house.send("a", body)
    house.rest()
    house.settle(reader.entries[1])
    house.settle(reader.entries[2], Outcome.REJECTED)
    house.rest()
    house = house.restart()
    reader = house.reader("a")
    house.rest()
    assert bodies(reader) == [b"1"]
    house.store.close()


def test_receipt_of_an_acknowledgement_waits_for_the_delete(tmp_path: Path) -> None:
    house = House(tmp_path)
    reader = house.reader("a")
    house.send("a", b"x")
    house.rest()
    house.settle(reader.entries[0])
    house.broker.promises.after(house.session, lambda: house.receipts.append("ack"))
    house.broker.run(0.0)
    assert house.receipts == []
    house.rest()
    assert house.receipts == ["ack"]
    house.store.close()


def test_transaction_is_one_batch_with_its_settlements(tmp_path: Path) -> None:
    house = House(tmp_path)
    reader = house.reader("in")
    house.send("in", b"request")
    house.rest()
    transaction = house.broker.transactions.begin(house.session, "t")
    for name in ("out", "audit"):
        transaction.send((Destination(Kind.QUEUE, name),), Note(b"answer"))
    transaction.settle(reader.entries[0], Outcome.ACCEPTED, 1.0)
    house.broker.transactions.commit(
        house.session, "t", 0.0, lambda: house.receipts.append("committed")
    )
    assert house.broker.commits.in_flight == {}
    house.broker.run(0.0)
    (batch,) = house.broker.commits.in_flight.values()
    assert len(batch.entries) == 2
    assert house.queue("in").state.index.count == 0, "the settlement is of the same batch"
    assert house.receipts == []
    house.rest()
    assert house.receipts == ["committed"]
    house = house.restart()
    assert [house.queue(name).state.index.count for name in ("in", "out", "audit")] == [0, 1, 1]
    house.store.close()


def test_queue_that_is_not_durable_keeps_nothing_on_disk(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.queue("a").is_durable = False
    house.send("a", b"x")
    house.rest()
    house = house.restart()
    assert house.queue("a").state.index.count == 0
    house.store.close()


def test_temporary_queue_leaves_nothing_on_disk(tmp_path: Path) -> None:
    house = House(tmp_path)
    name = f"temp.default.{house.session.id}.reply"
    house.send(name, b"x")
    house.rest()
    (entry,) = house.queue(name).state.index
    assert entry.stored != KEPT
    assert list(house.store.messages()) == []
    assert house.store.queues() == []
    house.store.close()


def test_pressure_blocks_who_sends_something_persistent_and_nobody_else(tmp_path: Path) -> None:
    house = House(tmp_path)
    reader = house.reader("a")
    house.rest()
    house.broker.commits.pressed("the disk is full")
    house.send("a", b"x", persistent=False)
    assert not house.session.is_blocked
    house.send("a", b"y", receipt="late")
    assert house.session.is_blocked
    assert house.session.blocked_on == "the disk is full"
    house.broker.run(0.0)
    assert reader.got == [1]
    house.broker.commits.pressed("")
    house.rest()
    assert not house.session.is_blocked
    assert house.receipts == ["late"]
    house.store.close()


def test_swept_queue_is_forgotten_on_disk_without_a_turn_of_anybody(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.send("a", b"x", persistent=False)
    house.rest()
    reader = house.reader("a")
    house.rest()
    house.settle(reader.entries[0])
    house.queue("a").leave(reader, 0.0)
    house.rest()
    house.broker.tick(1000.0)
    assert house.broker.commits.in_flight
    house.rest()
    house.store.close()
