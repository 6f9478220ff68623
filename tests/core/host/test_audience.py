"""Audience: who hears by pattern hears every topic from its next message on, and costs nothing."""

from __future__ import annotations

import pytest

from covey.config.queues import TopicSettings
from covey.config.settings import Settings
from covey.core.host.feed import Feed
from covey.core.management.reload import reconfigure
from covey.core.model.message import FORGET_RETAINED, RETAIN
from covey.core.naming.pattern import Pattern
from tests.core.double import Room, places


def test_topics_that_nobody_uses_are_not_touched_by_a_new_pattern(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = Room()
    host = room.broker.host
    for number in range(1000):
        host.topic(f"a.{number}")
    asked: list[str] = []
    monkeypatch.setattr(Pattern, "matches", lambda pattern, name: asked.append(name))
    reader = room.enter().read("/topic/a.**")
    assert asked == []
    assert not any(topic.audience for topic in host.topics.values())
    room.enter().send("/topic/a.7", "x")
    assert reader.names == ["x"]
    assert sum(topic.audience for topic in host.topics.values()) == 1


def test_newcomer_hears_what_is_sent_after_it_came_and_nothing_before() -> None:
    room = Room()
    sender, first, second = room.enter(), room.enter(), room.enter()
    early = first.read("/topic/a.b")
    broker = room.broker
    sender.send("/topic/a.b", "1")
    late = second.read("/topic/**")
    sender.send("/topic/a.b", "2")
    broker.unsubscribe(second.session, "s", room.now)
    sender.send("/topic/a.b", "3")
    assert (early.names, late.names) == (["1", "2", "3"], ["2"])


def test_topic_is_heard_once_by_whoever_means_it_in_many_ways() -> None:
    room = Room()
    person = room.enter()
    person.send("/topic/a.b", "before")
    reader = person.read("/topic/a.*,/topic/**,/topic/a.b")
    for number in range(3):
        room.enter().read("/topic/**", f"other {number}")  # each makes the topic look again
        person.send("/topic/a.b", str(number))
    assert reader.names == ["0", "1", "2"]


def test_retained_message_comes_at_once_and_goes_with_its_topic() -> None:
    room = Room()
    person = room.enter()
    for name in ("a", "b", "c", "d"):
        person.send(f"/topic/{name}", name, retain=RETAIN)
    person.send("/topic/b", "gone", retain=FORGET_RETAINED)
    room.broker.host.delete_topic("c")
    assert person.read("/topic/**").names == ["a", "d"]


def test_durable_subscription_hears_the_retained_message_of_a_pattern_once() -> None:
    room = Room()
    person = room.enter()
    broker = room.broker
    person.send("/topic/a.b", "kept", retain=RETAIN)
    person.send("/topic/a.c", "passed")
    for text in ("/topic/a.*", "/topic/a.*,/topic/d"):
        broker.make_durable(person.session, "d", places(text), None, room.now)
    person.send("/topic/a.c", "new")
    assert person.read("/dsub/d").names == ["kept", "new"]


def test_no_pattern_means_a_temporary_topic() -> None:
    room = Room()
    person, other = room.enter(), room.enter()
    name = f"/topic/temp.default.{person.session.id}.mine"
    person.send(name, "before", retain=RETAIN)
    reader = other.read("/topic/**")
    person.send(name, "after")
    assert reader.names == []


def test_unused_topic_is_swept_away_and_heard_by_its_patterns_when_it_comes_back() -> None:
    room = Room()
    person = room.enter()
    person.send("/topic/a", "before")
    reader = person.read("/topic/**")
    room.wait(10_000.0)
    assert room.broker.host.topics == {}
    person.send("/topic/a", "after")
    assert reader.names == ["after"]


def test_who_heard_a_topic_by_its_name_hears_it_after_it_was_deleted() -> None:
    room = Room()
    sender, reader, keeper = room.enter(), room.enter(), room.enter()
    heard = reader.read("/topic/a")
    room.broker.make_durable(keeper.session, "d", places("/topic/a"), None, room.now)
    sender.send("/topic/a", "1", retain=RETAIN)
    room.broker.host.delete_topic("a")
    sender.send("/topic/a", "2")
    assert heard.names == ["1", "2"]
    assert keeper.read("/dsub/d").names == ["1", "2"]
    assert room.enter().read("/topic/a").names == []
    assert room.broker.host.topics["a"].published == 1


def test_topics_that_were_deleted_are_forgotten_by_those_who_heard_them() -> None:
    room = Room()
    sender, person, keeper = room.enter(), room.enter(), room.enter()
    reader = person.read("/topic/**")
    room.broker.make_durable(keeper.session, "d", places("/topic/**"), None, room.now)
    for number in range(20):
        sender.send(f"/topic/{number}", str(number))
        room.broker.host.delete_topic(str(number))
    assert len(reader.names) == 20
    assert not person.session.subscriptions["s"].topics
    assert not room.broker.host.durables["d"].topics


def test_reloaded_policy_says_how_patient_a_topic_is_with_those_it_meets() -> None:
    room = Room()
    person = room.enter()
    person.send("/topic/a", "before")
    patient = TopicSettings(id="**", slow_consumer_policy="queue")
    reconfigure([room.broker], Settings(topic=(patient,)), room.now)
    reader = person.read("/topic/**")
    person.send("/topic/a", "x")
    assert isinstance(reader.queue, Feed)
    assert reader.queue.buffer_size == room.broker.limits.memory_window_queue
