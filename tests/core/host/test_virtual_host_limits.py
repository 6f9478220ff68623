"""A virtual host, and a user in it, may have only so many queues, topics and patterns."""

from __future__ import annotations

import pytest

from covey.core.errors import RefusedError
from tests.core.double import Room


def test_no_more_queues_than_allowed_and_room_for_another_when_one_has_gone() -> None:
    room = Room(limits={"queues_max": 2})
    person = room.enter()
    person.send("/queue/a")
    person.send("/queue/b")
    with pytest.raises(RefusedError, match="queues_max"):
        person.send("/queue/c")
    room.broker.host.delete_queue("a", "gone")
    person.send("/queue/c")
    assert sorted(room.broker.host.queues) == ["b", "c"]


def test_one_user_has_a_limit_of_its_own_and_others_go_on() -> None:
    room = Room(limits={"queues_per_user_max": 1, "topics_per_user_max": 1})
    ann, bob = room.enter("ann"), room.enter("bob")
    ann.send("/queue/a")
    ann.send("/topic/a")
    with pytest.raises(RefusedError, match="ann has made 1 queues"):
        ann.read("/queue/b")
    with pytest.raises(RefusedError, match="topics_per_user_max"):
        ann.send("/topic/b")
    bob.send("/queue/b")
    bob.send("/topic/b")


def test_only_so_many_subscriptions_by_pattern() -> None:
    room = Room(limits={"pattern_subscriptions_max": 2})
    person = room.enter()
    person.read("/queue/a.*", "1")
    person.read("/topic/a.*", "2")
    with pytest.raises(RefusedError, match="pattern_subscriptions_max"):
        person.read("/queue/b.*", "3")
    room.broker.unsubscribe(person.session, "1", room.now)
    person.read("/queue/b.*", "3")


def test_a_durable_subscription_counts_as_a_queue_of_its_maker() -> None:
    room = Room(limits={"queues_max": 3, "queues_per_user_max": 2})
    host = room.broker.host
    host.make_durable("of-the-broker")
    host.make_durable("d", "ann")
    host.queue("q", maker="ann")
    with pytest.raises(RefusedError, match="there are 3 queues already"):
        host.make_durable("e", "bob")
    host.delete_durable("of-the-broker")
    with pytest.raises(RefusedError, match="ann has made 2 queues"):
        host.make_durable("e", "ann")
    host.delete_durable("d")
    host.make_durable("e", "ann")
    assert host.make_durable("e", "bob").name == "e"
