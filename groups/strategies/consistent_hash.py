# Compiled by mypyc: see setup.py.
"""consistent-hash: a group's owner follows from its name and a ring of the consumers present.

These are the message groups of the Apollo STOMP manual. Nothing is kept per group, so any number of
groups costs nothing. Every group has an owner as long as there is a consumer. So no group is ever
free, and none can be closed. A join moves the newcomer's share to it at once; the queue's gate lets
each group drain first. After a join only groups that go to the newcomer move. After a leave only
groups of the leaver move.

Apollo has 10 points per consumer. Of 16 consumers, the one with most groups has some 1.6 times its
share. The default here is 100 points, which brings that to 1.2.

`HashRing` is the ring: points of consumers on a circle, found by bisection. A key belongs to the
first point at or after its own position, wrapping at the top. A consumer has many points, so that
all shares are about equal. When a consumer leaves, its share falls to many others.

    points   [ position (64 bits) | consumer (48 bits) ] as one number each, sorted

One number per point keeps the list flat and makes a search one bisection. It also gives points on
the same position an order that does not depend on who came first. Joining adds points and leaving
removes them, and nothing else moves.

A wide subscription may read very many queues, most of which have no groups. So the points of the
first consumers are put on the circle when somebody looks. And each queue numbers its consumers from
1, so rings share the numbers of the points that were made last: 8 bytes each instead of 48.

Positions come from blake2b. Python's own hash differs from process to process: a run could not be
repeated, and tools outside the broker could not compute an owner. A CRC is linear: names that
differ in a digit would lie in patterns on the circle.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import ClassVar, Final

from covey.groups.strategy import (
    FREE,
    NO_GROUPS,
    NONE,
    GroupStrategy,
    Option,
    StrategyEntry,
    Values,
)

CONSUMER_BITS: Final = 48
"""Room for a million new consumers a second during eight years."""

CONSUMER_MASK: Final = (1 << CONSUMER_BITS) - 1

POSITIONS_KEPT: Final = 8192
"""Positions remembered in the process, under 2 MB: a live group is asked for again and again."""

OWNERS_KEPT: Final = 8192
"""Answers remembered per ring, under 1 MB: a group that empties and fills asks each time."""

POSITION_BYTES: Final = 8
"""64 bits: two of a million points meet once in some 40 million rings."""

LEFT_SPARED: Final = 16
"""Consumers that have left and keep their points, beyond as many as stay."""

COMING_MAX: Final = 16
"""Consumers without points until somebody looks: that takes some 2 ms at once."""

SHARED_MAX: Final = 128
"""Consumers whose points rings share, at 5 KB each."""


class HashRing:
    """Consumers on a circle of 2 ** 64 positions."""

    __slots__ = ("_coming", "_consumers", "_is_sorted", "_left", "_points", "owners")

    def __init__(self) -> None:
        self._points: list[int] = []
        self._is_sorted = True
        self._coming: dict[int, None] = {}  # consumers whose points are not there yet
        self._left: dict[int, None] = {}  # consumers whose points are still there
        self._consumers: dict[int, int] = {}  # with how many points each has
        self.owners: dict[str, int] = {}  # answers of `find`, good until the ring changes

    def __contains__(self, consumer: int) -> bool:
        return consumer in self._consumers

    def __len__(self) -> int:
        return sum(self._consumers.values())

    def add(self, consumer: int, count: int) -> None:
        """Put `count` points of a new consumer on the circle."""
        assert 0 < consumer <= CONSUMER_MASK, f"consumer {consumer} has no place on the ring"
        assert consumer not in self._consumers, f"consumer {consumer} is on the ring already"
        if consumer in self._left:
            self._in_order()
        self._consumers[consumer] = count
        self.owners.clear()
        self._coming[consumer] = None
        if len(self._coming) > COMING_MAX:
            self._let_come()

    def remove(self, consumer: int) -> None:
        """Take the consumer's points away."""
        self._consumers.pop(consumer, 0)
        self.owners.clear()
        if consumer in self._coming:
            del self._coming[consumer]
            return
        self._left[consumer] = None
        if len(self._left) > len(self._consumers) + LEFT_SPARED:
            self._in_order()  # or consumers that come and go would leave their points for ever

    def _in_order(self) -> list[int]:
        """Return the points in order, without those of consumers that have left.

        Both are done when somebody looks: very many consumers may come or go in a row. One sort is
        cheap, since most is in order. Each single insert would move half the list.
        """
        if self._left:
            left = self._left
            self._points = [one for one in self._points if one & CONSUMER_MASK not in left]
            self._left = {}
        if self._coming:
            self._let_come()
        if not self._is_sorted:
            self._points.sort()
            self._is_sorted = True
        return self._points

    def _let_come(self) -> None:
        for consumer in self._coming:
            self._points += points_of(consumer, self._consumers[consumer])
        self._coming.clear()
        self._is_sorted = False

    def replace(self, old: int, new: int) -> None:
        """Give the points of `old` to `new`, which must not be on the ring; no other key moves."""
        assert new not in self._consumers, f"consumer {new} is on the ring already"
        points = self._in_order()
        self._consumers[new] = self._consumers.pop(old)
        self.owners.clear()
        for i, point in enumerate(points):
            if point & CONSUMER_MASK == old:
                points[i] = point ^ old ^ new
        self._is_sorted = False

    def find(self, key: str, skip: frozenset[int] = NONE) -> int:
        """Return the first consumer clockwise of the key that is not to be skipped, else 0."""
        if not skip:
            return self.owners.get(key, FREE) or self._look_up(key)
        points = self._in_order()
        start = bisect_left(points, position(key) << CONSUMER_BITS)
        for i in range(start, start + len(points)):
            consumer = points[i % len(points)] & CONSUMER_MASK
            if consumer not in skip:
                return consumer
        return FREE

    def _look_up(self, key: str) -> int:
        points = self._in_order()
        if not points:
            return FREE
        start = bisect_left(points, position(key) << CONSUMER_BITS)
        found = points[start if start < len(points) else 0] & CONSUMER_MASK
        if len(self.owners) >= OWNERS_KEPT:
            self.owners.clear()
        self.owners[key] = found
        return found


