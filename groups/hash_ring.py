"""HashRing: points of consumers on a circle, found by bisection.

A key belongs to the first point at or after its own position, wrapping at the top. A consumer has
many points, so that its share is even and, when it leaves, falls to many others.

    points   [ position (64 bits) | consumer (48 bits) ] as one number each, sorted

One number per point keeps the list flat, makes a search one bisection and gives points on the
same position an order that does not depend on who came first. Joining adds points and leaving
removes them, and nothing else moves: a key changes hands only to the one who joined or from the
one who left.

Positions come from blake2b: Python's own hash differs from process to process, so that a run
could not be repeated and tools outside the broker could not compute an owner; a CRC is linear,
and names that differ in a digit would lie in patterns on the circle.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from covey.groups.base import FREE, NONE

CONSUMER_BITS: Final = 48
"""Room for a million new consumers a second during eight years."""

CONSUMER_MASK: Final = (1 << CONSUMER_BITS) - 1

POSITIONS_KEPT: Final = 8192
"""Positions remembered in the process, under 2 MB: a live group is asked for again and again."""

OWNERS_KEPT: Final = 8192
"""Answers remembered per ring, under 1 MB: a group that empties and fills asks each time."""

POSITION_BYTES: Final = 8
"""64 bits: two of a million points meet once in some 40 million rings."""


class HashRing:
    """Consumers on a circle of 2 ** 64 positions."""

    __slots__ = ("_consumers", "_points", "owners")

    def __init__(self) -> None:
        self._points: list[int] = []
        self._consumers: set[int] = set()
        self.owners: dict[str, int] = {}  # answers of `find`, good until the ring changes

    def __contains__(self, consumer: int) -> bool:
        return consumer in self._consumers

    def __len__(self) -> int:
        return len(self._points)

    def add(self, consumer: int, count: int) -> None:
        """Put `count` points of a new consumer on the circle."""
        assert 0 < consumer <= CONSUMER_MASK, f"consumer {consumer} has no place on the ring"
        assert consumer not in self._consumers, f"consumer {consumer} is on the ring already"
        self._consumers.add(consumer)
        self.owners.clear()
        for i in range(count):
            self._points.append(position(f"{consumer}:{i}") << CONSUMER_BITS | consumer)
        # Sorted runs are merged in linear time; inserting one by one would move the list each time.
        self._points.sort()

    def remove(self, consumer: int) -> None:
        """Take the consumer's points away."""
        self._consumers.discard(consumer)
        self.owners.clear()
        self._points = [point for point in self._points if point & CONSUMER_MASK != consumer]

    def replace(self, old: int, new: int) -> None:
        """Give the points of `old` to `new`, which must not be on the ring; no other key moves."""
        assert new not in self._consumers, f"consumer {new} is on the ring already"
        self._consumers.discard(old)
        self._consumers.add(new)
        self.owners.clear()
        for i, point in enumerate(self._points):
            if point & CONSUMER_MASK == old:
                self._points[i] = point ^ old ^ new
        self._points.sort()

    def find(self, key: str, skip: frozenset[int] = NONE) -> int:
        """Give the first consumer clockwise of the key that is not to be skipped, else 0."""
        if not skip:
            return self.owners.get(key, FREE) or self._look_up(key)
        points = self._points
        start = bisect_left(points, position(key) << CONSUMER_BITS)
        for i in range(start, start + len(points)):
            consumer = points[i % len(points)] & CONSUMER_MASK
            if consumer not in skip:
                return consumer
        return FREE

    def _look_up(self, key: str) -> int:
        points = self._points
        if not points:
            return FREE
        start = bisect_left(points, position(key) << CONSUMER_BITS)
        found = points[start if start < len(points) else 0] & CONSUMER_MASK
        if len(self.owners) >= OWNERS_KEPT:
            self.owners.clear()
        self.owners[key] = found
        return found


@lru_cache(POSITIONS_KEPT)
def position(text: str) -> int:
    """Give the place of a text on the circle, the same in every process."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=POSITION_BYTES).digest()
    return int.from_bytes(digest, "big")
