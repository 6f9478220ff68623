"""How many may be there, and which setting says so."""

from __future__ import annotations

import pytest

from covey.config.settings import BrokerSettings
from covey.core.errors import RefusedError
from covey.core.host.access import check_connection, check_subscription
from covey.core.security.users import Identity
from tests.core.double import Room


def test_connections_are_counted_in_all_and_by_user() -> None:
    room = Room()
    sessions = [room.enter(name).session for name in ("ann", "ann", "bob")]
    limits = BrokerSettings(connections_max=4, connections_per_user_max=2)
    check_connection(sessions, Identity("bob"), limits)
    with pytest.raises(RefusedError, match="user ann has 2 connections already"):
        check_connection(sessions, Identity("ann"), limits)
    with pytest.raises(RefusedError, match="there are 3 connections already"):
        check_connection(sessions, Identity("bob"), BrokerSettings(connections_max=3))


def test_no_limit_of_its_own_for_a_user_by_default() -> None:
    room = Room()
    sessions = [room.enter("ann").session for _ in range(50)]
    check_connection(sessions, Identity("ann"), BrokerSettings())


def test_a_subscriptions_name_is_its_own() -> None:
    person = Room().enter()
    person.read("/queue/a", "s")
    with pytest.raises(RefusedError, match="subscription s exists already"):
        check_subscription(person.session, "s", BrokerSettings())
    check_subscription(person.session, "t", BrokerSettings(subscriptions_max=2))
    with pytest.raises(RefusedError, match="subscriptions_max"):
        check_subscription(person.session, "t", BrokerSettings(subscriptions_max=1))
