"""Transfers: settlement modes, what is refused, large and aborted messages, the store's word."""

from __future__ import annotations

import pytest
from proton import Delivery, Link, Message, symbol

from covey.config.settings import AmqpSettings, Settings
from covey.core.broker.broker import Broker
from covey.core.queue.queue import Queue
from tests.core.double import HeldStore
from tests.protocols.amqp.peer import Peer, make_broker


def queue_of(broker: Broker, name: str = "q") -> Queue:
    return broker.host.queues[name]


# Settlement modes.


def test_an_unsettled_message_is_accepted_and_settled() -> None:
    peer = Peer(make_broker())
    delivery = peer.send(peer.sender("q"), "1")
    assert (delivery.remote_state, delivery.settled) == (Delivery.ACCEPTED, True)


def test_a_presettled_message_arrives_and_is_not_answered() -> None:
    broker = make_broker()
    peer = Peer(broker)
    peer.send(peer.sender("q"), "1", settled=True)
    assert queue_of(broker).state.index.count == 1
    assert not peer.updates


def test_a_presettled_receiver_holds_nothing() -> None:
    broker = make_broker()
    peer = Peer(broker)
    peer.send(peer.sender("q"), "1")
    peer.receiver("q", presettled=True)
    assert peer.bodies() == ["1"]
    assert peer.messages[0][0].settled
    assert queue_of(broker).state.index.count == 0


def test_a_receiver_that_settles_second_is_answered_before_it_settles() -> None:
    broker = make_broker()
    peer = Peer(broker)
    peer.send(peer.sender("q"), "1")
    peer.receiver("q", second=True)
    delivery = peer.messages[0][0]
    delivery.update(Delivery.ACCEPTED)
    peer.pump()
    assert delivery.settled  # the broker has settled, so the receiver may forget it, too
    assert queue_of(broker).state.index.count == 0


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
    assert [each.unsettled for each in peer.engine.links.open.values()] == [{0}]
    delivery.settle()
    peer.pump()
    (incoming,) = peer.engine.links.open.values()
    assert incoming.unsettled == set()


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
    assert queue_of(broker).state.index.count == 1


def test_another_users_name_is_refused() -> None:
    peer = Peer(make_broker(), login=("admin", "password"))
    sender = peer.sender("q")
    for _ in range(2):  # a head that was seen before is no excuse
        mine = Message(body=b"1", inferred=True, user_id=b"admin")
        assert peer.send(sender, mine).remote_state == Delivery.ACCEPTED
        delivery = peer.send(sender, Message(body=b"1", inferred=True, user_id=b"root"))
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
    assert queue_of(broker).state.index.count == 1


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
    annotations = peer.messages[0][1].annotations
    assert annotations is not None
    assert annotations[symbol("x-opt-a")] == "b"


# The store's word.


def test_a_persistent_message_is_accepted_after_its_commit_only() -> None:
    store = HeldStore()
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


def test_a_delivery_that_was_decided_is_settled_without_a_second_word() -> None:
    store = HeldStore()
    broker = Broker(Settings(), store)
    peer = Peer(broker)
    peer.send(peer.sender("q"), Message(body="1", durable=True))
    store.write()
    broker.run(1.0)
    peer.receiver("q", second=True)
    first = peer.messages[0][0]
    first.local.failed = True
    first.update(Delivery.MODIFIED)
    peer.pump()
    assert peer.bodies() == ["1", "1"]  # it comes again before the disk knows of the first try
    first.update(Delivery.ACCEPTED)
    first.settle()
    peer.pump()
    assert queue_of(broker).state.index.count == 1
    peer.settle(peer.messages[1][0], Delivery.ACCEPTED)
    assert queue_of(broker).state.index.count == 0


def test_an_answer_that_comes_after_its_link_is_gone_harms_nobody() -> None:
    store = HeldStore()
    broker = Broker(Settings(), store)
    peer = Peer(broker)
    sender = peer.sender("q")
    peer.send(sender, Message(body="1", durable=True))
    sender.close()
    peer.pump()
    store.write()
    assert queue_of(broker).state.index.count == 1


def test_an_answer_waits_for_no_commit_but_its_own() -> None:
    store = HeldStore()
    broker = Broker(Settings(), store)
    peer, other = Peer(broker), Peer(broker)
    sender, stranger = peer.sender("q"), other.sender("other")
    peer.send(sender, "0")
    other.send(stranger, "0")
    store.write()  # both queues have numbers to give
    kept = peer.send(sender, Message(body="1", durable=True))
    assert peer.send(sender, "2").remote_state == Delivery.ACCEPTED, "not in the order of sending"
    assert other.send(stranger, "3").remote_state == Delivery.ACCEPTED
    assert kept.remote_state == 0
    later = other.send(stranger, Message(body="4", durable=True))
    store.listener.finished(store.tickets.pop(0), None)
    peer.pump()
    other.pump()
    assert (kept.remote_state, later.remote_state) == (Delivery.ACCEPTED, 0)
    store.write()
    other.pump()
    assert later.remote_state == Delivery.ACCEPTED


def test_a_settlement_that_is_answered_waits_for_no_commit_but_its_own() -> None:
    store = HeldStore()
    broker = Broker(Settings(), store)
    peer, other = Peer(broker), Peer(broker)
    sender = other.sender("q")
    store.write()
    other.send(sender, Message(body="1", durable=True))
    other.send(sender, "2")
    store.write()
    broker.run(1.0)
    peer.receiver("q", second=True)
    kept, passing = [delivery for delivery, _ in peer.messages]
    kept.update(Delivery.ACCEPTED)
    peer.pump()
    passing.update(Delivery.ACCEPTED)
    peer.pump()
    assert (kept.settled, passing.settled) == (False, True)
    store.write()
    peer.pump()
    assert kept.settled


def test_the_first_durable_message_of_a_connection_waits_for_an_alarm_to_end() -> None:
    peer = Peer(make_broker())
    peer.broker.commits.pressed("the disk is full")
    delivery = peer.send(peer.sender("q"), Message(body="x", durable=True))
    assert delivery.remote_state == 0
    peer.broker.commits.pressed("")
    peer.broker.run(peer.now)
    peer.pump()
    assert delivery.remote_state == Delivery.ACCEPTED
