"""Who owns a group, said again in the plainest way: one small table per strategy.

These are the referee's own maps. They follow the pages the strategies follow (Qpid's shared
groups, ActiveMQ's three maps, Apollo's ring) and share no code with `covey.groups` but its two
hashes, which have tests of their own. Whatever can be looked up by walking a list is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection

from covey.groups.strategies.consistent_hash import position
from covey.groups.strategies.hash_buckets import bucket_of

BUCKETS = 3
CACHE_SIZE = 2
RING_POINTS = 3
STRICT = "-strict"


class Ownership(ABC):
    """The memory of one strategy; 0 is nobody."""

    acts_on_close = True
    is_rule = False  # the rule names an owner, nobody has to take the group first
    frees_when_drained = False

    def __init__(self) -> None:
        self.consumers: list[int] = []
        self.handed: set[str] = set()  # units whose owner has had nothing of them yet

    def joined(self, consumer: int, weight: int) -> None:
        self.consumers.append(consumer)

    def rejoined(self, consumer: int, weight: int) -> None:
        """It comes back under its old number, and owns nothing."""
        if consumer not in self.consumers:
            self.joined(consumer, weight)

    def unit_of(self, group: str) -> str:
        """What moves with the group."""
        return group

    def owner_of(self, unit: str) -> int:
        """Whose a unit is, if that is remembered."""
        return 0

    def hand(self, unit: str, consumer: int) -> None:
        """A rebalance gives it to another."""
        raise AssertionError("a rule has nothing to give")

    def spilled(self, group: str, consumer: int) -> None:
        """The group leaves an owner that has no credit."""
        self.hand(self.unit_of(group), consumer)

    @abstractmethod
    def left(self, consumer: int) -> None: ...

    @abstractmethod
    def renamed(self, old: int, new: int) -> None: ...

    @abstractmethod
    def owner(self, group: str, among: Collection[int] | None = None) -> int:
        """Give the owner, or with `among` the one of those who would be."""

    @abstractmethod
    def took(self, group: str, consumer: int) -> None: ...

    @abstractmethod
    def closed(self, group: str, present: Collection[str]) -> None: ...

    @abstractmethod
    def reset(self) -> None: ...

    def appeared(self, group: str) -> None:  # noqa: B027 - only lru minds
        """The group has its first message."""

    def vanished(self, group: str) -> None:  # noqa: B027 - most keep the owner
        """The group has no message any more."""

    def delivered(self, group: str) -> None:  # noqa: B027 - only the strict lru minds
        """A message of the group went out."""


class Remembered(Ownership):
    """simple: whoever took it, until it leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[str, int] = {}

    def key(self, group: str) -> str:
        return group

    def left(self, consumer: int) -> None:
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        for key in [key for key, owner in self.owners.items() if owner == consumer]:
            self.forget(key)

    def renamed(self, old: int, new: int) -> None:
        if old in self.consumers:
            self.consumers.remove(old)
        for key, owner in self.owners.items():
            if owner == old:
                self.owners[key] = new

    def owner(self, group: str, among: Collection[int] | None = None) -> int:
        owner = self.owners.get(self.key(group), 0)
        return owner if among is None or owner in among else 0

    def took(self, group: str, consumer: int) -> None:
        self.owners[self.key(group)] = consumer

    def owner_of(self, unit: str) -> int:
        return self.owners.get(unit, 0)

    def hand(self, unit: str, consumer: int) -> None:
        self.owners[unit] = consumer
        self.handed.add(unit)

    def closed(self, group: str, present: Collection[str]) -> None:
        self.forget(group)

    def reset(self) -> None:
        for key in list(self.owners):
            self.forget(key)

    def forget(self, key: str) -> None:
        self.owners.pop(key, None)
        self.handed.discard(key)


class SharedOwnership(Remembered):
    """shared: whoever holds messages of it."""

    frees_when_drained = True

    def vanished(self, group: str) -> None:
        self.forget(group)


class LruOwnership(Remembered):
    """lru: as simple, but beyond the size the longest idle group is forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.idle: list[str] = []

    def took(self, group: str, consumer: int) -> None:
        super().took(group, consumer)
        self._trim()

    def appeared(self, group: str) -> None:
        if group in self.idle:
            self.idle.remove(group)

    def vanished(self, group: str) -> None:
        if group in self.owners:
            self.idle.append(group)
            self._trim()

    def forget(self, key: str) -> None:
        super().forget(key)
        if key in self.idle:
            self.idle.remove(key)

    def _trim(self) -> None:
        while len(self.owners) > CACHE_SIZE and self.idle:
            self.forget(self.idle[0])


class StrictLruOwnership(Remembered):
    """lru as ActiveMQ does it: beyond the size the least recently delivered group is forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.used: list[str] = []

    def took(self, group: str, consumer: int) -> None:
        super().took(group, consumer)
        while len(self.owners) > CACHE_SIZE:
            self.forget(self.used[0])
        self.used.append(group)

    def delivered(self, group: str) -> None:
        if group in self.used:
            self.used.remove(group)
            self.used.append(group)

    def forget(self, key: str) -> None:
        super().forget(key)
        if key in self.used:
            self.used.remove(key)


class BucketOwnership(Remembered):
    """hash-buckets: as simple, by bucket."""

    def key(self, group: str) -> str:
        return str(bucket_of(group, BUCKETS))

    def unit_of(self, group: str) -> str:
        return self.key(group)

    def closed(self, group: str, present: Collection[str]) -> None:
        key = self.key(group)
        if not any(self.key(other) == key for other in present if other != group):
            self.forget(key)


class RingOwnership(Ownership):
    """consistent-hash: the first point clockwise."""

    acts_on_close = False
    is_rule = True

    def __init__(self) -> None:
        super().__init__()
        self.points: list[tuple[int, int]] = []
        self.elsewhere: dict[str, int] = {}  # spilled groups, until they are empty

    def spilled(self, group: str, consumer: int) -> None:
        self.elsewhere[group] = consumer

    def vanished(self, group: str) -> None:
        self.elsewhere.pop(group, None)

    def joined(self, consumer: int, weight: int) -> None:
        super().joined(consumer, weight)
        for i in range(RING_POINTS * weight):
            self.points.append((position(f"{consumer}:{i}"), consumer))

    def left(self, consumer: int) -> None:
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        self.points = [point for point in self.points if point[1] != consumer]
        self.elsewhere = {name: one for name, one in self.elsewhere.items() if one != consumer}

    def renamed(self, old: int, new: int) -> None:
        if old in self.consumers:
            self.left(new)
            self.consumers = [new if number == old else number for number in self.consumers]
            self.points = [(at, new if number == old else number) for at, number in self.points]
            kept = self.elsewhere.items()
            self.elsewhere = {name: new if one == old else one for name, one in kept}

    def owner(self, group: str, among: Collection[int] | None = None) -> int:
        kept = self.elsewhere.get(group, 0)
        if kept and (among is None or kept in among):
            return kept
        points = [point for point in self.points if among is None or point[1] in among]
        if not points:
            return 0
        start = position(group)
        after = [point for point in points if point[0] >= start]
        return min(after or points)[1]

    def took(self, group: str, consumer: int) -> None: ...

    def closed(self, group: str, present: Collection[str]) -> None: ...

    def reset(self) -> None: ...


OWNERSHIPS: dict[str, type[Ownership]] = {
    "shared": SharedOwnership,
    "simple": Remembered,
    "lru": LruOwnership,
    "lru" + STRICT: StrictLruOwnership,
    "hash-buckets": BucketOwnership,
    "consistent-hash": RingOwnership,
}
