"""Outgoing links: outcomes, credit and drain, flow control, groups."""

from __future__ import annotations

from struct import pack
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import Condition, Delivery, Message, Sender, symbol

from covey.config.settings import AmqpSettings
from covey.core.broker.broker import Broker
from covey.core.queue.queue import Queue
from covey.protocols.amqp.codec import decoder, encoder
from covey.protocols.amqp.codec.types import U32
from tests.core.support import depth, groups_shown, shown
from tests.protocols.amqp.peer import Peer, make_broker

DEAD = symbol("x-opt-dead-letter-reason")
FLOW: Final = 0x13  # AMQP 1.0 section 2.7.4


def queue_of(broker: Broker, name: str = "q") -> Queue:
    return broker.host.queues[name]


# Outcomes.


def deliver_one(**policy: Any) -> tuple[Broker, Peer]:
    broker = make_broker(queue=({"id": "**", **policy},))
    peer = Peer(broker)
    peer.receiver("q")
    peer.send(peer.sender("q"), "1")
    return broker, peer


def test_accepted_removes_the_message() -> None:
    broker, peer = deliver_one()
    peer.settle(peer.messages[0][0], Delivery.ACCEPTED)
    assert depth(queue_of(broker)) == 0


def test_released_comes_back_uncounted() -> None:
    _, peer = deliver_one()
    peer.settle(peer.messages[0][0], Delivery.RELEASED)
    assert [message.delivery_count for _, message in peer.messages] == [0, 0]


def test_settling_without_a_state_gives_the_message_back() -> None:
    _, peer = deliver_one()
    peer.messages[0][0].settle()
    peer.pump()
    assert peer.bodies() == ["1", "1"]


def test_modified_as_failed_comes_back_counted() -> None:
    _, peer = deliver_one()
    delivery = peer.messages[0][0]
    delivery.local.failed = True
    peer.settle(delivery, Delivery.MODIFIED)
    assert [message.delivery_count for _, message in peer.messages] == [0, 1]
    assert [message.first_acquirer for _, message in peer.messages] == [True, False]


def test_modified_without_failure_comes_back_uncounted() -> None:
    _, peer = deliver_one()
    peer.settle(peer.messages[0][0], Delivery.MODIFIED)
    assert [message.delivery_count for _, message in peer.messages] == [0, 0]


def test_a_rejected_message_goes_to_the_dead_letter_queue_with_its_condition() -> None:
    _broker, peer = deliver_one(dlq="dead")
    delivery = peer.messages[0][0]
    delivery.local.condition = Condition("app:bad", "no use")
    peer.settle(delivery, Delivery.REJECTED)
    assert peer.bodies() == ["1"]
    peer.receiver("dead")
    told = dict(peer.messages[1][1].annotations or {})
    assert told[DEAD] == "rejected: app:bad: no use"
    assert (told["x-opt-dead-letter-queue"], told["x-opt-dead-letter-seq"]) == ("q", 1)


def refuse(peer: Peer, *, failed: bool) -> None:
    delivery = peer.messages[-1][0]
    delivery.local.undeliverable = True
    delivery.local.failed = failed
    peer.settle(delivery, Delivery.MODIFIED)


@pytest.mark.parametrize("failed", [False, True])
def test_what_is_undeliverable_here_goes_to_another_link(failed: bool) -> None:
    broker, peer = deliver_one(dlq="dead")
    refuse(peer, failed=failed)
    assert peer.bodies() == ["1"]
    assert depth(queue_of(broker)) == 1
    other = Peer(broker, container="other")
    other.receiver("q")
    assert [message.delivery_count for _, message in other.messages] == [int(failed)]
    other.settle(other.messages[0][0])
    assert depth(queue_of(broker)) == 0


def test_what_no_link_will_have_is_shown_as_set_aside() -> None:
    broker = make_broker()
    peer = Peer(broker)
    peer.receiver("q")
    peer.send(peer.sender("q"), Message(body="1", group_id="g"))
    refuse(peer, failed=False)
    (group,) = groups_shown(queue_of(broker))
    assert "set aside" in str(group["why"])


def test_a_message_that_failed_too_often_is_dead() -> None:
    _broker, peer = deliver_one(dlq="dead", nak_limit=2)
    for _ in range(2):
        delivery = peer.messages[-1][0]
        delivery.local.failed = True
        peer.settle(delivery, Delivery.MODIFIED)
    assert len(peer.messages) == 2
    peer.receiver("dead")
    told = dict(peer.messages[-1][1].annotations or {})
    assert (told[DEAD], told["x-opt-dead-letter-count"]) == ("failed 2 times", 2)


