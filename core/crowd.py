"""Crowd: how many connections there may be, and how many subscriptions each of them may have.

The limits are the broker's (`connections_max`, `connections_per_user_max`, `subscriptions_max`);
who is over one of them is told which.
"""

from __future__ import annotations

from collections.abc import Collection

from covey.config.settings import BrokerSettings
from covey.core.errors import RefusedError
from covey.core.security import Identity
from covey.core.session import Session


def check_connection(
    sessions: Collection[Session], identity: Identity, limits: BrokerSettings
) -> None:
    """Raise RefusedError if one more connection of this user is one too many."""
    if len(sessions) >= limits.connections_max:
        raise RefusedError(
            f"there are {limits.connections_max} connections already,"
            " the most that connections_max allows",
            "limit",
        )
    own_max = limits.connections_per_user_max
    if own_max and sum(one.identity.name == identity.name for one in sessions) >= own_max:
        raise RefusedError(
            f"user {identity.name} has {own_max} connections already,"
            " the most that connections_per_user_max allows",
            "limit",
        )


def check_subscription(session: Session, name: str, limits: BrokerSettings) -> None:
    """Raise RefusedError if the session has this subscription, or enough of them."""
    if name in session.subscriptions:
        raise RefusedError(f"subscription {name} exists already", "exists")
    if len(session.subscriptions) >= limits.subscriptions_max:
        raise RefusedError(
            f"the connection has {limits.subscriptions_max} subscriptions already,"
            " the most that subscriptions_max allows",
            "limit",
        )
