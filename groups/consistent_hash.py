"""consistent-hash: the group's name alone decides, by a ring of the consumers present.

The message groups of the Apollo STOMP manual. Nothing is kept per group, so any number of groups
costs nothing. Every group has an owner as long as there is a consumer, so none is ever free, none
can be closed, and a join moves the newcomer's share to it at once (the queue's gate lets each
group drain first). After a join only groups that go to the newcomer move; after a leave only
those of the leaver.

Apollo has 10 points per consumer; its heaviest of 16 carries some 1.6 times its share. The
default here is 100 points, which brings that to 1.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from covey.groups.base import FREE, NO_GROUPS, NONE, GroupStrategy
from covey.groups.hash_ring import HashRing

POINTS_DEFAULT: Final = 100
"""Points of a consumer of weight 1: an even spread at 5 KB a consumer."""

POINTS_APOLLO: Final = 10
"""What Apollo gives each subscription."""

POINTS_MAX: Final = 1000
"""Most points of one consumer, whatever its weight: a join hashes and sorts them in one turn."""


class ConsistentHash(GroupStrategy):
    """A ring of consumers, each with `points` times its weight."""

    __slots__ = ("_ring", "points")

    name: ClassVar[str] = "consistent-hash"
    acts_on_close: ClassVar[bool] = False
    binds_by_rule: ClassVar[bool] = True
    wants_presence: ClassVar[bool] = False
    wants_drained: ClassVar[bool] = False

    def __init__(self, points: int = POINTS_DEFAULT) -> None:
        assert 1 <= points <= POINTS_MAX, f"a consumer has 1 to {POINTS_MAX} points, not {points}"
        self.points = points
        self._ring = HashRing()

    def owner(self, group: str, skip: frozenset[int] = NONE) -> int:
        """Give the consumer of the first point that is not to be skipped."""
        known = FREE if skip else self._ring.owners.get(group, FREE)  # asked for each message
        return known or self._ring.find(group, skip)

    def took(self, group: str, consumer: int) -> Sequence[str]:
        """Record nothing: the ring decides."""
        return NO_GROUPS

    def joined(self, consumer: int, weight: int) -> bool:
        """Put the consumer on the ring; any lane may be its own now."""
        if consumer in self._ring:
            return False
        self._ring.add(consumer, min(self.points * max(weight, 1), POINTS_MAX))
        return True

    def left(self, consumer: int) -> None:
        """Take the consumer off the ring."""
        if consumer in self._ring:
            self._ring.remove(consumer)

    def renamed(self, old: int, new: int) -> None:
        """Give the old consumer's points to the new one, in place of any it has."""
        if old in self._ring:
            self.left(new)
            self._ring.replace(old, new)

    def closed(self, group: str) -> None:
        """Change nothing: the name would hash to the same consumer again."""

    def reset(self) -> None:
        """Change nothing, for the same reason."""

    def load(self, consumer: int) -> int:
        """Give 0: no group is ever free, so there is nothing to spread."""
        return 0

    def tracked(self) -> int:
        """Count the points on the ring."""
        return len(self._ring)

    def describe(self) -> dict[str, int | str]:
        """Give the strategy and its points per consumer."""
        return {"strategy": self.name, "ring_points": self.points}
