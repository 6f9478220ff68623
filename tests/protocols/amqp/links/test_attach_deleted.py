"""Links whose queue somebody deletes."""

from __future__ import annotations

import pytest
from proton import Message

from covey.core.broker.broker import Broker
from tests.core.support import depth
from tests.protocols.amqp.links.test_transactions import Control, send_in
from tests.protocols.amqp.peer import Peer, make_broker


@pytest.fixture
def broker() -> Broker:
    return make_broker()


def delete(broker: Broker, name: str = "q") -> None:
    broker.host.delete_queue(name, f"queue {name} was deleted")


def test_a_sender_hears_that_its_queue_was_deleted(broker: Broker) -> None:
    peer = Peer(broker)
    sender = peer.sender("q,r")
    relay = peer.sender(None)
    peer.send(sender, "1")
    delete(broker)
    peer.pump()
    assert peer.conditions == ["amqp:resource-deleted"]
    assert [link.name for link in peer.ended] == [sender.name]
    assert len(broker.host.senders) == 0
    peer.send(relay, Message(body="2", address="q"))
    assert depth(broker.host.queues["q"]) == 1


def test_what_is_on_its_way_to_a_deleted_queue_does_not_make_it_anew(broker: Broker) -> None:
    peer = Peer(broker)
    sender = peer.sender("q")
    peer.send(sender, "1")
    Message(body="2").send(sender)
    delete(broker)
    peer.pump()
    assert peer.conditions == ["amqp:resource-deleted"]
    assert "q" not in broker.host.queues


def test_a_queue_that_is_swept_away_keeps_its_senders(broker: Broker) -> None:
    peer = Peer(broker)
    sender = peer.sender("q")
    queue = broker.host.queue("q")
    broker.turn(1 + queue.settings.auto_delete_after_s)
    broker.host.sweep()
    assert "q" not in broker.host.queues
    peer.pump()
    assert not peer.errors
    peer.send(sender, "1")
    assert depth(broker.host.queues["q"]) == 1


def test_a_sender_that_has_gone_is_not_told(broker: Broker) -> None:
    peer = Peer(broker)
    peer.send(peer.sender("q"), "1")
    peer.sender("q", name="other").detach()
    peer.lose()
    assert len(broker.host.senders) == 0
    delete(broker)


def test_a_transaction_that_sent_to_a_deleted_queue_is_rolled_back(broker: Broker) -> None:
    peer = Peer(broker)
    broker.host.queue("q")
    control = Control(peer)
    ids = [control.declare(), control.declare()]
    send_in(peer, peer.sender("q"), ids[0], Message(body="1"))
    send_in(peer, peer.sender("r"), ids[1], Message(body="2"))
    delete(broker)
    peer.pump()
    answers = [control.discharge(id).remote for id in ids]
    assert [answer.condition and answer.condition.name for answer in answers] == [
        "amqp:transaction:rollback",
        None,
    ]
    assert list(broker.host.queues) == ["r"]
