"""MESSAGE frames: what they carry for which version, and notices that are no messages."""

from __future__ import annotations

import tracemalloc

import proton
import pytest

from covey.config.queues import GroupSettings, QueueSettings
from covey.config.settings import StompSettings
from covey.core.naming.destination import Syntax
from covey.protocols.amqp.messages.message import AmqpMessage
from tests.protocols.stomp.support import World


def test_s5_add_redeliveries_header_counts_from_the_second_delivery_on() -> None:
    world = World(stomp=StompSettings(add_redeliveries_header="again"))
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual", credit="1,0")
    client.publish("/queue/a", "x", again="77")
    first = client.take()
    assert "again" not in first.headers
    client.ack(first, "NACK")
    second = client.take()
    assert second["again"] == "1"
    client.ack(second, "NACK")
    assert client.take()["again"] == "2"


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("1.0", b"\nodd: a:b\\c d\n"),
        ("1.1", b"\nodd:a\\cb\\\\c\rd\n"),
        ("1.2", b"\nodd:a\\cb\\\\c\\rd\n"),
    ],
)
def test_s89_each_version_gets_what_it_can_read(version: str, line: bytes) -> None:
    world = World()
    sender, reader = world.connect(), world.connect(version)
    reader.send("SUBSCRIBE", {"id": "s", "destination": "/queue/a"})
    sender.feed(b"SEND\ndestination:/queue/a\nodd:a\\cb\\\\c\\rd\n\nx\0")
    assert line.replace(b"odd: ", b"odd:") in reader.raw


def test_an_lf_in_a_header_cannot_write_headers_of_a_1_0_client() -> None:
    world = World()
    sender, reader = world.connect(), world.connect("1.0")
    reader.send("SUBSCRIBE", {"destination": "/queue/a"})
    sender.feed(b"SEND\ndestination:/queue/a\nodd:x\\nforged\\ctrue\n\nx\0")
    assert "forged" not in reader.take().headers


def test_s89_of_a_repeated_header_the_first_counts() -> None:
    client = World().connect()
    client.subscribe("/queue/a")
    client.feed(b"SEND\ndestination:/queue/a\ndestination:/queue/b\nx:1\nx:2\n\n\0")
    assert client.take()["x"] == "1"


def test_bodies_are_bytes_and_may_hold_nul() -> None:
    client = World().connect()
    client.subscribe("/queue/a")
    client.feed(b"SEND\ndestination:/queue/a\ncontent-length:3\n\na\0\xff\0")
    message = client.take()
    assert (message.body, message["content-length"]) == (b"a\0\xff", "3")


def test_s61_include_seq_is_the_queues_number_and_cannot_be_forged() -> None:
    client = World().connect()
    client.subscribe("/queue/a", include_seq="number")
    client.publish("/queue/a", "x", number="99")
    client.publish("/queue/a", "y")
    assert [one["number"] for one in client.take_all()] == ["1", "2"]


def test_s60_numbers_go_on_after_a_queue_was_swept_away() -> None:
    world = World()
    client = world.connect()
    client.publish("/queue/a", "x")
    client.subscribe("/queue/a")
    client.send("UNSUBSCRIBE", {"id": "s"})
    client.inbox.clear()
    world.wait(31)
    world.wait(6)
    assert "a" not in world.broker.host.queues
    client.subscribe("/queue/a", include_seq="seq")
    client.publish("/queue/a", "y")
    assert client.take()["seq"] == "2"


def grouped(**options: object) -> World:
    groups = GroupSettings.model_validate({"strategy": "simple", **options})
    return World(queues=(QueueSettings(groups=groups),))


def test_the_first_message_of_a_group_to_a_consumer_is_flagged() -> None:
    client = grouped().connect()
    client.subscribe("/queue/a", ack="client")
    for group in "ggh":
        client.send("SEND", {"destination": "/queue/a", "JMSXGroupID": group}, "x")
    flags = [one.headers.get("JMSXGroupFirstForConsumer") for one in client.take_all()]
    assert flags == ["true", None, "true"]


def test_the_flag_can_be_switched_off() -> None:
    client = grouped(first_for_consumer=False).connect()
    client.subscribe("/queue/a")
    client.send("SEND", {"destination": "/queue/a", "JMSXGroupID": "g"}, "x")
    assert "JMSXGroupFirstForConsumer" not in client.take().headers


