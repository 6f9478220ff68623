"""Holding: what may still be acknowledged, by number, by id, in lines and in transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import pytest

from covey.config.queues import QueueSettings
from covey.core.management.admin import Admin
from covey.core.management.transfers import move_messages
from covey.protocols.stomp.holding import LINES_MAX, Held
from tests.protocols.stomp.support import Client, Frame, World

VERSIONS = ["1.0", "1.1", "1.2"]


@pytest.fixture
def world() -> World:
    return World()


def filled(world: World, version: str, ack: str, count: int = 6) -> tuple[Client, list[Frame]]:
    client = world.connect(version)
    client.subscribe("/queue/a", ack=ack)
    world.connect().publish("/queue/a", *(str(number) for number in range(count)))
    return client, client.take_all()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cumulative_ack_leaves_out_what_an_open_transaction_has(
    world: World, version: str
) -> None:
    client, frames = filled(world, version, "client")
    client.send("BEGIN", {"transaction": "t"})
    client.ack(frames[1], transaction="t")
    client.ack(frames[3])
    assert world.depth("/queue/a") == 4
    client.send("ABORT", {"transaction": "t"})
    client.ack(frames[5])
    assert world.depth("/queue/a") == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_after_an_abort_messages_stand_in_their_old_order(world: World, version: str) -> None:
    client, frames = filled(world, version, "client")
    client.send("BEGIN", {"transaction": "t"})
    client.ack(frames[2], transaction="t")
    client.send("ABORT", {"transaction": "t"})
    client.ack(frames[1])
    assert world.depth("/queue/a") == 4
    client.ack(frames[4])
    assert world.depth("/queue/a") == 1


@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_what_transactions_acknowledged_cannot_be_acknowledged_after_unsubscribe_and_abort(
    world: World, ack: str
) -> None:
    client, frames = filled(world, "1.2", ack, 1)
    client.send("BEGIN", {"transaction": "t"})
    client.ack(frames[0], transaction="t")
    client.send("UNSUBSCRIBE", {"id": "s"})
    client.send("ABORT", {"transaction": "t"})
    other = world.connect()
    other.subscribe("/queue/a", ack="client")
    assert len(other.take_all()) == 1
    client.ack(frames[0])
    assert "names no message" in client.error()["message"]
    assert world.depth("/queue/a") == 1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_nothing_is_kept_of_what_was_acknowledged(world: World, version: str, ack: str) -> None:
    client, frames = filled(world, version, ack)
    for frame in frames[:2]:
        client.ack(frame)
    client.send("BEGIN", {"transaction": "t"})
    for frame in frames[2:]:
        client.ack(frame, transaction="t")
    client.send("COMMIT", {"transaction": "t"})
    holding = client.session.holding
    assert not (holding.messages or holding._by_id or holding._transactions)
    assert not any(line.tags for line in holding._lines.values())
    client.send("UNSUBSCRIBE", {"id": "s", "destination": "/queue/a"})
    assert not (holding._lines or holding._numbered)


class Unlooked(dict[int, Held]):
    """Messages that must not be gone through."""

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("all messages were looked at")

    def items(self) -> NoReturn:
        raise AssertionError("all messages were looked at")

    def values(self) -> NoReturn:
        raise AssertionError("all messages were looked at")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_no_acknowledgement_looks_at_all_that_is_held(world: World, version: str, ack: str) -> None:
    client, frames = filled(world, version, ack)
    holding = client.session.holding
    holding.messages = Unlooked(holding.messages)
    client.ack(frames[0])
    for end, frame in zip(("ABORT", "COMMIT"), frames[1:], strict=False):
        client.send("BEGIN", {"transaction": end})
        client.ack(frame, transaction=end)
        client.send(end, {"transaction": end})
    assert world.depth("/queue/a") == (3 if ack == "client" else 4)


# What needs no ACK but for its credit.

CREDITED = [
    {"credit": "1000,0"},
    {"ack": "client", "browser": "true", "browser-end": "false"},
    {"ack": "client-individual", "browser": "true", "browser-end": "false"},
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("headers", CREDITED)
def test_who_never_acknowledges_what_is_settled_costs_no_memory_for_ever(
    version: str, headers: dict[str, str]
) -> None:
    world = World(limits={"unsettled_max": 3})
    client = world.connect(version)
    client.subscribe("/queue/a", **headers)
    world.connect().publish("/queue/a", *"0123456789")
    frames = client.take_all()
    assert [frame.body.decode() for frame in frames] == list("0123456789")
    assert len(client.session.holding.messages) == 3
    client.ack(frames[-1])
    client.ack(frames[0], receipt="r")  # covered by that one, where an ACK covers
    if headers.get("ack") == "client-individual":
        assert "names no message" in client.error()["message"]
    else:
        assert client.receipts() == ["r"]


def test_what_a_topic_has_sent_for_credit_is_not_kept(world: World) -> None:
    client = world.connect()
    client.subscribe("/topic/a", credit="2,0")
    world.connect().publish("/topic/a", "one", "two", "three")
    first, second = client.take_all()
    assert [held.entry.message for held in client.session.holding.messages.values()] == [None] * 2
    client.ack(second)
    assert client.bodies() == ["three"]
    client.ack(first)
    world.connect().publish("/topic/a", "four", "five")
    assert client.bodies() == ["four"], "what was covered gives no credit again"


# What was covered.


@pytest.mark.parametrize("verb", ["ACK", "NACK"])
@pytest.mark.parametrize("version", VERSIONS)
def test_an_ack_of_what_an_earlier_one_covered_is_confirmed_and_means_nothing(
    world: World, version: str, verb: str
) -> None:
    if (version, verb) == ("1.0", "NACK"):
        return
    client, frames = filled(world, version, "client")
    client.ack(frames[3])
    for number in (1, 3, 0, 2):
        client.ack(frames[number], verb, receipt=str(number))
    assert client.receipts() == ["1", "3", "0", "2"]
    assert world.depth("/queue/a") == 2
    client.ack(frames[5])
    assert world.depth("/queue/a") == 0


@pytest.mark.parametrize("end", ["COMMIT", "ABORT"])
@pytest.mark.parametrize("version", VERSIONS)
def test_acks_in_a_transaction_may_come_out_of_order(world: World, version: str, end: str) -> None:
    client, frames = filled(world, version, "client")
    client.send("BEGIN", {"transaction": "t"})
    for number in (3, 1, 2, 0, 3):
        client.ack(frames[number], transaction="t")
    client.ack(frames[1])  # the transaction's, so nothing happens
    client.send(end, {"transaction": "t", "receipt": end})
    assert client.receipts() == [end]
    assert world.depth("/queue/a") == (2 if end == "COMMIT" else 6)
    client.ack(frames[1])
    assert world.depth("/queue/a") == (2 if end == "COMMIT" else 4)


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_neighbour_s_ack_covers_nothing_of_an_individual_subscription(
    world: World, version: str
) -> None:
    client, _ = filled(world, version, "client")
    client.subscribe("/queue/b", id="single", ack="client-individual")
    world.connect().publish("/queue/b", "x")
    single = client.take()
    world.connect().publish("/queue/a", "last")
    client.ack(client.take())  # a later number than that one's
    client.ack(single)
    assert not client.engine.is_closed
    client.ack(single)
    assert client.error()["covey-code"] == "not-found"


def test_an_ack_that_crosses_an_unsubscribe_is_an_error_though_others_cover(world: World) -> None:
    client, frames = filled(world, "1.2", "client")
    client.subscribe("/queue/b", id="other", ack="client")
    client.send("UNSUBSCRIBE", {"id": "s"})
    world.connect().publish("/queue/b", "x")
    client.ack(client.take())
    client.ack(frames[0])
    assert client.error()["covey-code"] == "not-found"
    assert world.depth("/queue/a") == 6


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_credit_header_on_a_late_ack_counts(world: World, version: str) -> None:
    client = world.connect(version)
    client.subscribe("/queue/a", ack="client", credit="2,0,false")
    world.connect().publish("/queue/a", *"12345")
    first, second = client.take_all()
    client.ack(second, credit="1")
    assert client.bodies() == ["3"]
    client.ack(first, credit="1")
    assert client.bodies() == ["4"]


def test_numbers_of_lines_are_used_again_and_mean_the_newest(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/old", id="old", ack="client")
    world.connect().publish("/queue/old", "1", "2")
    old = client.take_all()
    for number in range(LINES_MAX):
        client.subscribe("/queue/a", id=str(number), ack="client")
        world.connect().publish("/queue/a", "x")
        client.ack(client.take())
        if number < LINES_MAX - 1:
            client.send("UNSUBSCRIBE", {"id": str(number)})
    client.ack(old[1])
    assert world.depth("/queue/old") == 0
    client.ack(old[0])  # whose it was cannot be told any more
    assert client.error()["covey-code"] == "not-found"


# Message-ids.


@pytest.mark.parametrize("ack", ["client", "client-individual"])
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_messages_that_a_client_holds_never_share_an_id(
    world: World, version: str, ack: str
) -> None:
    client = world.connect(version)
    client.subscribe("/queue/a", ack=ack)
    world.connect().publish("/queue/a", "A", "B", "C", message_id="order-7")
    frames = client.take_all()
    assert frames[0]["message-id"] == "order-7"
    assert len({frame["message-id"] for frame in frames}) == 3
    client.ack(frames[1])
    client.lose()
    other = world.connect()
    other.subscribe("/queue/a")
    assert other.bodies() == (["C"] if ack == "client" else ["A", "C"])


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_a_sender_s_id_is_kept_where_no_other_is_held(world: World, version: str) -> None:
    client = world.connect(version)
    client.subscribe("/queue/a", ack="client-individual", credit="1,0")
    world.connect().publish("/queue/a", "A", "B", message_id="order-7")
    for _ in range(2):
        message = client.take()
        assert message["message-id"] == "order-7"
        client.ack(message)
    assert world.depth("/queue/a") == 0


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_an_id_that_looks_like_one_that_was_made_unique_is_made_unique_too(
    world: World, version: str
) -> None:
    client = world.connect(version)
    client.subscribe("/queue/a", ack="client-individual")
    sender = world.connect()
    for message_id in ("m-3", "m", "m", "m-3"):
        sender.publish("/queue/a", "x", message_id=message_id)
    assert len({frame["message-id"] for frame in client.take_all()}) == 4


@pytest.mark.parametrize("source", ["/queue/twin.*", "/queue/twin.a,/queue/twin.b"])
@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_the_twins_of_a_composite_send_are_told_apart(
    world: World, version: str, source: str
) -> None:
    client = world.connect(version)
    client.subscribe(source, ack="client-individual")
    world.connect().publish("/queue/twin.a,/queue/twin.b", "x")
    first, second = client.take_all()
    assert first["message-id"] != second["message-id"]
    client.ack(second)
    assert sorted([world.depth("/queue/twin.a"), world.depth("/queue/twin.b")]) == [0, 1]
    client.ack(first)
    assert world.depth("/queue/twin.a") == world.depth("/queue/twin.b") == 0


def test_the_twins_that_a_durable_subscription_keeps_are_told_apart(world: World) -> None:
    client = world.connect()
    client.subscribe("/topic/a,/topic/b", ack="client-individual", persistent="true", id="d")
    world.connect().publish("/topic/a,/topic/b", "x")
    assert len({frame["message-id"] for frame in client.take_all()}) == 2


def test_a_message_that_comes_again_has_its_sender_s_id_again(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual")
    world.connect().publish("/queue/a", "A", message_id="order-7")
    client.send("NACK", {"id": client.take()["ack"]})
    again = client.take()
    assert (again["message-id"], again["redelivered"]) == ("order-7", "true")


def test_acks_in_a_row_make_ids_free_again(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual")
    for _ in range(2):
        world.connect().publish("/queue/a", "A", "B", message_id="order-7")
        first, second = client.take_all()
        assert (first["message-id"], second["message-id"] != "order-7") == ("order-7", True)
        client.feed(
            b"ACK\nid:%s\n\n\0ACK\nid:%s\n\n\0"
            % tuple(frame["ack"].encode() for frame in (first, second))
        )
    assert world.depth("/queue/a") == 0


@pytest.mark.parametrize("ack", ["client", "client-individual"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_that_is_sent_on_with_the_broker_s_id_is_told_from_the_first(
    world: World, version: str, ack: str
) -> None:
    client = world.connect(version)
    client.subscribe("/queue/a", ack=ack)
    sender = world.connect()
    sender.publish("/queue/a", "A", "B")
    first, second = client.take_all()
    sender.publish("/queue/a", "C", message_id=second["message-id"])
    sender.publish("/queue/a", "D")
    sender.publish("/queue/a", "E", message_id=first["message-id"])
    held = [first, second, *client.take_all()]
    assert len({frame["message-id"] for frame in held}) == 5
    assert held[2]["covey-message-id"] == second["message-id"]
    client.ack(held[2])
    assert world.depth("/queue/a") == (2 if ack == "client" else 4)
    for frame in held[3:]:
        client.ack(frame)
    assert world.depth("/queue/a") == (0 if ack == "client" else 2)


COPIES = {
    "a composite send": ("/queue/a,/queue/b", "", "/queue/b"),
    "a composite send to a topic": ("/queue/a,/topic/t", "/topic/t", "/dsub/d"),
    "a mirrored queue and a durable subscription": ("/topic/a", "/topic/a", "/dsub/d"),
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("version", VERSIONS)
def test_copies_that_come_into_one_queue_are_told_apart(version: str, way: str) -> None:
    targets, topic, other = COPIES[way]
    world = World(queues=[QueueSettings(id="a", mirrored=topic == "/topic/a")])
    client = world.connect(version)
    client.subscribe("/queue/a", ack="client-individual")
    if topic:
        world.connect().subscribe(topic, id="d", persistent="true", credit="0,0")
    world.connect().publish(targets, "A")
    moved(world, other, "a")
    first, second = client.take_all()
    assert first["message-id"] != second["message-id"]
    client.ack(second)
    client.ack(first)
    assert world.depth("/queue/a") == 0


def test_a_retained_message_that_comes_into_a_queue_twice_is_told_apart(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual")
    sender = world.connect()
    sender.subscribe("/topic/t", id="d", persistent="true", credit="0,0")
    sender.publish("/topic/t", "A", retain="set")
    sender.subscribe("/topic/t", id="e", persistent="true", credit="0,0")
    moved(world, "/dsub/d", "a")
    moved(world, "/dsub/e", "a")
    assert len({frame["message-id"] for frame in client.take_all()}) == 2


def moved(world: World, source: str, target: str) -> None:
    """Have an operator move the first message of a queue."""
    user = world.broker.users.known("admin")
    assert user is not None
    move_messages(Admin(world.broker, world.broker.host, user), source, [1], target, world.now)
    world.settle_down()


def test_in_1_0_one_message_of_two_subscriptions_is_told_apart_for_its_ack_names_neither(
    world: World,
) -> None:
    older, newer = world.connect("1.0"), world.connect("1.1")
    for client in (older, newer):
        client.subscribe("/topic/a", id="one", ack="client-individual")
        client.subscribe("/topic/a", id="two", ack="client-individual")
    world.connect().publish("/topic/a", "x")
    assert len({frame["message-id"] for frame in older.take_all()}) == 2
    assert len({frame["message-id"] for frame in newer.take_all()}) == 1


def test_what_is_settled_already_keeps_its_sender_s_id(world: World) -> None:
    client = world.connect("1.1")
    client.subscribe("/queue/a", credit="10,0")
    world.connect().publish("/queue/a", "A", "B", message_id="status")
    frames = client.take_all()
    assert [frame["message-id"] for frame in frames] == ["status", "status"]
    client.ack(frames[1], receipt="r")
    assert client.receipts() == ["r"]
