"""A subscription that the broker has to end: its link is detached with the reason."""

from __future__ import annotations

from typing import Any

from proton import Described, symbol

from covey.core.broker.broker import Broker
from tests.protocols.amqp.peer import Peer, make_broker

PORTION = 10


def chosen(number: int) -> dict[Any, Any]:
    """Write a filter of its own."""
    text = Described(symbol("apache.org:selector-filter:string"), f"a = {number}")
    return {symbol("s"): text}


def make(queues: int) -> Broker:
    """Make a broker whose queues bear two selectors."""
    broker = make_broker(broker={"selectors_per_queue_max": 2, "work_portion": PORTION})
    for number in range(queues):
        broker.host.queue(f"many.{number}")
    return broker


def test_a_wide_link_that_is_refused_late_is_detached_and_its_connection_lives() -> None:
    broker = make(35)
    other = Peer(broker, container="other")
    for number in range(2):
        other.receiver("many.34", name=f"{number}", filters=chosen(number))
    peer = Peer(broker)
    link = peer.receiver("many.*", filters=chosen(9))
    assert peer.ended == [link]
    assert peer.conditions == ["amqp:resource-limit-exceeded"]
    assert "selectors_per_queue_max" in str(peer.errors[0].description)
    peer.receiver("many.3", name="again", filters=chosen(9))
    assert len(peer.ended) == 1
    consumers = [len(queue.state.consumers) for queue in broker.host.queues.values()]
    assert sum(consumers) == 3


def test_a_new_queue_detaches_the_links_that_cannot_read_it() -> None:
    broker = make(0)
    peers = [Peer(broker, container=f"p{number}") for number in range(3)]
    for number, peer in enumerate(peers):
        peer.receiver("new.*", filters=chosen(number))
    maker = Peer(broker, container="maker")
    delivery = maker.send(maker.sender("new.1"), "hello")
    peers[2].pump()
    assert (delivery.remote_state, maker.errors) == (delivery.ACCEPTED, [])
    assert [peer.conditions for peer in peers] == [[], [], ["amqp:resource-limit-exceeded"]]
    assert "cannot read the new queue new.1" in str(peers[2].errors[0].description)