# Credit.


def test_no_more_is_sent_than_the_credit_allows() -> None:
    peer = Peer(make_broker())
    sender = peer.sender("q")
    for number in range(5):
        peer.send(sender, str(number))
    link = peer.receiver("q", credit=2)
    assert peer.bodies() == ["0", "1"]
    link.flow(1)
    peer.pump()
    assert peer.bodies() == ["0", "1", "2"]


def test_a_drain_uses_up_the_credit_or_gives_it_back() -> None:
    peer = Peer(make_broker())
    sender = peer.sender("q")
    for number in range(3):
        peer.send(sender, str(number))
    link = peer.receiver("q", credit=0)
    link.drain(10)
    peer.pump()
    assert peer.bodies() == ["0", "1", "2"]
    assert link.credit == 0
    peer.send(sender, "later")
    assert len(peer.bodies()) == 3
    link.drain_mode = False
    link.flow(1)
    peer.pump()
    assert peer.bodies()[-1] == "later"


@pytest.mark.parametrize("address", ["/topic/t", "empty.*", "empty"])
def test_a_drain_of_nothing_gives_the_credit_back(address: str) -> None:
    peer = Peer(make_broker())
    link = peer.receiver(address, credit=0)
    link.drain(10)
    peer.pump()
    assert link.credit == 0


def drain_flow(handle: int, delivered: int, credit: int) -> bytes:
    """Return a flow that asks for the credit to be used now or given back."""
    numbers = (delivered, 2000, delivered, 2000, handle, delivered, credit)
    fields = [*(encoder.uint(number) for number in numbers), encoder.NULL, encoder.TRUE]
    body = encoder.section(FLOW, encoder.compound(fields))
    return pack(">IBBH", 8 + len(body), 2, 0, 0) + body


def link_flows(data: bytes) -> list[object]:
    """Return handle, delivery-count, link-credit, available and drain of each link's flow."""
    found: list[object] = []
    while data:
        frame, data = data[: U32.unpack_from(data)[0]], data[U32.unpack_from(data)[0] :]
        body = decoder.decode(frame, 8) if len(frame) > 8 else None
        if isinstance(body, decoder.Described) and body.descriptor == FLOW:
            assert isinstance(body.value, list)
            found.append(body.value[4:9])
    return found


def test_a_drain_without_credit_is_answered_by_a_flow() -> None:
    peer = Peer(make_broker())
    sender = peer.sender("q")
    link = peer.receiver("q", credit=3)
    handle = 1  # of the session's second link, on both sides
    peer.send(sender, "1")
    peer.send(sender, "2")
    for delivered, credit in ((2, 1), (3, 0)):  # what is given back counts as delivered
        peer.engine.receive(drain_flow(handle, delivered, credit), 1.0)
        assert link_flows(peer.engine.outgoing()) == [[handle, 3, 0, None, True]]
    peer.send(sender, "3")
    assert peer.bodies() == ["1", "2"]  # what was lent to proton is no credit
    assert link.credit == 1  # it never heard of the drain


def test_a_drain_of_more_than_the_outbox_holds_gets_everything() -> None:
    broker = make_broker()
    peer = Peer(broker)
    sender = peer.sender("q")
    for _ in range(40):
        peer.send(sender, "x" * 50_000)
    link = peer.receiver("q", credit=0)
    link.drain(100)
    for _ in range(20):
        peer.pump()
        broker.run(1.0)
    assert len(peer.messages) == 40
    assert link.credit == 0


def test_credit_for_sending_is_renewed_before_it_runs_out() -> None:
    peer = Peer(make_broker(), AmqpSettings(allow_anonymous=True, link_credit=10))
    sender = peer.sender("q")
    for number in range(50):
        assert sender.credit > 0
        peer.send(sender, str(number))


def test_a_full_queue_stops_its_producer_and_lets_the_consumer_acknowledge() -> None:
    broker = make_broker(queue=({"id": "**", "quota_messages": 1},))
    peer = Peer(broker, AmqpSettings(allow_anonymous=True, link_credit=10))
    sender = peer.sender("q")
    deliveries = [peer.send(sender, str(number)) for number in range(9)]
    assert [d.remote_state == Delivery.ACCEPTED for d in deliveries] == [True] + [False] * 8
    assert sender.credit == 1  # nothing was renewed
    peer.receiver("q")
    for _ in range(9):
        peer.settle(peer.messages[-1][0])
    assert peer.bodies() == [str(number) for number in range(9)]
    assert all(d.remote_state == Delivery.ACCEPTED for d in deliveries)
    assert sender.credit > 1


