"""Where messages go: temporary destinations, mirrors, composites, quotas."""

from __future__ import annotations

import pytest

from covey.config.queues import QueueSettings, TopicSettings
from tests.protocols.stomp.support import Client, World


@pytest.fixture
def world() -> World:
    return World()


# Temporary destinations.


def temporary(client: Client, kind: str = "queue", name: str = "x") -> str:
    return f"/{kind}/temp.default.{client.session.core.id}.{name}"


def test_s75_temporary_destinations_end_with_their_connection(world: World) -> None:
    client, other = world.connect(), world.connect()
    client.subscribe("/temp-queue/x", ack="client")
    client.subscribe("/temp-topic/x", id="t")
    other.publish(temporary(client), "1")
    client.lose()
    assert world.broker.host.queues == {}
    assert world.broker.host.topics == {}


def test_an_answer_to_somebody_gone_is_dropped_and_the_service_goes_on(world: World) -> None:
    client, service = world.connect(), world.connect()
    client.subscribe("/temp-queue/x")
    name = temporary(client)
    service.publish(name, "1")
    client.lose()
    service.publish(name, "2", receipt="r")
    service.publish(f"{name},/queue/a", "3", receipt="r2")
    assert service.receipts() == ["r", "r2"]
    assert list(world.broker.host.queues) == ["a"]


def test_an_answer_may_come_before_its_reader(world: World) -> None:
    client, service = world.connect(), world.connect()
    service.subscribe("/queue/requests")
    client.publish("/queue/requests", "ask", reply_to="/temp-queue/x")
    name = service.take()["reply-to"]
    service.publish(name, "1", receipt="r")
    service.take("RECEIPT")
    client.subscribe("/temp-queue/x")
    assert client.bodies() == ["1"]
    client.send("UNSUBSCRIBE", {"id": "s"})
    world.wait(60.0)
    assert list(world.broker.host.queues) == ["requests"]
    service.publish(name, "2")
    client.subscribe("/temp-queue/x")
    assert client.bodies() == ["2"]
    client.lose()
    assert list(world.broker.host.queues) == ["requests"]


def test_what_a_reply_to_names_beside_its_own_stays_when_the_connection_goes(world: World) -> None:
    client, other = world.connect(), world.connect()
    other.subscribe("/temp-queue/x")
    name = temporary(other)
    other.publish("/queue/b", "kept")
    client.publish("/queue/a", "ask", reply_to=f"/temp-queue/y,/queue/b,{name}")
    client.lose()
    other.publish(name, "still there")
    assert other.bodies() == ["still there"]
    assert world.depth("/queue/b") == 1


def test_nobody_makes_a_temporary_queue_for_somebody_who_never_named_it(world: World) -> None:
    client, other = world.connect(), world.connect()
    other.publish(temporary(client, name="y"), "1", receipt="r")
    assert other.receipts() == ["r"]
    assert world.broker.host.queues == {}


@pytest.mark.parametrize(
    "name", ["/queue/temp.x", "/topic/temp.other.1.x", "/queue/temp.default.x"]
)
def test_a_name_that_only_looks_temporary_is_refused(world: World, name: str) -> None:
    client = world.connect()
    client.publish(name, "x")
    assert client.error()["covey-code"] == "not-found"


def test_s76_a_temporary_topic_reaches_each_of_its_subscriptions(world: World) -> None:
    client, other = world.connect(), world.connect()
    client.subscribe("/temp-topic/x", id="1")
    client.subscribe("/temp-topic/x", id="2")
    other.publish(temporary(client, "topic"), "hi")
    assert client.bodies() == ["hi", "hi"]


@pytest.mark.parametrize("pattern", ["/queue/**", "/queue/*.*.*.*"])
def test_patterns_never_see_temporary_queues(world: World, pattern: str) -> None:
    client, other = world.connect(), world.connect()
    other.subscribe(pattern)
    client.publish("/temp-queue/x", "secret")
    assert other.bodies() == []
    assert world.depth(temporary(client)) == 1


@pytest.mark.parametrize("pattern", ["/queue/temp.**", "/queue/temp.default.*.x"])
def test_s78_patterns_over_temporary_names_are_denied(world: World, pattern: str) -> None:
    client = world.connect()
    client.subscribe(pattern)
    assert client.error()["covey-code"] == "denied"


def test_a_durable_subscription_may_be_called_temp_something(world: World) -> None:
    client = world.connect()
    client.subscribe("/topic/a", id="temp.x", persistent="true")
    client.publish("/dsub/temp.x", "y")
    assert client.bodies() == ["y"]


# Mirrored queues.


def test_what_is_sent_to_a_mirrored_queue_also_reaches_its_topic() -> None:
    world = World(queues=(QueueSettings(id="m", mirrored=True),))
    client = world.connect()
    client.subscribe("/topic/m", id="t")
    client.publish("/queue/m", "x")
    assert client.bodies() == ["x"]
    assert world.depth("/queue/m") == 1


def test_what_is_sent_to_the_topic_enters_the_mirrored_queue_once_it_exists() -> None:
    world = World(queues=(QueueSettings(id="m", mirrored=True),))
    client = world.connect()
    client.publish("/topic/m", "early")
    client.subscribe("/queue/m")
    client.publish("/topic/m", "later")
    assert client.bodies() == ["later"]


def test_a_mirrored_queue_takes_each_message_once() -> None:
    world = World(queues=(QueueSettings(id="m", mirrored=True),))
    world.connect().publish("/queue/m", "x")
    assert world.depth("/queue/m") == 1


