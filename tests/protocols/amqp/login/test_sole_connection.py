"""Containers that want to have one connection at a time."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Connection, symbol, uint

from covey.core.broker.broker import Broker
from tests.protocols.amqp.peer import Peer, make_broker

SOLE = symbol("sole-connection-for-container")
ENFORCEMENT = "sole-connection-enforcement-policy"
REFUSE, CLOSE_EXISTING = 0, 1
FAILED = "amqp:connection-establishment-failed"


class Sole(Peer):
    """A client that desires to be its container's only connection."""

    def __init__(self, broker: Broker, policy: int | None = None, **options: Any) -> None:
        self.policy = policy
        super().__init__(broker, **options)

    def prepare(self, connection: Connection) -> None:
        connection.desired_capabilities = [SOLE]
        if self.policy is not None:
            connection.properties = {ENFORCEMENT: uint(self.policy)}

    @property
    def answer(self) -> dict[str, object]:
        """Return the properties of the broker's open."""
        found: Any = self.connection.remote_properties
        return {str(name): value for name, value in found.items()}


@pytest.fixture
def broker() -> Broker:
    return make_broker()


def test_the_capability_is_offered_and_the_policy_told(broker: Broker) -> None:
    peer = Sole(broker)
    assert SOLE in (peer.connection.remote_offered_capabilities or ())
    assert peer.answer[ENFORCEMENT] == REFUSE
    assert peer.answer["sole-connection-detection-policy"] == 1
    assert ENFORCEMENT not in Plain(broker).answer


class Plain(Sole):
    """A client that does not mind others."""

    def prepare(self, connection: Connection) -> None:
        pass


@pytest.mark.parametrize("policy", [None, REFUSE])
@pytest.mark.parametrize("second", [None, REFUSE, CLOSE_EXISTING])
def test_a_second_connection_is_refused(
    broker: Broker, policy: int | None, second: int | None
) -> None:
    first = Sole(broker, policy)
    other = Sole(broker, second)
    (error,) = other.errors
    assert error.name == "amqp:invalid-field"
    assert error.info == {symbol("invalid-field"): symbol("container-id")}
    info: Any = error.info
    assert [type(each) for each in info.values()] == [symbol]
    assert other.answer[FAILED] is True
    assert other.engine.is_closed
    assert not first.errors and FAILED not in first.answer
    assert len(broker.sessions) == 1


@pytest.mark.parametrize("second", [REFUSE, CLOSE_EXISTING])
def test_a_second_connection_replaces_one_that_yields(broker: Broker, second: int) -> None:
    first = Sole(broker, CLOSE_EXISTING)
    other = Sole(broker, second)
    first.pump()
    (error,) = first.errors
    assert error.name == "amqp:resource-locked"
    assert error.info == {symbol("sole-connection-enforcement"): True}
    assert other.answer[ENFORCEMENT] == second and not other.errors
    # Now the second one's policy holds.
    third = Sole(broker, CLOSE_EXISTING)
    assert third.conditions == (["amqp:invalid-field"] if second == REFUSE else [])


def test_a_container_is_free_again_when_its_connection_has_ended(broker: Broker) -> None:
    Sole(broker).lose()
    peer = Sole(broker)
    assert not peer.errors
    peer.connection.close()
    peer.pump()
    assert not Sole(broker).errors
    assert len(broker.claims) == 1


def test_others_are_left_alone(broker: Broker) -> None:
    peers = [Plain(broker), Sole(broker), Plain(broker), Sole(broker, container="other")]
    assert not any(peer.errors for peer in peers)


def test_users_and_hosts_do_not_share_containers() -> None:
    users = ({"name": "ann", "password": "a"}, {"name": "bob", "password": "b"})
    broker = make_broker(user=users)
    peers = [Sole(broker, login=("ann", "a")), Sole(broker, login=("bob", "b"))]
    assert not any(peer.errors for peer in peers)


def test_an_open_that_is_refused_for_another_reason_says_so_at_once(broker: Broker) -> None:
    peer = Plain(broker, hostname="nowhere")
    assert peer.conditions == ["amqp:not-found"]
    assert peer.answer[FAILED] is True
