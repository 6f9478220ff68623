"""A link that asks for it is told which groups are no longer its own (`covey-group-revoked`)."""

from __future__ import annotations

from typing import Any

from proton import Link, Message, Receiver, symbol

from covey.config.queues import GroupSettings, QueueSettings
from covey.core.broker.broker import Broker
from covey.core.queue import policy
from covey.protocols.amqp.links.receiver_link import OutgoingLink
from tests.core.support import depth
from tests.protocols.amqp.peer import Peer, make_broker

ASKS: dict[symbol, Any] = {symbol("covey-group-revoked"): True}
NOTICE = symbol("x-opt-group-revoked")


def broker_of(**settings: Any) -> Broker:
    return make_broker(queue=(QueueSettings(groups=GroupSettings(**settings)),))


def send(broker: Broker, groups: str) -> None:
    peer = Peer(broker, container="sender")
    sender = peer.sender("q")
    for group in groups:
        peer.send(sender, Message(body=group, group_id=group))


def listener(peer: Peer, credit: int, properties: Any = ASKS, **modes: int) -> Receiver:
    link = peer.session.receiver("listener")
    link.source.address = "q"
    link.properties = properties
    for name, value in modes.items():
        setattr(link, name, value)
    link.open()
    link.flow(credit)
    peer.pump()
    return link


def told(peer: Peer) -> list[str]:
    annotated: list[dict[symbol, Any]] = [message.annotations or {} for _, message in peer.messages]
    return [each[NOTICE] for each in annotated if NOTICE in each]


def close(peer: Peer, group: str) -> None:
    policy.close_group(peer.broker.host.queues["q"], group, peer.now)
    peer.broker.run(peer.now)
    peer.pump()


def test_a_link_that_asks_is_told_and_the_notice_holds_nothing() -> None:
    peer = Peer(broker_of(strategy="simple"))
    send(peer.broker, "aab")
    listener(peer, 10)
    close(peer, "a")
    assert told(peer) == ["a"]
    delivery, notice = peer.messages[-1]
    assert notice.body is None
    assert delivery.settled  # so nothing is to be done with it
    for each, _ in peer.messages[:-1]:
        peer.settle(each)
    assert depth(peer.broker.host.queues["q"]) == 0
    assert peer.errors == []


def test_a_link_that_does_not_ask_is_told_nothing() -> None:
    for number, properties in enumerate((None, {symbol("covey-group-revoked"): False})):
        peer = Peer(broker_of(strategy="simple"), container=str(number))
        send(peer.broker, "aa")
        listener(peer, 10, properties)
        close(peer, "a")
        assert told(peer) == []


def test_a_notice_takes_a_credit_and_waits_for_one() -> None:
    peer = Peer(broker_of(strategy="simple"))
    send(peer.broker, "ab")
    link = listener(peer, 2)
    close(peer, "a")
    assert told(peer) == []
    link.flow(1)
    peer.pump()
    assert told(peer) == ["a"]
    assert link.credit == 0
    send(peer.broker, "b")
    assert len(peer.messages) == 3  # the notice has used the credit
    link.flow(1)
    peer.pump()
    assert peer.messages[-1][1].body == "b"


def test_credit_that_is_taken_back_frees_messages_before_a_notice() -> None:
    peer = Peer(broker_of(strategy="simple"))
    listener(peer, 0)
    (link,) = peer.engine.framing.channels[0].links.values()
    assert isinstance(link, OutgoingLink)
    link.channel.peer_window = 0  # the peer's session takes nothing
    link.flowed(0, 5, is_draining=False)
    send(peer.broker, "ab")
    policy.close_group(peer.broker.host.queues["q"], "a", peer.now)
    assert [entry is None for _, entry in link.outbox] == [False, False, True]
    link.flowed(0, 0, is_draining=False)
    assert [entry is None for _, entry in link.outbox] == [True]
    other = Peer(peer.broker, container="other")
    other.receiver("q")
    assert other.bodies() == ["a"]  # it did not stay in the outbox
    link.channel.peer_window = 100
    link.flowed(0, 1, is_draining=False)
    peer.pump()
    assert told(peer) == ["a"]


def test_a_presettled_link_and_a_long_name_in_small_frames() -> None:
    broker = broker_of(strategy="simple")
    peer = Peer(broker, max_frame_size=512)
    name = "n" * 1000
    sender = Peer(broker, container="sender")
    for number in range(2):
        sender.send(sender.sender("q", name=str(number)), Message(body="x", group_id=name))
    link = listener(peer, 1, snd_settle_mode=Link.SND_SETTLED)
    close(peer, name)
    link.flow(1)
    peer.pump()
    assert told(peer) == [name]
    link.flow(1)
    peer.pump()
    assert [message.body for _, message in peer.messages] == ["x", None, "x"]


def test_what_cannot_be_asked_for_is_refused() -> None:
    for properties, modes in (
        ({symbol("covey-group-revoked"): "perhaps"}, {}),
        (ASKS, {"snd_settle_mode": Link.SND_UNSETTLED}),  # a notice comes settled
    ):
        peer = Peer(broker_of(), container=str(modes))
        listener(peer, 1, properties, **modes)
        assert [error.name for error in peer.errors] == ["amqp:invalid-field"]


def test_a_producer_cannot_make_a_notice() -> None:
    peer = Peer(broker_of())
    forged = Message(body="x", group_id="a", annotations={NOTICE: "a"})
    peer.send(peer.sender("q"), forged)
    listener(peer, 5)
    assert peer.bodies() == ["x"]
    assert told(peer) == []


def test_a_claim_that_is_lost_by_its_deadline_is_told() -> None:
    queue = QueueSettings(delivery_deadline_s=10)
    peer = Peer(make_broker(queue=(queue,)))
    send(peer.broker, "aa")
    link = peer.session.receiver("one group")
    link.source.address = "q"
    link.source.filter.put_object({symbol("covey:group"): "a"})
    link.properties = ASKS
    link.open()
    link.flow(3)
    peer.pump()
    peer.now += 10
    peer.broker.tick(peer.now)
    peer.broker.run(peer.now)
    peer.pump()
    assert told(peer) == ["a"]
