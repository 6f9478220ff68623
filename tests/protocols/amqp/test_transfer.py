"""Transfers: settlement modes, outcomes, large and aborted messages, credit and flow control."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import Delivery, Link, Message, Sender, symbol

from covey.config.settings import AmqpSettings, Settings
from covey.core.broker import Broker
from covey.core.queue import Queue
from covey.core.stores.memory import MemoryStore
from covey.protocols.amqp.engine import OUTBOX_MAX
from tests.protocols.amqp.peer import Peer, make_broker


def queue_of(broker: Broker, name: str = "q") -> Queue:
    return broker.hosts[0].queues[name]


# Settlement modes.


def test_an_unsettled_message_is_accepted_and_settled() -> None:
    peer = Peer(make_broker())
    delivery = peer.send(peer.sender("q"), "1")
    assert (delivery.remote_state, delivery.settled) == (Delivery.ACCEPTED, True)


def test_a_presettled_message_arrives_and_is_not_answered() -> None:
    broker = make_broker()
    peer = Peer(broker)
    peer.send(peer.sender("q"), "1", settled=True)
    assert queue_of(broker).board.index.count == 1
    assert not peer.updates


def test_a_presettled_receiver_holds_nothing() -> None:
    broker = make_broker()
    peer = Peer(broker)
    peer.send(peer.sender("q"), "1")
    peer.receiver("q", presettled=True)
    assert peer.bodies() == ["1"]
    assert peer.messages[0][0].settled
    assert queue_of(broker).board.index.count == 0


def test_a_receiver_that_settles_second_is_answered_before_it_settles() -> None:
    broker = make_broker()
    peer = Peer(broker)
    peer.send(peer.sender("q"), "1")
    peer.receiver("q", second=True)
    delivery = peer.messages[0][0]
    delivery.update(Delivery.ACCEPTED)
    peer.pump()
    assert delivery.settled  # the broker has settled, so the receiver may forget it, too
    assert queue_of(broker).board.index.count == 0


def test_a_sender_that_settles_second_sees_the_outcome_unsettled() -> None:
    broker = make_broker()
    peer = Peer(broker)
    link = peer.session.sender("s")
    link.target.address = "q"
    link.rcv_settle_mode = Link.RCV_SECOND
    link.open()
    peer.pump()
    delivery = peer.send(link, "1")
    assert (delivery.remote_state, delivery.settled) == (Delivery.ACCEPTED, False)
    delivery.settle()
    peer.pump()
    (incoming,) = peer.engine.links.open.values()
    assert not getattr(incoming, "answered", None)


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
    assert queue_of(broker).board.index.count == 0


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


@pytest.mark.parametrize("state", [Delivery.REJECTED, Delivery.MODIFIED])
def test_rejected_and_undeliverable_here_go_to_the_dead_letter_queue(state: int) -> None:
    broker, peer = deliver_one(dlq="dead")
    delivery = peer.messages[0][0]
    delivery.local.undeliverable = True
    peer.settle(delivery, state)
    assert peer.bodies() == ["1"]
    assert queue_of(broker, "dead").board.index.count == 1


def test_a_message_that_failed_too_often_is_dead() -> None:
    broker, peer = deliver_one(dlq="dead", nak_limit=2)
    for _ in range(2):
        delivery = peer.messages[-1][0]
        delivery.local.failed = True
        peer.settle(delivery, Delivery.MODIFIED)
    assert len(peer.messages) == 2
    assert queue_of(broker, "dead").board.index.count == 1


# What is refused.


def test_a_full_queue_rejects_with_the_reason() -> None:
    broker = make_broker(queue=({"id": "**", "quota_messages": 1, "full_policy": "reject"},))
    peer = Peer(broker)
    sender = peer.sender("q")
    peer.send(sender, "1")
    delivery = peer.send(sender, "2")
    assert delivery.remote_state == Delivery.REJECTED
    condition = delivery.remote.condition
    assert condition is not None
    assert condition.name == "amqp:resource-limit-exceeded"
    assert "queue q is full" in str(condition.description)
    peer.send(sender, "3", settled=True)
    assert queue_of(broker).board.index.count == 1


def test_another_users_name_is_refused() -> None:
    peer = Peer(make_broker(), login=("admin", "password"))
    sender = peer.sender("q")
    assert peer.send(sender, Message(body="1", user_id=b"admin")).remote_state == Delivery.ACCEPTED
    delivery = peer.send(sender, Message(body="1", user_id=b"root"))
    condition = delivery.remote.condition
    assert condition is not None
    assert condition.name == "amqp:unauthorized-access"


@pytest.mark.parametrize(
    "payload",
    [b"", b"junk", b"\x00\x53\x77" + b"\xc0\x02\x01" * 600, b"\x00\x53\x77", b"\x00" * 5000],
)
def test_an_unreadable_message_is_rejected_and_its_link_goes_on(payload: bytes) -> None:
    broker = make_broker()
    peer = Peer(broker)
    sender = peer.sender("q")
    delivery = sender.delivery("bad")
    sender.stream(payload)
    sender.advance()
    peer.pump()
    assert delivery.remote_state == Delivery.REJECTED
    assert peer.send(sender, "good").remote_state == Delivery.ACCEPTED


# Large and aborted messages.


def test_a_large_message_comes_in_many_frames_and_leaves_in_many() -> None:
    broker = make_broker()
    peer = Peer(broker, AmqpSettings(allow_anonymous=True, max_frame_size=512), max_frame_size=512)
    body = bytes(range(256)) * 1024
    peer.send(peer.sender("q"), Message(body=body, inferred=True))
    peer.receiver("q")
    assert bytes(peer.bodies()[0]) == body


def test_a_message_beyond_the_limit_ends_its_link() -> None:
    broker = make_broker()
    peer = Peer(broker, AmqpSettings(allow_anonymous=True, max_message_size=10_000))
    sender = peer.sender("q")
    assert sender.remote_max_message_size == 10_000
    peer.send(sender, "x" * 9_000)
    peer.send(sender, "x" * 200_000)
    assert peer.conditions == ["amqp:link:message-size-exceeded"]
    assert queue_of(broker).board.index.count == 1


def test_an_aborted_message_leaves_no_trace() -> None:
    broker = make_broker()
    peer = Peer(broker)
    sender = peer.sender("q")
    delivery = sender.delivery("half")
    sender.stream(b"x" * 200_000)
    peer.pump()
    delivery.abort()
    peer.pump()
    peer.send(sender, "whole")
    peer.receiver("q")
    assert peer.bodies() == ["whole"]


def test_the_bare_message_passes_bit_by_bit() -> None:
    peer = Peer(make_broker())
    message = Message(
        body={"a": [1, 2.5, None, True]},
        id=7,
        subject="s",
        group_id="g",
        group_sequence=3,
        properties={"p": 1},
        annotations={symbol("x-opt-a"): "b"},
    )
    original = message.encode()
    peer.send(peer.sender("q"), message)
    peer.receiver("q")
    bare = original[original.index(b"\x00\x53\x73") :]
    assert peer.raw[0].endswith(bare)
    assert peer.messages[0][1].annotations == {symbol("x-opt-a"): "b"}


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
    assert consumer.engine.is_paused
    assert consumer.engine.outbox_size < OUTBOX_MAX + 100_000
    for _ in range(20):
        consumer.pump()
        broker.run(1.0)
    assert len(consumer.messages) == 60
    assert consumer.engine.outbox_size == 0


# The store's word.


class SlowStore(MemoryStore):
    """A store that keeps its tickets until a test hands them out."""

    is_durable = True

    def __init__(self) -> None:
        super().__init__()
        self.tickets: list[int] = []

    def flush(self, ticket: int) -> None:
        """Take a batch, and say nothing."""
        self.tickets.append(ticket)

    def write(self) -> None:
        """Say that all batches are on disk."""
        tickets, self.tickets = self.tickets, []
        for ticket in tickets:
            self.finished(ticket, None)


def test_a_persistent_message_is_accepted_after_its_commit_only() -> None:
    store = SlowStore()
    broker = Broker(Settings(), store)
    peer = Peer(broker)
    peer.receiver("q")
    delivery = peer.send(peer.sender("q"), Message(body="1", durable=True))
    assert delivery.remote_state == 0
    assert peer.bodies() == []
    store.write()
    broker.run(1.0)
    peer.pump()
    assert delivery.remote_state == Delivery.ACCEPTED
    assert peer.bodies() == ["1"]


def test_an_answer_that_comes_after_its_link_is_gone_harms_nobody() -> None:
    store = SlowStore()
    broker = Broker(Settings(), store)
    peer = Peer(broker)
    sender = peer.sender("q")
    peer.send(sender, Message(body="1", durable=True))
    sender.close()
    peer.pump()
    store.write()
    assert queue_of(broker).board.index.count == 1


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
    assert queue.board.index.count == sent - accepted
    assert sum(len(c.unsettled) for c in queue.board.consumers.values()) == len(peer.messages)
