"""A delivery that has an outcome in a transaction is the transaction's until that is over."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Delivery, Described, Message

from covey.core.broker.broker import Broker
from covey.protocols.amqp.codec.encoder import NULL, TRUE, binary, compound, section, uint
from tests.e2e.amqp_bytes import DISPOSITION, says
from tests.protocols.amqp.links.test_transactions import (
    ACCEPTED,
    TRANSACTIONAL,
    Control,
    broker,
    count,
    settle_in,
)
from tests.protocols.amqp.peer import Peer

__all__ = ["broker"]  # the fixture: short and long transactions


NO_DATA: Any = None
PLAIN = [Delivery.ACCEPTED, Delivery.RELEASED, Delivery.MODIFIED, Delivery.REJECTED]
WAYS = ["commit", "fail", "control ends", "flaw", "link ends", "lost"]


def state_outside(peer: Peer, delivery: Delivery, state: int, *, settled: bool) -> None:
    """State an outcome that names no transaction."""
    delivery.local.data = NO_DATA
    delivery.update(state)
    if settled:
        delivery.settle()
    peer.pump()


def end(peer: Peer, control: Control, id: bytes, way: str) -> None:
    if way == "commit":
        control.discharge(id)
    elif way == "fail":
        control.discharge(id, fail=True)
    elif way == "control ends":
        control.link.close()
    elif way == "flaw":
        peer.engine.coordinator.open[id].spoil("something")
        control.discharge(id)
    elif way == "link ends":
        peer.messages[0][0].link.close()
        peer.pump()
        control.discharge(id, fail=True)
    elif way == "lost":
        peer.lose()


def assert_one_holds_the_group(broker: Broker, peers: list[Peer]) -> None:
    """Nobody holds what another one does, and what a consumer holds is its own."""
    for _ in range(20):
        broker.go_on(1.0)
        for peer in peers:
            peer.pump()
        queue = broker.host.queues["q"]
        for consumer in queue.state.consumers.values():
            assert [each.holder for each in consumer.unsettled.values()] == [
                consumer for _ in consumer.unsettled
            ]
        holders = {each.holder.id for each in queue.state.index if each.holder is not None}
        assert len(holders) <= 1


def two_readers(broker: Broker, *, settled: bool) -> tuple[Peer, Peer, Control, bytes]:
    """One peer has accepted all of a group in a transaction, another waits for the group."""
    peer, other = Peer(broker, container="one"), Peer(broker, container="two")
    sender = peer.sender("q")
    for number in range(4):
        peer.send(sender, Message(body=number, group_id="g"))
    peer.receiver("q", credit=4)
    control = Control(peer)
    id = control.declare()
    for delivery, _ in peer.messages:
        settle_in(peer, delivery, id, Described(ACCEPTED, []), settled=settled)
    other.receiver("q", credit=10)
    return peer, other, control, id


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("settled", [True, False])
def test_a_group_is_with_one_consumer_while_a_transaction_ends(
    broker: Broker, way: str, settled: bool
) -> None:
    peer, other, control, id = two_readers(broker, settled=settled)
    assert other.bodies() == []
    end(peer, control, id, way)
    assert_one_holds_the_group(broker, [other] if way == "lost" else [peer, other])
    is_kept = not settled and way in ("fail", "flaw", "control ends")
    assert other.bodies() == ([] if way == "commit" or is_kept else [0, 1, 2, 3])
    assert count(broker) == (0 if way == "commit" else 4)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("state", PLAIN)
@pytest.mark.parametrize("settled", [True, False])
def test_an_outcome_outside_of_a_transaction_leaves_the_delivery_to_it(
    broker: Broker, way: str, state: int, settled: bool
) -> None:
    """Else another consumer's delivery would be settled by the end of the transaction."""
    peer, other, control, id = two_readers(broker, settled=False)
    state_outside(peer, peer.messages[0][0], state, settled=settled)
    assert count(broker) == 4
    assert other.bodies() == []
    end(peer, control, id, way)
    assert_one_holds_the_group(broker, [other] if way == "lost" else [peer, other])
    is_done = way == "commit" and state == Delivery.ACCEPTED
    assert count(broker) == (0 if is_done else 4)


def test_a_range_that_is_accepted_leaves_out_what_a_transaction_has(broker: Broker) -> None:
    peer, other, control, id = two_readers(broker, settled=False)
    for delivery, _ in peer.messages:
        delivery.local.data = NO_DATA
        delivery.update(Delivery.ACCEPTED)
        delivery.settle()
    peer.pump()
    assert count(broker) == 4
    control.discharge(id, fail=True)
    assert_one_holds_the_group(broker, [peer, other])
    assert other.bodies() == [0, 1, 2, 3]


def test_two_different_outcomes_of_a_delivery_cannot_be_committed(broker: Broker) -> None:
    peer, _, control, id = two_readers(broker, settled=False)
    state_outside(peer, peer.messages[0][0], Delivery.RELEASED, settled=False)
    answer = control.discharge(id)
    assert answer.remote_state == Delivery.REJECTED
    assert "two outcomes of delivery" in str(answer.remote.condition)


def test_a_rollback_is_told_when_all_of_it_is_undone(broker: Broker) -> None:
    peer, other, control, id = two_readers(broker, settled=False)
    for delivery, _ in peer.messages:
        delivery.local.data = NO_DATA
    control.discharge(id, fail=True)
    for delivery, _ in peer.messages:
        peer.settle(delivery, Delivery.RELEASED)  # as proton's own clients do then
    assert_one_holds_the_group(broker, [peer, other])
    assert other.bodies() == [0, 1, 2, 3]
    assert [message.delivery_count for _, message in other.messages] == [0, 0, 0, 0]


def test_a_delivery_settled_in_a_second_transaction_too_is_with_the_first(broker: Broker) -> None:
    peer, other, control, id = two_readers(broker, settled=False)
    second = control.declare()
    outcome = section(TRANSACTIONAL, compound([binary(second), section(0x26, compound([]))]))
    # By hand: proton repeats the state that it has sent for a delivery.
    peer.engine.receive(says(DISPOSITION, TRUE, uint(0), NULL, TRUE, outcome), peer.now)
    assert control.discharge(second).remote_state == Delivery.REJECTED
    control.discharge(id, fail=True)
    for delivery, _ in peer.messages[1:]:
        peer.settle(delivery, Delivery.RELEASED)
    assert_one_holds_the_group(broker, [peer, other])
    assert other.bodies() == [0, 1, 2, 3]
