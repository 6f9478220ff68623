"""Links by Qpid address strings: what they make, assert, remove and filter."""

from __future__ import annotations

import pytest
from proton import Message

from covey.core.broker.broker import Broker
from tests.core.support import shown
from tests.protocols.amqp.peer import Peer, make_broker

GROUP_QUEUE = (
    "MyMsgQueue; {create: always, delete: receiver, node: {x-declare: {arguments:"
    " {'qpid.group_header_key': 'GROUP_KEY', 'qpid.shared_msg_group': 1}}}}"
)


@pytest.fixture
def broker() -> Broker:
    return make_broker()


def test_the_qpid_pages_address_declares_its_queue_and_is_echoed(broker: Broker) -> None:
    peer = Peer(broker)
    sender = peer.sender(GROUP_QUEUE)
    assert sender.remote_target.address == GROUP_QUEUE
    queue = broker.host.queues["MyMsgQueue"]
    attributes = shown(queue)
    assert (attributes["group_header"], attributes["strategy"]) == ("GROUP_KEY", "shared")
    assert "MyMsgQueue" in broker.host.declared


def test_delete_receiver_removes_the_queue_when_its_receiver_closes(broker: Broker) -> None:
    peer = Peer(broker)
    sender = peer.sender(GROUP_QUEUE)
    receiver = peer.receiver(GROUP_QUEUE)
    sender.close()
    peer.pump()
    assert "MyMsgQueue" in broker.host.queues
    receiver.close()
    peer.pump()
    assert "MyMsgQueue" not in broker.host.queues


def test_an_address_string_without_create_makes_nothing(broker: Broker) -> None:
    peer = Peer(broker)
    peer.sender("x; {}")
    peer.sender("x; {create: receiver}")
    assert peer.conditions == ["amqp:not-found"] * 2
    peer.receiver("x; {create: receiver}")
    assert list(broker.host.queues) == ["x"]


def test_assert_refuses_a_queue_that_is_otherwise(broker: Broker) -> None:
    peer = Peer(broker)
    peer.sender("x; {create: always, node: {properties: {qpid.max_count: 5}}}", name="1")
    peer.sender("x; {assert: always, node: {properties: {qpid.max_count: 5}}}", name="2")
    assert not peer.conditions
    peer.sender("x; {assert: always, node: {properties: {qpid.max_count: 6}}}", name="3")
    assert peer.conditions == ["amqp:precondition-failed"]


def test_a_subject_in_the_address_selects_by_subject(broker: Broker) -> None:
    peer = Peer(broker)
    peer.receiver("news/uk; {create: always, node: {type: topic}}")
    sender = peer.sender("/topic/news")
    peer.send(sender, Message(body="a", subject="fr"))
    peer.send(sender, Message(body="b", subject="uk"))
    assert peer.bodies() == ["b"]


@pytest.mark.parametrize("text", ["x; {create: perhaps}", "x; {", "x; {a:" * 100])
def test_a_bad_address_string_is_an_invalid_field(broker: Broker, text: str) -> None:
    peer = Peer(broker)
    peer.sender(text)
    assert peer.conditions == ["amqp:invalid-field"]
