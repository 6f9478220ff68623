"""Batches that can wait: which they are, and who makes the store hurry."""

from __future__ import annotations

from covey.config.queues import QueueSettings
from covey.core.model.entry import Outcome
from tests.core.double import HeldStore, Person, Room
from tests.doubles import Reader


def settled(store: HeldStore, room: Room) -> tuple[Person, Reader]:
    """Let a person read a persistent message; nothing is on its way to the store."""
    sender, person = room.enter(), room.enter()
    sender.send("/queue/a", "1", persistent=True)
    reader = person.read("/queue/a")
    store.write()
    room.broker.run(room.now)
    store.write()
    assert reader.held()
    return person, reader


def test_settlement_for_which_nobody_waits_can_wait() -> None:
    store = HeldStore()
    room = Room(store=store)
    person, reader = settled(store, room)
    store.resting.clear()
    person.settle(reader)
    assert store.resting == store.tickets
    assert len(store.tickets) == 1
    assert store.hurried == 0


def test_settlement_for_which_a_receipt_waits_cannot_wait() -> None:
    store = HeldStore()
    room = Room(store=store)
    person, reader = settled(store, room)
    store.resting.clear()
    assert reader.queue is not None
    reader.queue.accept(reader, reader.entries, room.now)
    called: list[str] = []
    room.broker.promises.after(person.session, lambda: called.append("safe"))
    room.broker.run(room.now)
    assert (len(store.tickets), store.resting, called) == (1, [], [])
    store.write()
    assert called == ["safe"]


def test_receipt_that_is_asked_for_later_makes_the_store_hurry_once() -> None:
    store = HeldStore()
    room = Room(store=store)
    person, reader = settled(store, room)
    person.session.is_answered_in_order = True
    person.settle(reader)
    called: list[int] = []
    room.broker.promises.after(person.session, lambda: called.append(1))
    room.broker.promises.after(person.session, lambda: called.append(2))
    assert (store.hurried, called) == (1, [])
    store.write()
    assert called == [1, 2]


def test_receipt_of_a_session_that_has_settled_nothing_hurries_nobody() -> None:
    store = HeldStore()
    room = Room(store=store)
    person, reader = settled(store, room)
    other = room.enter()
    other.session.is_answered_in_order = True
    person.settle(reader)
    called: list[str] = []
    room.broker.promises.after(other.session, lambda: called.append("at once"))
    assert (store.hurried, called) == (0, ["at once"])


def test_nobody_hurries_once_a_batch_that_cannot_wait_has_followed() -> None:
    store = HeldStore()
    room = Room(store=store)
    person, reader = settled(store, room)
    person.session.is_answered_in_order = True
    person.settle(reader)
    room.enter().send("/queue/a", "2", persistent=True)
    room.broker.promises.after(person.session, lambda: None)
    assert store.hurried == 0


def test_message_cannot_wait_nor_can_the_count_of_its_returns() -> None:
    store = HeldStore()
    room = Room(store=store)
    person, reader = settled(store, room)
    store.resting.clear()
    person.send("/queue/a", "2", persistent=True)
    store.write()
    room.broker.run(room.now)
    person.settle(reader, Outcome.FAILED)
    assert store.tickets
    assert store.resting == []


def test_settlement_with_a_dead_letter_cannot_wait() -> None:
    store = HeldStore()
    room = Room(QueueSettings(id="a", nak_limit=1, dlq="dead"), store=store)
    person, reader = settled(store, room)
    store.write()
    store.resting.clear()
    person.settle(reader, Outcome.FAILED)
    assert len(store.tickets) == 1
    assert store.resting == []
    store.write()
    assert room.depth("dead") == 1


def test_longest_commit_that_is_told_is_not_of_a_batch_that_was_kept_back() -> None:
    store = HeldStore()
    room = Room(store=store)
    person, reader = settled(store, room)
    room.broker.commits.slowest_s = 0.0
    person.settle(reader)
    room.wait(0.5)
    store.write()
    assert room.broker.commits.slowest_s == 0.0
