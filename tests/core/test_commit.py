"""Commits: nothing is seen or promised before the disk has it."""

from __future__ import annotations

from pathlib import Path

from covey.config.queues import QueueSettings
from covey.core.destination import Destination, Kind
from covey.core.entry import KEPT, Outcome
from covey.core.ledger import BLOCK
from covey.core.stores.memory import MemoryStore
from tests.core.double import HeldStore, Room
from tests.core.stores.support import House, Note, bodies


def test_without_a_store_everything_is_safe_at_once() -> None:
    room = Room(store=MemoryStore())
    assert room.enter().send("/queue/a", "first", persistent=1) == ["first"]


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
    house.broker.commits.after(house.session, lambda: house.receipts.append("ack"))
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
    transaction = house.broker.begin(house.session, "t")
    for name in ("out", "audit"):
        transaction.send((Destination(Kind.QUEUE, name),), Note(b"answer"))
    transaction.settle(reader.entries[0], Outcome.ACCEPTED)
    house.broker.commit(house.session, "t", 0.0, lambda: house.receipts.append("committed"))
    assert house.broker.commits.in_flight == {}
    house.broker.run(0.0)
    (batch,) = house.broker.commits.in_flight.values()
    assert len(batch.entries) == 2
    assert house.queue("in").board.index.count == 0, "the settlement is of the same batch"
    assert house.receipts == []
    house.rest()
    assert house.receipts == ["committed"]
    house = house.restart()
    assert [house.queue(name).board.index.count for name in ("in", "out", "audit")] == [0, 1, 1]
    house.store.close()


def test_queue_that_is_not_durable_keeps_nothing_on_disk(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.queue("a").is_durable = False
    house.send("a", b"x")
    house.rest()
    house = house.restart()
    assert house.queue("a").board.index.count == 0
    house.store.close()


def test_temporary_queue_leaves_nothing_on_disk(tmp_path: Path) -> None:
    house = House(tmp_path)
    name = f"temp.default.{house.session.id}.reply"
    house.send(name, b"x")
    house.rest()
    (entry,) = house.queue(name).board.index
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
    assert not house.session.is_blocked
    house.rest()
    assert house.receipts == ["late"]
    house.store.close()


def test_session_waits_for_the_batch_that_holds_its_own_changes_and_no_other() -> None:
    store = HeldStore()
    room = Room(store=store)
    first, second, third = room.enter(), room.enter(), room.enter()
    first.send("/queue/a")
    store.write()
    one = first.send("/queue/a", "1", persistent=1)
    two = second.send("/queue/a", "2", persistent=1)
    assert third.send("/queue/a", "3") == ["3"], "nothing of it goes to the disk"
    four = first.send("/queue/a", "4")
    assert (one, two, four) == ([], [], [])
    store.finished(store.tickets.pop(0), None)
    assert (one, two, four) == (["1"], [], ["4"])
    store.write()
    assert two == ["2"]


def test_what_the_broker_does_by_itself_keeps_nobody_waiting() -> None:
    store = HeldStore()
    room = Room(store=store, limits={"memory_window_queue": 0, "memory_window_total": 0})
    sender, reader = room.enter(), room.enter()
    sender.send("/queue/a", "stored", persistent=1)
    sender.send("/queue/b", "seen")
    store.write()
    reader.read("/queue/a").is_presettled = True
    sender.send("/queue/a", "another", persistent=1)
    store.write()
    room.wait(0.0)
    assert store.tickets, "the delivery has removed it, and is on its way"
    done = reader.send("/queue/b", "x")
    assert done == ["x"], "its body leaves memory for the disk, which no receipt is about"


def test_work_that_waited_for_room_is_its_senders_and_waits_for_its_own_commit() -> None:
    store = HeldStore()
    room = Room(QueueSettings(id="a", quota_messages=1), store=store)
    sender, other, reader = room.enter(), room.enter(), room.enter()
    sender.send("/queue/a", "1", persistent=1)
    sender.send("/queue/b", "seen")
    store.write()
    parked = sender.send("/queue/a", "2", persistent=1)
    waiting = other.send("/queue/a", "3")
    taker = reader.read("/queue/a")
    reader.settle(taker)
    assert reader.send("/queue/b", "x") == [], "its acknowledgement is on its way"
    assert sender.send("/queue/b", "x") == [], "so is what had to wait"
    assert other.send("/queue/b", "x") == ["x"]
    store.write()
    room.broker.run(room.now)
    assert (parked, waiting) == (["2"], [])
    reader.settle(taker)
    assert waiting == ["3"], "the acknowledgement that made room is not its doing"


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
