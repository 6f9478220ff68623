"""Deliveries that a peer holds for too long: the broker settles them as released."""

from __future__ import annotations

from proton import Delivery, symbol

from covey.config.queues import QueueSettings
from covey.protocols.amqp.links.receiver_link import OutgoingLink
from tests.core.support import depth
from tests.protocols.amqp.peer import Peer, make_broker


def hung_peer(**settings: object) -> Peer:
    """Return a peer that has let a message run out."""
    queue = QueueSettings.model_validate({"delivery_deadline_s": 10, **settings})
    peer = Peer(make_broker(queue=(queue,)))
    peer.send(peer.sender("q"), "1")
    peer.receiver("q", credit=1)
    pass_time(peer, 10)
    return peer


def pass_time(peer: Peer, seconds: float) -> None:
    peer.now += seconds
    peer.broker.tick(peer.now)
    peer.broker.run(peer.now)
    peer.pump()


def other_of(peer: Peer) -> Peer:
    return Peer(peer.broker, container="other", now=peer.now)


def test_it_is_released_and_another_gets_it() -> None:
    peer = hung_peer()
    delivery = peer.messages[0][0]
    assert (delivery.remote_state, delivery.settled) == (Delivery.RELEASED, True)
    other = other_of(peer)
    other.receiver("q")
    assert other.messages[0][1].delivery_count == 1
    peer.settle(delivery)  # late: it settles nothing
    assert depth(peer.broker.host.queues["q"]) == 1
    other.settle(other.messages[0][0])
    assert depth(peer.broker.host.queues["q"]) == 0
    assert peer.errors == []


def test_a_disposition_that_comes_all_the_same_is_counted_as_late() -> None:
    peer = hung_peer()
    queue = peer.broker.host.queues["q"]
    channel = peer.engine.framing.channels[0]
    channel.unsettled.accept(0, 1, peer.now)  # proton itself is silent about what was settled
    assert queue.counters.late == 1
    assert not any(each.is_overdue for each in queue.state.consumers.values())


def test_a_peer_that_has_nothing_to_settle_is_back_with_its_next_credit() -> None:
    peer = hung_peer()
    assert len(peer.messages) == 1
    link = peer.messages[0][0].link
    link.flow(1)
    peer.pump()
    assert [message.body for _, message in peer.messages] == ["1", "1"]
    peer.settle(peer.messages[1][0])
    assert depth(peer.broker.host.queues["q"]) == 0


def test_the_deadline_of_a_link_is_its_property() -> None:
    queue = QueueSettings(delivery_deadline_s=10)
    peer = Peer(make_broker(queue=(queue,)))
    peer.send(peer.sender("q"), "1")
    link = peer.session.receiver("patient")
    link.source.address = "q"
    link.properties = {symbol("covey-deadline"): 60}
    link.open()
    link.flow(1)
    peer.pump()
    pass_time(peer, 59)
    assert not peer.messages[0][0].settled
    pass_time(peer, 1)
    assert peer.messages[0][0].settled


def test_a_deadline_that_may_not_be_is_refused() -> None:
    peer = Peer(make_broker(queue=(QueueSettings(delivery_deadline_max_s=30),)))
    values: tuple[float | str, ...] = (31, "soon", -1, float("nan"))
    for number, value in enumerate(values):
        link = peer.session.receiver(f"greedy {number}")
        link.source.address = "q"
        link.properties = {symbol("covey-deadline"): value}
        link.open()
        peer.pump()
    assert [error.name for error in peer.errors] == ["amqp:invalid-field"] * 4


def test_what_was_never_sent_is_taken_out_of_the_outbox() -> None:
    broker = make_broker(queue=(QueueSettings(delivery_deadline_s=10),))
    sender = Peer(broker, container="sender")
    sender.send(sender.sender("q"), "1")
    peer = Peer(broker)
    peer.receiver("q", credit=0)
    (link,) = peer.engine.framing.channels[0].links.values()
    assert isinstance(link, OutgoingLink)
    link.channel.peer_window = 0  # the peer's session takes nothing
    link.flowed(0, 1, is_draining=False)
    broker.run(peer.now)
    assert len(link.outbox) == 1
    broker.tick(peer.now + 10)
    broker.run(peer.now + 10)
    assert (len(link.outbox), link.window.count) == (0, 1)
    other = other_of(peer)
    other.receiver("q")
    assert other.bodies() == ["1"]