def test_a_negative_group_sequence_closes_the_group() -> None:
    world = grouped()
    first, second, sender = world.connect(), world.connect(), world.connect()
    first.subscribe("/queue/a", ack="client-individual")

    def send(body: str, sequence: str) -> None:
        headers = {"destination": "/queue/a", "JMSXGroupID": "g", "JMSXGroupSeq": sequence}
        sender.send("SEND", headers, body)

    send("1", "1")
    second.subscribe("/queue/a", ack="client-individual")
    send("2", "2")
    send("close", "-1")
    received = first.take_all()
    assert [one.body for one in received] == [b"1", b"2", b"close"]
    for one in received:
        first.ack(one)
    first.send("UNSUBSCRIBE", {"id": "s"})
    send("3", "1")
    assert second.take()["JMSXGroupFirstForConsumer"] == "true"


def test_a_consumer_that_asks_is_told_when_a_group_is_no_longer_its_own() -> None:
    world = grouped(strategy="consistent-hash")
    first, second, sender = world.connect(), world.connect(), world.connect()
    asks = {"covey-group-revoked": "true"}
    first.subscribe("/queue/a", ack="client-individual", credit="50,0", **asks)
    for number in range(100):
        group = {"message_group": f"g{number % 50}"}
        sender.send("SEND", {"destination": "/queue/a", **group}, "x")
    held = first.take_all()
    second.subscribe("/queue/a", ack="client-individual")
    for message in held:
        first.ack(message)
    notices = [one for one in first.inbox if "covey-group-revoked" in one.headers]
    moved = {one["message_group"] for one in second.take_all()}
    assert moved
    assert {one["covey-group-revoked"] for one in notices} == moved
    assert {(one["subscription"], one["message-id"]) for one in notices} == {("s", "")}


def test_a_topic_message_is_written_once_for_all_and_right_for_each() -> None:
    world = World()
    sender = world.connect()
    readers = [world.connect(version) for version in ("1.1", "1.2", "1.2")]
    for number, reader in enumerate(readers):
        reader.subscribe("/topic/a", id=f"s{number}")
    sender.publish("/topic/a", "x", odd="y")
    received = [reader.take() for reader in readers]
    assert [one["subscription"] for one in received] == ["s0", "s1", "s2"]
    assert {(one["odd"], one.body) for one in received} == {("y", b"x")}


def test_s37_topic_messages_that_wait_for_credit_expire_too() -> None:
    world = World()
    client = world.connect()
    client.subscribe("/topic/a", ack="client", credit="1,0")
    client.publish("/topic/a", "1")
    client.publish("/topic/a", "2", ttl="1000")
    client.publish("/topic/a", "3")
    first = client.take()
    world.wait(1.5)
    client.ack(first)
    assert client.bodies() == ["3"]


def test_an_expired_retained_message_is_not_given_to_newcomers() -> None:
    world = World()
    client = world.connect()
    client.publish("/topic/a", "1", ttl="1000", retain="set")
    world.now += 1.5
    client.subscribe("/topic/a")
    client.subscribe("/topic/a", id="d", persistent="true")
    assert client.bodies() == []
    assert world.queue("/dsub/d").counters.enqueued == 0


def test_a_retained_message_whose_time_is_over_is_forgotten_and_its_topic_goes() -> None:
    world = World()
    client = world.connect()
    client.publish("/topic/a", "soon over", retain="set", ttl="1000")
    client.publish("/topic/b", "for ever", retain="set")
    world.wait(60.0)
    assert list(world.broker.host.topics) == ["b"]


def test_no_local_hides_a_connections_own_topic_messages() -> None:
    world = World()
    client, other = world.connect(), world.connect()
    client.subscribe("/topic/a", **{"no-local": "true"})
    client.publish("/topic/a", "mine")
    other.publish("/topic/a", "yours")
    assert client.bodies() == ["yours"]