@lru_cache(SHARED_MAX)
def points_of(consumer: int, count: int) -> list[int]:
    """Return the points of a consumer that has so many; the caller must not change the list."""
    return [_position(f"{consumer}:{i}") << CONSUMER_BITS | consumer for i in range(count)]


@lru_cache(POSITIONS_KEPT)
def position(text: str) -> int:
    """Return the place of a text on the circle, the same in every process."""
    return _position(text)


def _position(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=POSITION_BYTES).digest()
    return int.from_bytes(digest, "big")


POINTS_DEFAULT: Final = 100
"""Points of a consumer of weight 1: an even spread at 5 KB a consumer."""

POINTS_APOLLO: Final = 10
"""What Apollo gives each subscription."""

POINTS_MAX: Final = 1000
"""Most points of one consumer, whatever its weight: a join hashes and sorts them in one turn."""


class ConsistentHash(GroupStrategy):
    """A ring of consumers, each with `points` times its weight."""

    __slots__ = ("_ring", "points", "spilled")

    name: ClassVar[str] = "consistent-hash"
    acts_on_close: ClassVar[bool] = False
    binds_by_rule: ClassVar[bool] = True
    wants_presence: ClassVar[bool] = False
    wants_drained: ClassVar[bool] = False

    def __init__(self, points: int = POINTS_DEFAULT) -> None:
        assert 1 <= points <= POINTS_MAX, f"a consumer has 1 to {POINTS_MAX} points, not {points}"
        self.points = points
        self._ring = HashRing()
        self.spilled: dict[str, int] = {}  # who has groups, until they are empty, against the ring

    def owner(self, group: str, skip: frozenset[int] = NONE) -> int:
        """Return the consumer of the first point that is not to be skipped."""
        known = FREE if skip else self._ring.owners.get(group, FREE)  # asked for each message
        if known == FREE and self.spilled:
            kept = self.spilled.get(group, FREE)
            if kept != FREE and kept not in skip:
                return kept
        return known or self._ring.find(group, skip)

    def spill(self, group: str, consumer: int) -> None:
        """Give a group to another consumer until the group is empty."""
        self.spilled[group] = consumer
        self._ring.owners.pop(group, None)

    def vanished(self, group: str) -> None:
        """Let the ring decide again about a group that had been spilled."""
        self.spilled.pop(group, None)

    def took(self, group: str, consumer: int) -> Sequence[str]:
        """Record nothing: the ring decides."""
        return NO_GROUPS

    def joined(self, consumer: int, weight: int) -> bool:
        """Put the consumer on the ring; it may own any lane now, so all are asked."""
        if consumer in self._ring:
            return False
        self._ring.add(consumer, min(self.points * max(weight, 1), POINTS_MAX))
        return True

    def left(self, consumer: int) -> None:
        """Take the consumer off the ring."""
        if consumer in self._ring:
            self._ring.remove(consumer)
        if self.spilled:
            kept = self.spilled.items()
            self.spilled = {group: one for group, one in kept if one != consumer}

    def renamed(self, old: int, new: int) -> None:
        """Give the old consumer's points to the new one, which loses its own."""
        if old in self._ring:
            self.left(new)
            self._ring.replace(old, new)
            for group, consumer in self.spilled.items():
                if consumer == old:
                    self.spilled[group] = new

    def closed(self, group: str) -> None:
        """Change nothing: the name would hash to the same consumer again."""

    def reset(self) -> None:
        """Change nothing, for the same reason."""

    def load(self, consumer: int) -> int:
        """Return 0: no group is ever free, so there is nothing to share out."""
        return 0

    def tracked(self) -> int:
        """Return how many points are on the ring."""
        return len(self._ring)

    def describe(self) -> dict[str, int | str]:
        """Return the strategy and its points per consumer."""
        return {"strategy": self.name, "ring_points": self.points}


def make_consistent_hash(values: Values) -> ConsistentHash:
    """Build one with so many points for each consumer."""
    return ConsistentHash(values["ring_points"])


ENTRY: Final[StrategyEntry] = StrategyEntry(
    "consistent-hash",
    "a group belongs to the next consumer on a ring, and nothing is remembered",
    make_consistent_hash,
    options=(
        Option(
            "ring_points",
            POINTS_DEFAULT,
            1,
            POINTS_MAX,
            "points of each consumer on the ring; more is more even and slower to join",
            "--ring-points",
        ),
    ),
    aliases=("hash-ring",),
    profiles={"apollo": {"ring_points": POINTS_APOLLO}},
    planned_sizes=(POINTS_APOLLO, POINTS_DEFAULT),
)
