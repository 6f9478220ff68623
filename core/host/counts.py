"""Counts: how much a virtual host has of each kind, and how much of it is one user's.

Whoever wants one more than a setting allows is told which setting that is. `Made` counts queues and
topics for the user that made them. `Consumers` counts consumers for the user whose subscription has
them: one in each queue that it reads. So a subscription by pattern may have very many, and it may
get another whenever somebody makes a queue.
"""

from __future__ import annotations

from covey.config.settings import BrokerSettings
from covey.core.errors import RefusedError


class Shares:
    """How many of one kind each user has; a user who has none costs nothing."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def of(self, user: str) -> int:
        """Return how many a user has."""
        return self._counts.get(user, 0)

    def add(self, user: str) -> None:
        """Count one more of a user."""
        self._counts[user] = self._counts.get(user, 0) + 1

    def discard(self, user: str) -> None:
        """Count one less of a user."""
        left = self._counts[user] - 1
        if left:
            self._counts[user] = left
        else:
            del self._counts[user]


class Made:
    """Who has made how many of the destinations of one kind, since the start."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._maker: dict[str, str] = {}  # by the destination's name
        self._shares = Shares()

    def check(self, count: int, maker: str, most: int, own_most: int) -> None:
        """Raise RefusedError if there are too many for one more, in all or of this maker.

        What the broker itself makes (at a start, a dead-letter queue) is never refused.
        """
        if maker and count >= most:
            raise RefusedError(
                f"there are {count} {self.kind} already, the most that {self.kind}_max allows",
                "limit",
            )
        if maker and self._shares.of(maker) >= own_most:
            raise RefusedError(
                f"user {maker} has made {own_most} {self.kind} already, the most that"
                f" {self.kind}_per_user_max allows",
                "limit",
            )

    def add(self, name: str, maker: str) -> None:
        """Count a destination for its maker; "" is the broker itself."""
        if maker:
            self._maker[name] = maker
            self._shares.add(maker)

    def discard(self, name: str) -> None:
        """Count a destination no more."""
        maker = self._maker.pop(name, "")
        if maker:
            self._shares.discard(maker)


class Consumers:
    """How many consumers there are in the queues of a virtual host, and whose they are."""

    def __init__(self) -> None:
        self.count = 0
        self._shares = Shares()

    def of(self, user: str) -> int:
        """Return how many consumers the subscriptions of a user have."""
        return self._shares.of(user)

    def check(self, user: str, limits: BrokerSettings) -> None:
        """Raise RefusedError if there are too many for one more, in all or of this user."""
        if self.count >= limits.consumers_max:
            raise RefusedError(
                f"there are {self.count} consumers already, the most that consumers_max allows",
                "limit",
            )
        own = self._shares.of(user)
        if own >= limits.consumers_per_user_max:
            raise RefusedError(
                f"user {user} has {own} consumers already, the most that consumers_per_user_max"
                " allows",
                "limit",
            )

    def add(self, user: str) -> None:
        """Count a consumer of a user."""
        self.count += 1
        self._shares.add(user)

    def discard(self, user: str) -> None:
        """Count a consumer no more."""
        self.count -= 1
        self._shares.discard(user)
