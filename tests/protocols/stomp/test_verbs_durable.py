"""Durable subscriptions and browsers: what outlives a client, and what only looks."""

from __future__ import annotations

import pytest

from covey.config.queues import GroupSettings, QueueSettings
from covey.config.settings import StompSettings
from tests.protocols.stomp.support import World


@pytest.fixture
def world() -> World:
    return World()


# Durable subscriptions.


def test_s49_a_durable_subscription_on_a_queue_is_an_error(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", persistent="true")
    assert "topics" in client.error()["message"]
    assert world.broker.host.durables == {}


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
def test_an_unknown_dsub_is_an_error(world: World, command: str) -> None:
    client = world.connect()
    client.send(command, {"destination": "/dsub/x", "id": "s", "receipt": "r"}, "")
    error = client.error()
    assert "no durable subscription x" in error["message"]
    assert error["receipt-id"] == "r"


def test_a_dsub_that_fails_often_goes_to_the_dead_letter_queue_of_its_policy() -> None:
    policy = QueueSettings(id="dsub:**", nak_limit=2, dlq="dead.*")
    world = World(queues=(policy,))
    client = world.connect()
    client.subscribe("/topic/a", id="d/1", persistent="true", ack="client-individual")
    client.publish("/topic/a", "x")
    for _ in range(2):
        client.ack(client.take(), "NACK")
    assert not client.inbox
    client.subscribe("/queue/dead.dsub:d/1", id="look")
    assert client.take()["covey-dead-reason"] == "failed 2 times"


def test_a_full_dsub_does_as_its_policy_says() -> None:
    policy = QueueSettings(id="dsub:d", quota_messages=2, full_policy="drop head")
    world = World(queues=(policy,))
    client = world.connect()
    client.subscribe("/topic/a", id="d", persistent="true", credit="0,0")
    for body in "123":
        client.publish("/topic/a", body)
    client.subscribe("/dsub/d", id="look")
    assert [client.take().body for _ in range(2)] == [b"2", b"3"]


def test_who_sends_to_a_topic_waits_for_a_full_dsub_that_would_get_the_message() -> None:
    policy = QueueSettings(id="dsub:d", quota_messages=1)
    world = World(queues=(policy,))
    client, sender = world.connect(), world.connect()
    client.subscribe("/topic/a", id="d", persistent="true", credit="0,0", selector="k = 1")
    sender.publish("/topic/a", "1", k="1")
    sender.publish("/topic/a", "other", k="2", receipt="other")
    assert sender.take("RECEIPT")["receipt-id"] == "other"
    sender.publish("/topic/a", "2", k="1", receipt="waits")
    assert not sender.inbox
    client.subscribe("/dsub/d", id="look")
    assert client.take().body == b"1"
    assert sender.take("RECEIPT")["receipt-id"] == "waits"


def test_a_topics_message_is_taken_by_all_dsubs_or_by_none() -> None:
    world = World(queues=(QueueSettings(id="dsub:one", groups=GroupSettings(header="G")),))
    client, sender = world.connect(), world.connect()
    client.subscribe("/topic/a", id="one", persistent="true")
    client.subscribe("/topic/a", id="two", persistent="true")
    sender.publish("/topic/a", "x", JMSXGroupID="g" * 1025, retain="set")
    assert "queue dsub:two: the group id" in sender.error()["message"]
    client.subscribe("/topic/a", id="three")
    assert not client.inbox


def test_a_destroyed_dsub_refuses_a_sender_that_knew_it(world: World) -> None:
    client = world.connect()
    client.subscribe("/topic/a", id="d", persistent="true")
    client.publish("/dsub/d", "x")
    client.send("UNSUBSCRIBE", {"id": "d", "persistent": "true"})
    client.inbox.clear()
    client.publish("/dsub/d", "y")
    assert "no durable subscription d" in client.error()["message"]


def test_s52_destroying_an_unknown_durable_subscription_is_an_error(world: World) -> None:
    client = world.connect()
    client.send("UNSUBSCRIBE", {"id": "x", "persistent": "true"})
    assert client.error()["covey-code"] == "not-found"


def test_a_durable_subscription_may_listen_to_patterns_and_composites(world: World) -> None:
    client = world.connect()
    client.subscribe("/topic/a.*,/topic/b", id="d", persistent="true")
    client.send("UNSUBSCRIBE", {"id": "d"})
    client.publish("/topic/a.x", "1")
    client.publish("/topic/b", "2")
    client.publish("/topic/c", "3")
    client.subscribe("/dsub/d")
    assert client.bodies() == ["1", "2"]


def test_a_durable_subscription_follows_the_connectors_rule_for_descendants() -> None:
    world = World(stomp=StompSettings(descendant_matches_zero=True))
    client = world.connect()
    for _ in range(2):
        client.subscribe("/topic/a.**", id="d", persistent="true")
        client.publish("/topic/a", "1")
        client.publish("/topic/a.b", "2")
        assert client.bodies() == ["1", "2"]
        client.send("UNSUBSCRIBE", {"id": "d"})


def test_reattaching_loses_nothing_and_repeats_nothing(world: World) -> None:
    client = world.connect()
    client.publish("/topic/a", "retained", retain="set")
    for expected in (["retained"], [], []):
        client.subscribe("/topic/a", id="d", persistent="true")
        assert client.bodies() == expected
        client.send("UNSUBSCRIBE", {"id": "d"})


def test_an_eavesdropper_cannot_bind_a_durable_subscription_to_a_temporary_topic(
    world: World,
) -> None:
    client, thief = world.connect(), world.connect()
    client.subscribe("/temp-topic/x")
    name = f"/topic/temp.default.{client.session.core.id}.x"
    thief.subscribe(name, id="d", persistent="true")
    assert thief.error()["covey-code"] == "denied"


def test_a_subscription_that_is_refused_changes_no_durable_one(world: World) -> None:
    client, other = world.connect(), world.connect()
    client.subscribe("/topic/a", id="d", persistent="true")
    client.subscribe("/topic/b", id="d", persistent="true")
    assert client.error()["covey-code"] == "exists"
    other.publish("/topic/a", "a")
    other.publish("/topic/b", "b")
    other.subscribe("/dsub/d")
    assert other.bodies() == ["a"]


def test_a_durable_subscription_cannot_outlive_its_temporary_topic(world: World) -> None:
    client = world.connect()
    client.subscribe("/temp-topic/x", id="d", persistent="true")
    assert client.error()["covey-code"] == "invalid"
    assert not world.broker.host.durables


@pytest.mark.parametrize(
    "headers",
    [
        {"durable": "true", "auto-delete": "false"},
        {"activemq.subscriptionName": "d"},
        {"durable-subscription-name": "d"},
        {"durable-subscriber-name": "d"},
    ],
)
def test_clients_of_other_brokers_make_durable_subscriptions_their_way(
    world: World, headers: dict[str, str]
) -> None:
    client = world.connect(**{"client-id": "me"})
    client.send("SUBSCRIBE", {"id": "d", "destination": "/topic/a", **headers})
    client.send("UNSUBSCRIBE", {"id": "d"})
    client.publish("/topic/a", "x")
    client.send("SUBSCRIBE", {"id": "d", "destination": "/topic/a", **headers})
    assert client.bodies() == ["x"]
    client.send("UNSUBSCRIBE", {"id": "d", **headers})
    assert world.broker.host.durables == {}


# Browsers.


def test_s57_a_durable_subscription_can_be_browsed(world: World) -> None:
    client = world.connect()
    client.subscribe("/topic/a", id="d", persistent="true")
    client.send("UNSUBSCRIBE", {"id": "d"})
    client.publish("/topic/a", "x")
    client.subscribe("/dsub/d", browser="true")
    message, end = client.take_all()
    assert (message.body, end["browser"]) == (b"x", "end")
    assert world.depth("/dsub/d") == 1


def test_the_end_of_browse_says_what_the_queue_holds(world: World) -> None:
    client = world.connect()
    client.publish("/queue/a", "one", "two", "three")
    client.subscribe("/queue/a", id="eat", credit="1,0")
    client.inbox.clear()
    client.subscribe("/queue/a", id="b", browser="true")
    end = client.take_all()[-1]
    figures = [end[name] for name in ("first-seq", "last-seq", "queue-messages", "queue-bytes")]
    assert figures == ["2", "3", "2", "8"]


def test_browsing_an_empty_queue_ends_at_once(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", browser="true", receipt="r")
    assert client.take("RECEIPT")["receipt-id"] == "r"
    assert client.take()["browser"] == "end"


@pytest.mark.parametrize("destination", ["/queue/a,/queue/b,/queue/c", "/queue/*", "/queue/z.*"])
def test_a_browser_of_several_queues_hears_one_end(world: World, destination: str) -> None:
    client = world.connect()
    client.publish("/queue/a,/queue/b", "x")
    client.subscribe(destination, browser="true")
    received = client.take_all()
    assert ["browser" in message.headers for message in received].count(True) == 1
    assert received[-1]["browser"] == "end"
    client.publish("/queue/z.later", "y")
    assert client.bodies() == []


def test_a_browser_sees_what_a_consumer_has_acquired(world: World) -> None:
    client = world.connect()
    client.publish("/queue/a", "x")
    client.subscribe("/queue/a", id="c", ack="client")
    client.take()
    client.subscribe("/queue/a", id="b", browser="true", browser_end="false")
    assert client.bodies() == ["x"]


def test_a_topic_cannot_be_browsed(world: World) -> None:
    client = world.connect()
    client.subscribe("/topic/a", browser="true")
    assert "browsed" in client.error()["message"]


def test_a_browser_selects_and_keeps_to_its_credit(world: World) -> None:
    client = world.connect()
    for number in range(6):
        client.publish("/queue/a", str(number), odd=str(number % 2))
    client.subscribe("/queue/a", browser="true", selector="odd = 1", credit="2,0")
    first = client.take_all()
    assert [message.body for message in first] == [b"1", b"3"]
    client.ack(first[-1])
    last, end = client.take_all()
    assert (last.body, end["browser"]) == (b"5", "end")
    assert world.depth("/queue/a") == 6
