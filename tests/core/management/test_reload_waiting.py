"""A limit that is changed lets go of whoever waits for it, at once, however it was changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from covey.config.queues import QueueSettings
from covey.config.settings import Settings
from covey.core.management.admin import Admin
from covey.core.management.reload import reconfigure
from covey.core.security.users import Identity, Principal
from tests.core.double import Person, Room
from tests.doubles import HeldStore

OPERATOR = Identity("root", (Principal("role", "admin"),))
FULL = {"id": "q", "quota_messages": 2, "full_policy": "block"}


def reload(room: Room, **given: Any) -> None:
    """Let other settings hold, and the broker go on, as SIGHUP does."""
    reconfigure([room.broker], Settings.model_validate(given), room.now)
    room.broker.run(room.now)


def update(room: Room, arguments: dict[str, object]) -> None:
    """Change a queue, as HTTP's PATCH and `$management`'s UPDATE do."""
    Admin(room.broker, room.broker.host, OPERATOR).update("queue", "q", arguments, room.now)
    room.broker.run(room.now)


def with_full_queue(**given: object) -> tuple[Room, Person]:
    room = Room(QueueSettings.model_validate(FULL | given))
    ann = room.enter()
    for name in ("1", "2", "3"):
        ann.send("/queue/q", name, size=10)
    assert ann.session.is_blocked and room.depth("q") == 2
    return room, ann


CHANGES: dict[str, tuple[dict[str, object], Callable[[Room], None]]] = {
    "more messages, by reload": (
        {},
        lambda room: reload(room, queue=[FULL | {"quota_messages": 3}]),
    ),
    "no limit, by reload": ({}, lambda room: reload(room, queue=[{"id": "q"}])),
    "more messages": ({}, lambda room: update(room, {"qpid.max_count": 3})),
    "more messages in our words": ({}, lambda room: update(room, {"covey.quota_messages": 3})),
    "the limit removed": ({}, lambda room: update(room, {"qpid.max_count": 0})),
    "more bytes": (
        {"quota": 25, "quota_messages": 0},
        lambda room: update(room, {"qpid.max_size": 30}),
    ),
    "more bytes, by reload": (
        {"quota": 25, "quota_messages": 0},
        lambda room: reload(room, queue=[{"id": "q", "quota": 30, "full_policy": "block"}]),
    ),
    "a ring": ({}, lambda room: update(room, {"qpid.policy_type": "ring"})),
    "newcomers dropped": ({}, lambda room: update(room, {"covey.full_policy": "drop tail"})),
    "a ring, by reload": (
        {},
        lambda room: reload(room, queue=[FULL | {"full_policy": "drop head"}]),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_who_waits_for_a_full_queue_goes_on_when_its_limit_changes(change: str) -> None:
    given, act = CHANGES[change]
    room, ann = with_full_queue(**given)
    act(room)
    assert not ann.session.is_blocked, ann.session.blocked_on
    assert ann.kicks == []
    assert ann.send("/queue/other", "next") == ["next"]


def test_who_waits_for_a_queue_that_rejects_now_is_told_so() -> None:
    room, ann = with_full_queue()
    update(room, {"qpid.policy_type": "reject"})
    assert "queue q is full" in ann.kicks[0]
    assert room.depth("q") == 2


def test_who_still_waits_is_shown_the_limit_that_holds() -> None:
    room, ann = with_full_queue()
    update(room, {"qpid.max_count": 1})
    assert ann.session.is_blocked
    assert ann.session.blocked_on.endswith("its quota is 1 messages")


@pytest.mark.parametrize("limits", [{}, {"memory_limit": 10_000}, {"memory_limit": 0}])
def test_who_waits_for_memory_goes_on_when_more_is_allowed(limits: dict[str, int]) -> None:
    room = Room(limits={"memory_limit": 1000, "memory_alarm_percent": 50})
    ann = room.enter()
    ann.send("/queue/q", "1")
    room.broker.rounds.weigh(900)
    ann.send("/queue/q", "2")
    assert ann.session.is_blocked
    reload(room, broker=limits)
    assert not ann.session.is_blocked and room.depth("q") == 2


def test_who_waits_for_memory_goes_on_when_the_alarm_comes_later() -> None:
    limits: dict[str, object] = {"memory_limit": 1000, "memory_alarm_percent": 50}
    room = Room(limits=limits)
    ann = room.enter()
    ann.send("/queue/q", "1")
    room.broker.rounds.weigh(900)
    ann.send("/queue/q", "2")
    reload(room, broker=limits | {"memory_alarm_percent": 95})
    assert not ann.session.is_blocked


def test_who_waits_for_a_disk_that_is_behind_goes_on_when_more_may_be_unwritten() -> None:
    room = Room(store=HeldStore())
    reload(room, store={"unwritten_max": 10})
    ann = room.enter()
    for name in ("1", "2"):
        ann.send("/queue/q", name, persistent=True)
    assert "behind" in ann.session.blocked_on
    reload(room, store={"unwritten_max": 1_000_000})
    assert not ann.session.is_blocked


def test_who_waits_for_a_slow_subscriber_goes_on_when_the_topic_may_queue_for_it() -> None:
    room = Room()
    ann, bob = room.enter(), room.enter()
    bob.read("/topic/t", credit=0)
    ann.send("/topic/t", "1", size=1_000_000)
    assert ann.session.is_blocked
    reload(room, topic=[{"id": "t", "slow_consumer_policy": "queue"}])
    assert not ann.session.is_blocked


def test_a_consumer_that_holds_all_it_may_gets_more_when_it_may_hold_more() -> None:
    room = Room(limits={"unsettled_max": 1})
    ann, bob = room.enter(), room.enter()
    reader = bob.read("/queue/q")
    reader.unsettled_max = 1  # as its protocol sets it
    for name in ("1", "2", "3"):
        ann.send("/queue/q", name)
    assert reader.names == ["1"]
    reload(room, broker={"unsettled_max": 2})
    assert reader.names == ["1", "2"]


def grouped(**groups: object) -> dict[str, object]:
    return {"id": "q", "groups": groups}


def test_a_group_whose_owner_holds_all_it_may_goes_on_when_it_may_hold_more() -> None:
    room = Room(QueueSettings.model_validate(grouped(unsettled_max=1)))
    ann, bob = room.enter(), room.enter()
    reader = bob.read("/queue/q")
    for name in ("1", "2", "3"):
        ann.send("/queue/q", name, group="g")
    assert reader.names == ["1"]
    reload(room, queue=[grouped(unsettled_max=2)])
    assert reader.names == ["1", "2"]


@pytest.mark.parametrize("now", [{}, {"consumers_before_dispatch": 1}])
def test_a_queue_that_waits_for_consumers_begins_when_fewer_are_enough(
    now: dict[str, object],
) -> None:
    before = grouped(consumers_before_dispatch=3, time_before_dispatch_ms=60_000)
    room = Room(QueueSettings.model_validate(before))
    ann, bob = room.enter(), room.enter()
    reader = bob.read("/queue/q")
    ann.send("/queue/q", "1", group="g")
    assert reader.names == []
    reload(room, queue=[grouped(**now)])
    assert reader.names == ["1"]
