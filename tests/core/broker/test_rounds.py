"""Rounds: what is looked for now and then, and who has waited for long."""

from __future__ import annotations

from covey.config.queues import QueueSettings
from covey.core.broker.rounds import EVERY_S
from tests.core.double import Room
from tests.doubles import Heard


def test_unused_queues_are_looked_for_now_and_then() -> None:
    room = Room(QueueSettings(auto_delete_after_s=1))
    room.wait(0.0)
    room.broker.host.queue("a")
    room.wait(EVERY_S - 1)
    assert "a" in room.broker.host.queues, "it is too early to look"
    room.wait(1.0)
    assert "a" not in room.broker.host.queues


# Backpressure: a producer that waits for long is told of once, with its reason.


def full_room() -> tuple[Room, Heard]:
    room = Room(QueueSettings(id="a", quota_messages=1))
    heard = Heard()
    room.broker.audit = heard
    return room, heard


def test_a_producer_that_waits_for_long_is_told_of_once() -> None:
    room, heard = full_room()
    admin = room.enter()
    for name in ("1", "2"):
        admin.send("/queue/a", name)
    room.wait(6.0)
    room.wait(6.0)
    reason = "queue a is full: it holds 1 messages, 1 bytes, its quota is 1 messages"
    assert heard.all == [("blocked", "admin", "", reason, 6.0)]


def test_a_short_wait_is_counted_and_no_news() -> None:
    room, heard = full_room()
    room.wait(6.0)
    admin = room.enter()
    for name in ("1", "2"):
        admin.send("/queue/a", name)
    reader = admin.read("/queue/a")
    admin.settle(reader)
    room.wait(6.0)
    assert (heard.all, admin.session.blocks) == ([], 1)
    room.broker.drop(admin.session, room.now)
    assert room.broker.blocks_gone == 1


def test_the_next_long_wait_is_told_again() -> None:
    room, heard = full_room()
    admin, worker = room.enter(), room.enter()
    reader = worker.read("/queue/a", credit=0)
    for name in ("1", "2"):
        admin.send("/queue/a", name)
    room.wait(6.0)
    reader.window.count = 10
    reader.window.reconsider()
    room.broker.run(room.now)
    worker.settle(reader)
    assert not admin.session.is_blocked
    admin.send("/queue/a", "3")
    room.wait(6.0)
    assert len(heard.all) == 2
