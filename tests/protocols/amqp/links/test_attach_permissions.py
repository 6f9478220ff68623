"""Permissions on AMQP links: asked at the attach, before anything is made or shown."""

from __future__ import annotations

import pytest
from proton import Message, symbol
from pydantic import SecretStr

from covey.config.settings import AmqpSettings, PermissionSettings, UserSettings
from covey.core.broker.broker import Broker
from tests.core.support import depth
from tests.protocols.amqp.peer import Peer, make_broker

DENIED = "amqp:unauthorized-access"
PLAIN = AmqpSettings(sasl_mechanisms=("PLAIN",))


def make(*rules: tuple[str, str]) -> Broker:
    """Return a broker where ann may do these verbs on these patterns, beside to connect."""
    users = (UserSettings(name="ann", password=SecretStr("x")),)
    broker = make_broker(user=users)
    broker.host.queue("secret")
    broker.host.topic("news")
    given = (("connect", "**"), *rules)
    entries = [
        PermissionSettings.model_validate({"who": "ann", "may": may.split(","), "on": on})
        for may, on in given
    ]
    broker.users.apply(users, entries)
    return broker


def ann(broker: Broker) -> Peer:
    return Peer(broker, PLAIN, login=("ann", "x"))


def test_a_login_needs_connect() -> None:
    broker = make()
    rule = PermissionSettings(who=("bob",), may=("connect",))
    broker.users.apply((UserSettings(name="ann", password=SecretStr("x")),), (rule,))
    assert ann(broker).conditions == [DENIED]


@pytest.mark.parametrize("address", ["secret", "queue://secret", "/queue/secret", "/queues/secret"])
def test_a_sender_is_refused_at_the_attach(address: str) -> None:
    peer = ann(make(("consume", "**")))
    peer.sender(address)
    assert peer.conditions == [DENIED]


@pytest.mark.parametrize("address", ["secret", "/queue/secret", "/topic/news", "news.*"])
def test_a_receiver_is_refused_at_the_attach(address: str) -> None:
    peer = ann(make(("send", "**")))
    peer.receiver(address)
    assert peer.conditions == [DENIED]


@pytest.mark.parametrize("policy", ["{create: always}", "{assert: always}", "{delete: always}"])
def test_an_address_string_tells_nothing_of_what_one_may_not_use(policy: str) -> None:
    broker = make(("create", "queue:open"))
    peer = ann(broker)
    for name in ("secret", "absent"):
        peer.receiver(f"{name}; {policy}", name=name)
        peer.sender(f"{name}; {policy}", name=f"to {name}")
    assert peer.conditions == [DENIED] * 4
    assert list(broker.host.queues) == ["secret"]


def test_first_use_needs_create() -> None:
    broker = make(("send,consume", "**"))
    peer = ann(broker)
    peer.receiver("new")
    peer.receiver("/topic/new", name="t")
    assert peer.conditions == [DENIED] * 2
    assert list(broker.host.queues) == ["secret"]


def test_a_message_of_the_anonymous_relay_is_checked_by_its_own_address() -> None:
    broker = make(("send,create", "queue:open"))
    peer = ann(broker)
    relay = peer.sender(None)
    for to in ("open", "secret", "open,secret"):
        peer.send(relay, Message(body="x", address=to))
    counts = {name: depth(queue) for name, queue in broker.host.queues.items()}
    assert counts == {"secret": 0, "open": 1}


def test_a_dynamic_node_needs_create_on_temporary_names() -> None:
    refused = ann(make(("consume", "**")))
    refused.receiver(None, dynamic=True)
    assert refused.conditions == [DENIED]
    peer = ann(make(("create,consume", "queue:temp.**")))
    assert peer.receiver(None, dynamic=True).remote_source.address
    assert peer.conditions == []


def test_a_closed_durable_subscription_stays_for_who_may_not_destroy() -> None:
    for verbs, is_kept in (("create,consume", True), ("create,consume,destroy", False)):
        broker = make((verbs, "**"))
        peer = ann(broker)
        link = peer.receiver("/topic/news", name="d", durable=True)
        assert peer.conditions == []
        assert len(broker.host.durables) == 1
        link.close()
        peer.pump()
        assert bool(broker.host.durables) == is_kept


def test_a_shared_subscription_needs_a_right_to_its_name() -> None:
    peer = ann(make(("consume", "topic:**")))
    peer.receiver("/topic/news", name="d", capabilities=[symbol("shared"), symbol("global")])
    assert peer.conditions == [DENIED]
