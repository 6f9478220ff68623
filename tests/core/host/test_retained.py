"""Retained: what topics keep for later subscribers has a bound."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from covey.config.settings import Settings
from covey.core.errors import RefusedError
from covey.core.host.retained import COST
from covey.core.management.reload import reconfigure
from covey.core.model.message import FORGET_RETAINED, RETAIN
from tests.core.double import Person, Room, letter, places

LIMIT = 2 * COST + 10  # two small messages


@pytest.fixture
def room() -> Room:
    return Room(limits={"retained_memory_max": LIMIT})


def keep(person: Person, topic: str, name: str = "x", size: int = 1) -> None:
    person.send(topic, name, size=size, retain=RETAIN)


def kept(room: Room) -> int:
    return room.broker.host.audience.retained.size


def test_a_message_for_which_there_is_no_room_is_refused_and_goes_nowhere(room: Room) -> None:
    sender = room.enter()
    keep(sender, "/topic/a")
    keep(sender, "/topic/b")
    reader = room.enter().read("/topic/**", "r")
    with pytest.raises(RefusedError, match=r"topic c: .*retained_memory_max"):
        keep(sender, "/topic/c")
    sender.send("/topic/c", "not kept")
    assert sorted(reader.names, key=str) == ["not kept", "x", "x"]


def test_a_kept_message_may_be_replaced_by_one_that_is_as_heavy(room: Room) -> None:
    sender = room.enter()
    keep(sender, "/topic/a")
    keep(sender, "/topic/b", "old", size=9)
    keep(sender, "/topic/b", "new", size=9)
    with pytest.raises(RefusedError):
        keep(sender, "/topic/b", "larger", size=10)
    assert room.enter().read("/topic/b", "r").names == ["new"]


@pytest.mark.parametrize("way", ["forget", "delete", "expire"])
def test_what_a_topic_no_longer_keeps_makes_room(room: Room, way: str) -> None:
    sender = room.enter()
    keep(sender, "/topic/a")
    sender.send("/topic/b", "x", retain=RETAIN, expires_ms=int((room.now + 1) * 1000))
    if way == "forget":
        sender.send("/topic/b", "x", retain=FORGET_RETAINED)
    elif way == "delete":
        room.broker.host.delete_topic("b")
    else:
        room.wait(100.0)
        room.wait(100.0)
    assert kept(room) == COST + 1
    keep(sender, "/topic/c")


def test_a_composite_send_and_a_large_head_count_in_full(room: Room) -> None:
    sender = room.enter()
    with pytest.raises(RefusedError):
        sender.send("/topic/a,/topic/b,/topic/c", "x", retain=RETAIN)
    with pytest.raises(RefusedError):
        sender.send("/topic/a", "x", retain=RETAIN, weight=LIMIT)
    assert kept(room) == 0


def test_a_transaction_is_refused_as_a_whole(room: Room) -> None:
    sender = room.enter()
    broker = room.broker
    transaction = broker.transactions.begin(sender.session, "t")
    for name in "abc":
        transaction.send(places(f"/topic/{name}"), letter(name, retain=RETAIN))
    with pytest.raises(RefusedError, match="retained_memory_max"):
        broker.transactions.commit(sender.session, "t", room.now)
    assert kept(room) == 0


def test_a_message_that_fills_very_many_queues_is_refused_as_any_other() -> None:
    room = Room(limits={"retained_memory_max": LIMIT, "work_portion": 3})
    for number in range(10):
        session = room.enter().session
        room.broker.make_durable(session, f"d{number}", places("/topic/a"), None, room.now)
    sender = room.enter()
    for size in (1, LIMIT):
        with suppress(RefusedError):
            keep(sender, "/topic/a", size=size)
        while room.broker.jobs.is_any or room.broker.turns.is_due:
            room.broker.go_on(room.now)
    assert any("retained_memory_max" in text for text in sender.kicks)
    assert kept(room) == COST + 1
    durables = room.broker.host.durables.values()
    assert [each.queue.state.index.count for each in durables] == [1] * 10


def test_a_limit_that_was_lowered_refuses_only_what_would_take_more(room: Room) -> None:
    sender = room.enter()
    keep(sender, "/topic/a", size=5)
    lower = Settings.model_validate({"broker": {"retained_memory_max": 1}})
    reconfigure([room.broker], lower, room.now)
    keep(sender, "/topic/a", size=4)
    with pytest.raises(RefusedError):
        keep(sender, "/topic/a", size=5)
    assert kept(room) == COST + 4


def test_the_count_never_drifts() -> None:
    room = Room()
    sender = room.enter()
    dice = random.Random(7)
    host = room.broker.host
    for _ in range(500):
        topic = f"/topic/{dice.randrange(6)}"
        what = dice.randrange(8)
        if what < 5:
            keep(sender, topic, size=dice.randrange(100))
        elif what < 7:
            sender.send(topic, "x", retain=FORGET_RETAINED)
        elif topic[7:] in host.topics:
            host.delete_topic(topic[7:])
        found = [each.retained for each in host.topics.values() if each.retained is not None]
        assert kept(room) == sum(each.weight + COST for each in found)
        assert len(host.audience.retained.topics) == len(found)
