"""Holding: what may still be acknowledged, by number, by id, in lines and in transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import pytest

from covey.protocols.stomp.ack import Held
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
    holding = client.engine.holding
    assert not (holding.messages or holding._by_id or holding._lines or holding._transactions)


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
    holding = client.engine.holding
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
    assert len(client.engine.holding.messages) == 3
    client.ack(frames[-1])
    client.ack(frames[0])
    assert "names no message" in client.error()["message"]


def test_what_a_topic_has_sent_for_credit_is_not_kept(world: World) -> None:
    client = world.connect()
    client.subscribe("/topic/a", credit="2,0")
    world.connect().publish("/topic/a", "one", "two", "three")
    first, second = client.take_all()
    assert [held.entry.message for held in client.engine.holding.messages.values()] == [None] * 2
    client.ack(second)
    assert client.bodies() == ["three"]
    client.ack(first)
    assert "names no message" in client.error()["message"]
