"""Durable subscriptions of AMQP: what a change does to them, who may end them, and no-local."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Described, Message, symbol

from covey.core.broker.broker import Broker
from tests.core.support import depth
from tests.protocols.amqp.peer import Peer, make_broker

GLOBAL = ("topic", "shared", "global")


@pytest.fixture
def broker() -> Broker:
    return make_broker()


def selecting(text: str) -> dict[Any, Any]:
    return {symbol("s"): Described(symbol("apache.org:selector-filter:string"), text)}


def no_local() -> dict[Any, Any]:
    return {symbol("n"): Described(symbol("apache.org:no-local-filter:list"), [])}


def subscribe(broker: Broker, address: str = "/topic/t", **options: Any) -> Peer:
    """Return a client that has a durable subscription called `sub`."""
    peer = Peer(broker, container="c")
    peer.receiver(address, name="sub", durable=True, **options)
    return peer


def publish(broker: Broker, *bodies: str, address: str = "/topic/t", container: str = "p") -> None:
    peer = Peer(broker, container=container)
    sender = peer.sender(address)
    for body in bodies:
        peer.send(sender, Message(body=body, properties={"n": 1}))
    peer.lose()


def heard(peer: Peer) -> list[Any]:
    """Return what a client has got by now."""
    peer.pump()
    return peer.bodies()


def backlog(broker: Broker) -> int:
    (durable,) = broker.host.durables.values()
    return depth(durable.queue)


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("/topic/t", {"filters": selecting("n = 2")}),
        ("/topic/t", {}),
        ("/topic/t", {"filters": selecting("n = 1") | no_local()}),
        ("/topic/u", {"filters": selecting("n = 1")}),
    ],
)
def test_a_change_is_the_end_of_a_subscription_and_a_new_one(
    broker: Broker, address: str, options: dict[str, Any]
) -> None:
    subscribe(broker, filters=selecting("n = 1")).lose()
    publish(broker, "1", "2")
    assert backlog(broker) == 2
    peer = subscribe(broker, address, **options)
    assert heard(peer) == [] and backlog(broker) == 0
    peer.lose()
    assert [str(each.destinations[0]) for each in broker.host.durables.values()] == [
        f"topic:{address.removeprefix('/topic/')}"
    ]


def test_what_was_not_changed_keeps_its_backlog(broker: Broker) -> None:
    subscribe(broker, filters=no_local()).lose()
    publish(broker, "1", "2")
    assert heard(subscribe(broker, filters=no_local())) == ["1", "2"]


def test_a_subscription_in_use_is_not_changed(broker: Broker) -> None:
    peer = Peer(broker, container="c")
    peer.receiver("t", name="sub|1", durable=True, capabilities=GLOBAL)
    peer.receiver("u", name="sub|2", durable=True, capabilities=GLOBAL)
    assert peer.conditions == ["amqp:resource-locked"]
    publish(broker, "1")
    assert heard(peer) == ["1"]


def test_ending_a_subscription_that_others_use_is_refused(broker: Broker) -> None:
    user = Peer(broker, container="a")
    user.receiver("t", name="sub|1", durable=True, capabilities=GLOBAL)
    ender = Peer(broker, container="b")
    link = ender.receiver(None, name="sub", credit=0)
    link.close()
    ender.pump()
    assert ender.conditions == ["amqp:resource-locked"]
    publish(broker, "1")
    assert heard(user) == ["1"]
    user.lose()
    link = ender.receiver(None, name="sub|again", credit=0)
    link.close()
    ender.pump()
    assert not broker.host.durables and len(ender.errors) == 1


def test_closing_one_of_two_shared_links_says_that_the_other_keeps_it(broker: Broker) -> None:
    peer = Peer(broker)
    links = [
        peer.receiver("t", name=f"sub|{each}", durable=True, capabilities=GLOBAL)
        for each in range(2)
    ]
    links[0].close()
    peer.pump()
    assert peer.conditions == ["amqp:resource-locked"]
    links[1].close()
    peer.pump()
    assert len(peer.errors) == 1 and not broker.host.durables


def test_an_attach_without_a_source_tells_the_topic_as_it_is_called(broker: Broker) -> None:
    peer = Peer(broker)
    peer.receiver("amq.topic", name="sub|1", durable=True, capabilities=GLOBAL).detach()
    peer.pump()
    source = peer.receiver(None, name="sub|1", credit=0).remote_source
    assert source.address == "amq.topic"
    source.capabilities.rewind()
    source.capabilities.next()
    assert "topic" in str(source.capabilities.get_object())


# No-local.


def test_no_local_holds_for_a_durable_subscription(broker: Broker) -> None:
    peer = subscribe(broker, filters=no_local())
    peer.send(peer.sender("/topic/t"), "own")
    publish(broker, "own, too", container="c")
    publish(broker, "1")
    assert heard(peer) == ["1"]
    peer.lose()
    publish(broker, "own", container="c")
    publish(broker, "2")
    assert backlog(broker) == 2  # the first was not settled


def test_no_local_is_not_echoed_where_it_does_not_hold(broker: Broker) -> None:
    peer = Peer(broker)
    link = peer.receiver("q", filters=selecting("n = 1") | no_local())
    data = link.remote_source.filter
    data.rewind()
    data.next()
    assert list(data.get_object()) == ["s"]