def test_subscribers_of_a_topic_read_the_same_each_in_its_own_way() -> None:
    world = World()
    sender, twin, other, older, acking = (
        world.connect(version) for version in ("1.2", "1.2", "1.2", "1.1", "1.2")
    )
    for reader, name in ((twin, "1"), (other, "o:2"), (older, "3")):
        reader.subscribe("/topic/a", id=name)
    acking.subscribe("/topic/a", id="4", ack="client-individual")
    sender.feed(
        b"SEND\ndestination:/topic/a\nodd:a\\cb\n\nx\0"
        b"SEND\ndestination:/topic/a\nmessage-id:mine\n\n\0"
    )
    sender.feed(b"SEND\ndestination:/topic/a\nttl:60000\n\ny\0")
    for reader, name in ((twin, "1"), (other, "o:2"), (older, "3"), (acking, "4")):
        frames = [reader.take() for _ in range(3)]
        assert [frame.body for frame in frames] == [b"x", b"", b"y"]
        assert {frame["subscription"] for frame in frames} == {name}
        assert frames[0]["odd"] == "a:b"
        assert frames[1]["message-id"] == "mine"
        assert "expires" in frames[2].headers
        assert all(("ack" in frame.headers) is (reader is acking) for frame in frames)


# Messages of other protocols.


def test_a_message_of_amqp_that_is_sent_on_is_told_from_the_first() -> None:
    world = World()
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual")
    send_amqp(world, "/queue/a", "A", "B")
    held = client.take_all()
    for frame in held:
        world.connect().publish("/queue/a", "C", message_id=frame["message-id"])
    held += client.take_all()
    assert len({frame["message-id"] for frame in held}) == 4
    for frame in held:
        client.ack(frame)
    assert world.depth("/queue/a") == 0


def send_amqp(world: World, destination: str, *bodies: str) -> None:
    """Send as an AMQP client would whose messages share their head."""
    client = world.connect()
    targets = Syntax().parse(destination, allow_patterns=False)
    first = AmqpMessage.decode(encode_amqp(bodies[0]), 0)
    for body in bodies:
        message = first.with_content(encode_amqp(body))
        world.broker.publishing.publish(client.session.core, targets, message)
    world.settle_down()


def encode_amqp(body: str) -> bytes:
    return bytes(proton.Message(body=body.encode(), inferred=True).encode())


@pytest.mark.parametrize("pattern", ["/queue/a.*", "/queue/a.1,/queue/a.2", "/queue/a.**"])
def test_a_reader_of_many_queues_is_told_where_a_message_came_from(pattern: str) -> None:
    world = World()
    client = world.connect()
    client.subscribe(pattern)
    send_amqp(world, "/queue/a.1", "x", "y")
    send_amqp(world, "/queue/a.2", "z")
    found = [message["destination"] for message in client.take_all()]
    assert found == ["/queue/a.1", "/queue/a.1", "/queue/a.2"]


@pytest.mark.parametrize("ack", ["auto", "client"])
def test_a_reader_of_many_topics_is_told_where_a_message_came_from(ack: str) -> None:
    world = World()
    client = world.connect()
    client.subscribe("/topic/a.*", ack=ack)
    send_amqp(world, "/topic/a.1", "x", "y")
    send_amqp(world, "/topic/a.2%2F", "z")
    found = [message["destination"] for message in client.take_all()]
    assert found == ["/topic/a.1", "/topic/a.1", "/topic/a.2%2F"]


def test_a_reader_of_one_place_is_told_its_name_as_it_wrote_it() -> None:
    world = World()
    client = world.connect()
    client.subscribe("/queue/a%2f")
    send_amqp(world, "/queue/a/", "x")
    assert client.take()["destination"] == "/queue/a%2f"


def test_a_message_without_an_id_has_the_same_for_all_readers_of_a_durable_subscription() -> None:
    world = World()
    client = world.connect()
    client.subscribe("/topic/t", id="d", persistent="true", ack="client")
    send_amqp(world, "/topic/t", "x")
    first = client.take()["message-id"]
    client.lose()
    other = world.connect()
    other.subscribe("/dsub/d")
    assert other.take()["message-id"] == first


@pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("headers", [{}, {"content-length": "0", "message-id": "mine"}])
def test_an_empty_body_has_a_length_too(
    version: str, destination: str, headers: dict[str, str]
) -> None:
    world = World()
    client = world.connect(version)
    client.subscribe(destination)
    world.connect().send("SEND", {"destination": destination, **headers})
    message = client.take()
    assert (message["content-length"], message.body) == ("0", b"")


def test_a_consumer_of_a_wide_subscription_is_small() -> None:
    world = World()
    for number in range(200):
        world.broker.host.queue(f"many.{number}")
    client = world.connect()
    client.subscribe("/queue/many.*", "first")  # what is made once for each queue
    tracemalloc.start()
    for number in range(5):
        client.subscribe("/queue/many.*", str(number))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert world.broker.host.consumers.count == 1200
    assert size / 1000 < 1800