def test_a_full_outbox_stops_deliveries_until_it_is_read() -> None:
    broker = make_broker()
    producer, consumer = Peer(broker), Peer(broker, container="consumer")
    consumer.receiver("q", credit=1000)
    sender = producer.sender("q")
    body = "x" * 50_000
    for _ in range(60):
        producer.send(sender, body)
    assert consumer.engine.backpressure.is_paused
    assert consumer.engine.backpressure.outbox_size < AmqpSettings().outbox_max + 100_000
    for _ in range(20):
        consumer.pump()
        broker.run(1.0)
    assert len(consumer.messages) == 60
    assert consumer.engine.backpressure.outbox_size == 0


# Groups.


def test_the_first_message_of_a_group_says_so() -> None:
    peer = Peer(make_broker())
    peer.receiver("q")
    sender = peer.sender("q")
    for _ in range(2):
        peer.send(sender, Message(body="1", group_id="g"))
    first, second = [message for _, message in peer.messages]
    assert first.annotations == {symbol("x-opt-group-first-for-consumer"): True}
    assert second.annotations is None


def test_a_queue_that_does_not_tell_the_first_tells_nobody() -> None:
    policy = {"id": "**", "groups": {"first_for_consumer": False}}
    peer = Peer(make_broker(queue=(policy,), broker={"group_first_property": True}))
    peer.receiver("q")
    peer.send(peer.sender("q"), Message(body="1", group_id="g"))
    (message,) = [message for _, message in peer.messages]
    assert (message.annotations, message.properties) == (None, None)


def test_the_first_of_a_group_is_a_property_by_option() -> None:
    peer = Peer(make_broker(broker={"group_first_property": True}))
    peer.receiver("q")
    peer.send(peer.sender("q"), Message(body="1", group_id="g"))
    (message,) = [message for _, message in peer.messages]
    assert message.properties == {"JMSXGroupFirstForConsumer": True}


def test_the_sender_is_named_by_option() -> None:
    broker = make_broker()
    settings = AmqpSettings(allow_anonymous=True, add_user_annotation=True)
    reader = Peer(broker, settings, container="reader")
    reader.receiver("q")
    sender = Peer(broker, login=("admin", "password"))
    sender.send(sender.sender("q"), "1")
    reader.pump()
    assert reader.messages[0][1].annotations == {symbol("x-opt-user-id"): "admin"}


def test_a_group_stays_with_its_owner_over_links() -> None:
    broker = make_broker(queue=({"id": "**", "groups": {"strategy": "simple"}},))
    one, two = Peer(broker, container="one"), Peer(broker, container="two")
    one.receiver("q")
    two.receiver("q")
    sender = one.sender("q")
    for number in range(20):
        one.send(sender, Message(body=number, group_id=f"g{number % 4}"))
    two.pump()
    assert one.bodies()
    assert two.bodies()
    assert not {n % 4 for n in one.bodies()} & {n % 4 for n in two.bodies()}
    assert one.bodies() == sorted(one.bodies())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["send", "credit", "accept", "release", "fail"]), max_size=40))
def test_whatever_a_client_does_no_message_is_lost_or_doubled(moves: list[str]) -> None:
    broker = make_broker(queue=({"id": "**", "groups": {"strategy": "simple"}},))
    peer = Peer(broker)
    sender: Sender = peer.sender("q")
    link = peer.receiver("q", credit=0)
    sent = accepted = 0
    for move in moves:
        held = [delivery for delivery, _ in peer.messages if not delivery.settled]
        if move == "send":
            peer.send(sender, Message(body=sent, group_id="g"))
            sent += 1
        elif move == "credit":
            link.flow(2)
            peer.pump()
        elif peer.messages:
            delivery, _ = peer.messages.pop(0)
            delivery.local.failed = move == "fail"
            states = {"accept": Delivery.ACCEPTED, "release": Delivery.RELEASED}
            peer.settle(delivery, states.get(move, Delivery.MODIFIED))
            accepted += move == "accept"
        assert len(held) <= sent
    queue = queue_of(broker)
    assert depth(queue) == sent - accepted
    assert shown(queue)["unsettled"] == len(peer.messages)
