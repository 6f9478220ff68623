"""Promises: a session waits for its own changes, all of them, and for nobody else's."""

from __future__ import annotations

from covey.config.queues import QueueSettings
from tests.core.double import HeldStore, Room


def test_session_waits_for_the_batch_that_holds_its_own_changes_and_no_other() -> None:
    store = HeldStore()
    room = Room(store=store)
    first, second, third = room.enter(), room.enter(), room.enter()
    first.send("/queue/a")
    store.write()
    one = first.send("/queue/a", "1", persistent=True)
    two = second.send("/queue/a", "2", persistent=True)
    assert third.send("/queue/a", "3") == ["3"], "nothing of it goes to the disk"
    four = first.send("/queue/a", "4")
    assert (one, two, four) == ([], [], [])
    store.listener.finished(store.tickets.pop(0), None)
    assert (one, two, four) == (["1"], [], ["4"])
    store.write()
    assert two == ["2"]


def test_what_the_broker_does_by_itself_keeps_nobody_waiting() -> None:
    store = HeldStore()
    room = Room(store=store, limits={"memory_window_queue": 0, "memory_window_total": 0})
    sender, reader = room.enter(), room.enter()
    sender.send("/queue/a", "stored", persistent=True)
    sender.send("/queue/b", "seen")
    store.write()
    reader.read("/queue/a").is_presettled = True
    sender.send("/queue/a", "another", persistent=True)
    store.write()
    room.wait(0.0)
    assert store.tickets, "the delivery has removed it, and is on its way"
    done = reader.send("/queue/b", "x")
    assert done == ["x"], "its body leaves memory for the disk, which no receipt is about"


def test_work_that_waited_for_room_is_its_senders_and_waits_for_its_own_commit() -> None:
    store = HeldStore()
    room = Room(QueueSettings(id="a", quota_messages=1), store=store)
    sender, other, reader = room.enter(), room.enter(), room.enter()
    sender.send("/queue/a", "1", persistent=True)
    sender.send("/queue/b", "seen")
    store.write()
    parked = sender.send("/queue/a", "2", persistent=True)
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


def test_change_that_nobody_claimed_counts_for_the_next_who_asks() -> None:
    store = HeldStore()
    room = Room(store=store)
    person = room.enter()
    person.send("/queue/a", "1", persistent=True)
    reader = person.read("/queue/a")
    store.write()
    room.broker.run(room.now)
    assert reader.queue is not None
    reader.queue.accept(reader, reader.entries, room.now)
    called: list[str] = []
    room.broker.promises.after(person.session, lambda: called.append("late, but not early"))
    assert called == []
    room.broker.run(room.now)
    store.write()
    assert called == ["late, but not early"]
