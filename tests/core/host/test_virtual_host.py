"""A virtual host: policies by pattern, patterns over time, mirrors, and what is swept away.

How many may be there, and which setting says so.

Senders: who hears that a queue was deleted.
"""

from __future__ import annotations

import pytest

from covey.config.queues import QueueSettings, TopicSettings
from covey.config.settings import CLUSTER_HOST, BrokerSettings, Settings
from covey.core.clock import Clock
from covey.core.errors import RefusedError
from covey.core.host.access import check_connection, check_subscription
from covey.core.host.senders import Senders
from covey.core.host.virtual_host import VirtualHost
from covey.core.naming.policies import Policies
from covey.core.queue.owner import Unowned
from covey.core.queue.policy import park
from covey.core.queue.purge import Purge
from covey.core.security.users import Identity
from tests.core.double import Room, letter, make_host
from tests.core.support import shown
from tests.doubles import at_once


def test_what_tells_of_a_cluster_keeps_no_messages() -> None:
    host = VirtualHost(CLUSTER_HOST, Policies(Settings()), Clock(), Unowned())
    for make in (host.queue, host.topic, host.make_durable):
        with pytest.raises(RefusedError, match=r"\$cluster tells of the cluster and keeps no mess"):
            make("orders")


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
    assert not host.topic("m").bindings


def test_patterns_hear_of_later_destinations_but_never_of_temporary_ones() -> None:
    room = Room()
    person = room.enter()
    reader = person.read("/queue/**")
    host = room.broker.host
    host.queue("new")
    host.queue("temp.default.1.x")
    assert reader.queue is host.queues["new"]
    assert shown(host.queues["temp.default.1.x"])["consumers"] == 0


def test_empty_unused_queues_and_topics_are_swept_and_declared_ones_stay() -> None:
    room = Room()
    host = room.broker.host
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
    host = room.broker.host
    queue = host.queue("a")
    queue.owner.put(queue, letter("x", group="g"))
    park(queue, "g", room.now, parked=True)
    at_once(Purge(queue))
    room.wait(31)
    assert set(host.queues) == {"a"}
    park(queue, "g", room.now, parked=False)
    room.wait(31)
    assert host.queues == {}


def test_connections_are_counted_in_all_and_by_user() -> None:
    room = Room()
    sessions = [room.enter(name).session for name in ("ann", "ann", "bob")]
    limits = BrokerSettings(connections_max=4, connections_per_user_max=2)
    check_connection(sessions, Identity("bob"), limits)
    with pytest.raises(RefusedError, match="user ann has 2 connections already"):
        check_connection(sessions, Identity("ann"), limits)
    with pytest.raises(RefusedError, match="there are 3 connections already"):
        check_connection(sessions, Identity("bob"), BrokerSettings(connections_max=3))


def test_no_limit_of_its_own_for_a_user_by_default() -> None:
    room = Room()
    sessions = [room.enter("ann").session for _ in range(50)]
    check_connection(sessions, Identity("ann"), BrokerSettings())


def test_a_subscriptions_name_is_its_own() -> None:
    person = Room().enter()
    person.read("/queue/a", "s")
    with pytest.raises(RefusedError, match="subscription s exists already"):
        check_subscription(person.session, "s", BrokerSettings())
    check_subscription(person.session, "t", BrokerSettings(subscriptions_max=2))
    with pytest.raises(RefusedError, match="subscriptions_max"):
        check_subscription(person.session, "t", BrokerSettings(subscriptions_max=1))


def test_those_who_send_to_a_queue_hear_of_its_end_once() -> None:
    senders = Senders()
    heard: list[tuple[str, str, str]] = []

    def ann(name: str, reason: str) -> None:
        heard.append(("ann", name, reason))
        senders.discard(name, ann)

    def bob(name: str, reason: str) -> None:
        heard.append(("bob", name, reason))

    senders.add("q", ann)
    senders.add("q", bob)
    senders.add("r", bob)
    senders.tell("q", "gone")
    senders.tell("q", "gone")
    assert heard == [("ann", "q", "gone"), ("bob", "q", "gone")]
    senders.discard("r", bob)
    senders.discard("r", bob)
    assert len(senders) == 0