def test_a_mirrored_topic_fills_its_queue_one_way() -> None:
    world = World(topics=(TopicSettings(id="m", mirrored=True),))
    client = world.connect()
    client.subscribe("/queue/m", id="q")
    client.subscribe("/topic/m", id="t")
    client.publish("/topic/m", "both")
    client.publish("/queue/m", "queue")
    received = client.take_all()
    assert sorted((one["subscription"], one.body) for one in received) == [
        ("q", b"both"),
        ("q", b"queue"),
        ("t", b"both"),
    ]


def test_a_full_mirrored_queue_blocks_senders_to_its_topic_too() -> None:
    world = World(queues=(QueueSettings(id="m", mirrored=True, quota_messages=1),))
    client = world.connect()
    client.publish("/queue/m", "1")
    client.publish("/topic/m", "2")
    assert not client.engine.reading
    world.connect().subscribe("/queue/m")
    assert client.engine.reading


def small(**options: object) -> World:
    return World(queues=(QueueSettings.model_validate({"id": "small", **options}),))


# Composites and quotas.


def test_s83_a_composite_is_all_or_nothing() -> None:
    world = small(quota_messages=1, full_policy="reject")
    client, other = world.connect(), world.connect()
    other.publish("/queue/small", "0")
    client.publish("/queue/a,/queue/small,/topic/t", "1", receipt="r")
    assert client.error()["covey-code"] == "full"
    assert world.depth("/queue/a") == 0


def test_a_refused_composite_drops_nothing_elsewhere() -> None:
    world = World(
        queues=(
            QueueSettings(id="ring", quota_messages=1, full_policy="drop head"),
            QueueSettings(id="full", quota_messages=1, full_policy="reject"),
        )
    )
    client, other = world.connect(), world.connect()
    other.publish("/queue/ring,/queue/full", "0")
    client.publish("/queue/ring,/queue/full", "1")
    client.error()
    other.subscribe("/queue/ring")
    assert other.bodies() == ["0"]


def test_drop_head_drop_tail_and_reject() -> None:
    for policy, kept in (("drop head", ["2", "3"]), ("drop tail", ["1", "2"])):
        world = small(quota_messages=2, full_policy=policy)
        client = world.connect()
        client.publish("/queue/small", *"123", receipt="r")
        assert client.receipts() == ["r", "r", "r"]
        client.subscribe("/queue/small")
        assert client.bodies() == kept
    world = small(quota=3, full_policy="reject")
    client = world.connect()
    client.publish("/queue/small", "1", "2", "34")
    assert "quota is 3 bytes" in client.error()["message"]


def test_drop_head_never_drops_what_a_consumer_holds() -> None:
    world = small(quota_messages=2, full_policy="drop head")
    client, other = world.connect(), world.connect()
    client.subscribe("/queue/small", ack="client", credit="1,0")
    client.publish("/queue/small", *"123")
    message = client.take()
    assert (message.body, world.depth("/queue/small")) == (b"1", 2)
    client.ack(message)
    assert client.bodies() == ["3"]
    other.publish("/queue/small", "4")
    client.send("NONSENSE")
    other.subscribe("/queue/small")
    assert other.bodies() == ["3", "4"]


def test_producers_wait_in_the_order_they_came() -> None:
    world = small(quota=10)
    first, second, reader = world.connect(), world.connect(), world.connect()
    first.publish("/queue/small", "x" * 8)
    first.publish("/queue/small", "y" * 8)
    second.publish("/queue/small", "z")  # would fit, but somebody waits already
    assert not second.engine.reading
    reader.subscribe("/queue/small")
    assert reader.bodies() == ["x" * 8, "y" * 8, "z"]


def test_a_producer_that_waits_for_a_deleted_queue_goes_on() -> None:
    world = small(quota_messages=1)
    client = world.connect()
    client.publish("/queue/small", "1", "2", receipt="r")
    world.broker.host.delete_queue("small", "gone")
    world.settle_down()
    assert client.receipts() == ["r", "r"]
    assert world.depth("/queue/small") == 1


# Topics that come and go.


def test_topics_that_are_only_meant_by_patterns_are_swept_and_heard_again() -> None:
    world = World(queues=(QueueSettings(id="mirror", mirrored=True),))
    host = world.broker.host
    client, other = world.connect(), world.connect()
    client.subscribe("/topic/**")
    client.subscribe("/topic/a.*", id="d", persistent="true")
    client.subscribe("/topic/a.named", id="n")
    client.subscribe("/topic/a.kept", id="k", persistent="true")
    client.subscribe("/queue/mirror", id="m")
    for number in range(10):
        other.publish(f"/topic/a.{number}", str(number))
    other.publish("/topic/retained", "r", retain="set")
    client.inbox.clear()
    world.wait(60.0)
    assert sorted(host.topics) == ["a.kept", "a.named", "mirror", "retained"]
    subscription = client.session.core.subscriptions["s"]
    assert len(subscription.topics) == len(host.topics)
    assert sorted(topic.name for topic in host.durables["d"].topics) == ["a.kept", "a.named"]
    other.publish("/topic/a.3", "again")
    assert sorted(message["subscription"] for message in client.take_all()) == ["d", "s"]
    for name in "nk":
        client.send("UNSUBSCRIBE", {"id": name, **({"persistent": "true"} if name == "k" else {})})
    world.wait(60.0)
    assert sorted(host.topics) == ["mirror", "retained"]
