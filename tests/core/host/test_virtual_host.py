"""A virtual host: policies by pattern, patterns over time, mirrors, and what is swept away."""

from __future__ import annotations

from covey.config.queues import QueueSettings, TopicSettings
from covey.config.settings import Settings
from covey.core.queue.policy import park, purge
from tests.core.double import Room, letter, make_host


def test_the_first_matching_policy_wins() -> None:
    settings = Settings.model_validate(
        {
            "queue": (QueueSettings(id="a.*", quota=1), QueueSettings(id="**", quota=2)),
            "topic": (TopicSettings(id="a", mirrored=True),),
        }
    )
    host = make_host(settings)
    assert [host.queue(name).settings.quota for name in ("a.b", "a", "a.b.c")] == [1, 2, 2]
    assert host.policies.topic("a").mirrored
    assert not host.policies.topic("b").mirrored


def test_durable_subscriptions_go_by_entries_of_their_own() -> None:
    entries = (
        QueueSettings(id="**", quota=1),
        QueueSettings(id="dsub:news.*", quota=2),
        QueueSettings(id="dsub:**", quota=3),
    )
    host = make_host(Settings.model_validate({"queue": entries}))
    names = ("news.bob", "bob", "a.b.c")
    assert [host.make_durable(name).queue.settings.quota for name in names] == [2, 3, 3]
    assert host.queue("dsub:bob").settings.quota == 1
    plain = make_host(Settings.model_validate({"queue": entries[:1]}))
    assert plain.make_durable("bob").queue.settings.quota == 0


def test_a_mirrored_queue_hears_its_topic_once() -> None:
    settings = Settings.model_validate({"queue": (QueueSettings(id="m", mirrored=True),)})
    for first in ("queue", "topic"):
        host = make_host(settings)
        getattr(host, first)("m")
        queue = host.queue("m")
        host.mirror(queue)
        bindings = host.topic("m").bindings
        assert [binding.queue for binding in bindings] == [queue]


def test_a_deleted_mirror_hears_nothing() -> None:
    settings = Settings.model_validate({"queue": (QueueSettings(id="m", mirrored=True),)})
    host = make_host(settings)
    host.queue("m")
    host.delete_queue("m", "gone")
    assert host.topic("m").bindings == []


def test_patterns_hear_of_later_destinations_but_never_of_temporary_ones() -> None:
    room = Room()
    person = room.enter()
    reader = person.read("/queue/**")
    host = room.broker.hosts[0]
    host.queue("new")
    host.queue("temp.default.1.x")
    assert reader.queue is host.queues["new"]
    assert not host.queues["temp.default.1.x"].state.consumers


def test_empty_unused_queues_and_topics_are_swept_and_declared_ones_stay() -> None:
    room = Room()
    host = room.broker.hosts[0]
    person = room.enter()
    host.declare(host.queue("declared"))
    host.queue("idle")
    host.topic("idle")
    person.send("/queue/full", "x")
    person.read("/queue/used,/topic/used")
    room.wait(31)
    assert set(host.queues) == {"declared", "full", "used"}
    assert set(host.topics) == {"used"}


def test_a_queue_with_a_parked_group_is_not_swept_though_it_is_empty() -> None:
    room = Room()
    host = room.broker.hosts[0]
    queue = host.queue("a")
    queue.owner.put(queue, letter("x", group="g"))
    park(queue, "g", room.now, parked=True)
    purge(queue, room.now)
    room.wait(31)
    assert set(host.queues) == {"a"}
    park(queue, "g", room.now, parked=False)
    room.wait(31)
    assert host.queues == {}
