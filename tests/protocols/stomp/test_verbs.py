"""SUBSCRIBE and UNSUBSCRIBE, and the receipts of every verb."""

from __future__ import annotations

import pytest

from covey.config.queues import QueueSettings
from covey.config.settings import StompSettings
from tests.protocols.stomp.support import World, frame


@pytest.fixture
def world() -> World:
    return World()


# SUBSCRIBE and UNSUBSCRIBE.


def test_the_receipt_of_a_subscribe_precedes_its_first_message(world: World) -> None:
    sender, reader = world.connect(), world.connect()
    sender.publish("/queue/a", "queued")
    sender.publish("/topic/a", "retained", retain="set")
    for destination in ("/queue/a", "/topic/a"):
        reader.subscribe(destination, id=destination, receipt="r")
        assert [received.command for received in reader.inbox] == ["RECEIPT", "MESSAGE"]
        reader.inbox.clear()


def test_a_refused_subscribe_is_not_receipted(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a")
    client.subscribe("/queue/b", receipt="r")
    error = client.error()
    assert error["receipt-id"] == "r"
    assert "exists already" in error["message"]


def test_s25_queue_messages_are_load_balanced(world: World) -> None:
    readers = [world.connect(), world.connect()]
    for reader in readers:
        reader.subscribe("/queue/a")
    world.connect().publish("/queue/a", *"123456")
    assert [len(reader.bodies()) for reader in readers] == [3, 3]


def test_round_robin_false_fills_the_first_consumer_before_the_next() -> None:
    world = World(queues=(QueueSettings(round_robin=False),))
    readers = [world.connect(), world.connect()]
    for reader in readers:
        reader.subscribe("/queue/a", ack="client", credit="3,0")
    world.connect().publish("/queue/a", *"12345")
    assert [reader.bodies() for reader in readers] == [["1", "2", "3"], ["4", "5"]]


def test_s27_s28_topic_messages_go_to_everybody_who_is_there(world: World) -> None:
    sender, first, second = world.connect(), world.connect(), world.connect()
    sender.publish("/topic/a", "nobody")
    first.subscribe("/topic/a")
    second.subscribe("/topic/a")
    sender.publish("/topic/a", "all")
    assert (first.bodies(), second.bodies()) == (["all"], ["all"])


@pytest.mark.parametrize("destination", ["/nowhere/a", "/queue/", "foo://a", "/queue/a..b"])
def test_s24_an_unknown_prefix_or_empty_name_is_refused(world: World, destination: str) -> None:
    client = world.connect()
    client.subscribe(destination)
    assert destination in client.error()["message"]


def test_a_name_without_prefix_is_a_queue(world: World) -> None:
    client = world.connect()
    client.publish("a", "x")
    assert world.depth("/queue/a") == 1


def test_artemis_type_headers_decide_for_names_without_prefix(world: World) -> None:
    client = world.connect()
    client.subscribe("news", id="1", subscription_type="MULTICAST")
    client.subscribe("news", id="2", subscription_type="MULTICAST")
    client.publish("news", "all", destination_type="MULTICAST")
    client.publish("news", "one", destination_type="ANYCAST")
    assert client.bodies() == ["all", "all"]
    assert world.depth("/queue/news") == 1
    client.publish("news", "x", destination_type="BOTH")
    assert "BOTH" in client.error()["message"]


def test_unsubscribe_gives_back_what_was_not_acked_at_its_place(world: World) -> None:
    client, other = world.connect(), world.connect()
    client.subscribe("/queue/a", ack="client-individual")
    client.publish("/queue/a", *"1234")
    client.ack(client.take_all()[1])
    client.send("UNSUBSCRIBE", {"id": "s", "receipt": "r"})
    assert client.receipts() == ["r"]
    other.subscribe("/queue/a")
    assert other.bodies() == ["1", "3", "4"]


def test_requeue_of_a_nack_is_true_or_false(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client")
    client.publish("/queue/a", "1")
    client.ack(client.take(), "NACK", requeue="no")
    assert client.error()["message"] == "requeue:no is neither true nor false"


def test_unsubscribe_of_something_unknown_is_refused(world: World) -> None:
    client = world.connect()
    client.send("UNSUBSCRIBE", {"id": "x"})
    assert "no subscription" in client.error()["message"]


def test_a_1_0_client_needs_no_ids(world: World) -> None:
    client = world.connect("1.0")
    client.send("SUBSCRIBE", {"destination": "/queue/a", "ack": "client"})
    client.publish("/queue/a", "x", "y")
    first, second = client.take_all()
    assert "subscription" not in first.headers
    client.ack(second)
    client.send("UNSUBSCRIBE", {"destination": "/queue/a"})
    assert world.depth("/queue/a") == 0
    assert not client.engine.is_closed


def test_s81_a_wildcard_also_means_destinations_made_later(world: World) -> None:
    client, other = world.connect(), world.connect()
    client.publish("/queue/a.before", "1")
    other.subscribe("/queue/a.*", id="q")
    other.subscribe("/topic/a.*", id="t")
    client.publish("/queue/a.after", "2")
    client.publish("/topic/a.after", "3")
    assert sorted(other.bodies()) == ["1", "2", "3"]
    other.send("UNSUBSCRIBE", {"id": "q"})
    client.publish("/queue/a.later", "4")
    assert other.bodies() == []


def test_s84_one_subscription_may_mix_queues_and_topics(world: World) -> None:
    client, other = world.connect(), world.connect()
    other.subscribe("/queue/a,/topic/b")
    client.publish("/queue/a", "1")
    client.publish("/topic/b", "2")
    assert other.bodies() == ["1", "2"]


def test_s86_an_invalid_selector_is_an_error(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", selector="colour = ")
    assert client.error()["covey-code"] == "invalid"


def test_hyphens_belong_to_names_in_selectors(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", selector="hyphen-5 = 'x'")
    client.send("SEND", {"destination": "/queue/a", "hyphen-5": "x"}, "yes")
    assert client.bodies() == ["yes"]


def test_receipts_leave_in_the_order_of_their_frames(world: World) -> None:
    client = world.connect()
    client.feed(
        frame("SEND", {"destination": "/queue/a", "receipt": "1"}, "x")
        + frame("BEGIN", {"transaction": "t", "receipt": "2"})
        + frame("SEND", {"destination": "/queue/a", "transaction": "t", "receipt": "3"}, "x")
        + frame("COMMIT", {"transaction": "t", "receipt": "4"})
        + frame("SUBSCRIBE", {"id": "s", "destination": "/queue/b", "receipt": "5"})
        + frame("UNSUBSCRIBE", {"id": "s", "receipt": "6"})
        + frame("BEGIN", {"transaction": "t", "receipt": "7"})
        + frame("ABORT", {"transaction": "t", "receipt": "8"})
        + frame("DISCONNECT", {"receipt": "9"})
    )
    assert client.receipts() == list("123456789")


def test_other_spellings_of_destinations_follow_the_connector() -> None:
    settings = StompSettings(
        queue_prefix="jms.queue.",
        topic_prefix="jms.topic.",
        path_separator="/",
        destination_separator=";",
        any_child_wildcard="+",
        any_descendant_wildcard="++",
        regex_wildcard_start="<",
        regex_wildcard_end=">",
    )
    world = World(stomp=settings)
    client = world.connect()
    client.subscribe("jms.topic.a/+/c;jms.queue.q;jms.topic.n/<[0-9]+>;jms.topic.z/++")
    for destination in ("topic.a/b/c", "queue.q", "topic.n/12", "topic.n/x", "topic.z/1/2"):
        client.publish(f"jms.{destination}", destination)
    assert client.bodies() == ["topic.a/b/c", "queue.q", "topic.n/12", "topic.z/1/2"]
