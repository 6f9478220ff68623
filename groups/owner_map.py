# Compiled by mypyc: see setup.py.
"""OwnerMap: what the strategies that remember owners have in common.

It is a map from a key (the group, or its bucket) to a consumer, with the number of keys that each
living consumer owns. `shared`, `simple`, `lru` and `hash-buckets` differ mainly in when a key is
forgotten.

A consumer that leaves costs O(1): its entries stay behind, dead, and go when they are next read.
Dead entries are never counted. Once they outnumber the living ones, the map is rebuilt. So memory
follows the living entries, and the work stays O(1) per entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from mypy_extensions import mypyc_attr

from covey.groups.strategy import FREE, NO_GROUPS, NONE, GroupStrategy

DEAD_SPARED: Final = 64
"""Dead entries beyond the number of living ones that are not worth a rebuild."""


@mypyc_attr(allow_interpreted_subclasses=True)
class OwnerMap(GroupStrategy):
    """Keys with their owners; `live` counts the entries whose owner is still there."""

    __slots__ = ("handed", "live", "loads", "owners")

    def __init__(self) -> None:
        self.owners: dict[str, int] = {}
        self.loads: dict[int, int] = {}  # its keys are the consumers that are there
        self.live = 0
        self.handed: set[str] = set()  # keys whose owner has had no message since `hand`

    def owner(self, group: str, skip: frozenset[int] = NONE) -> int:
        """Return the recorded owner if it is there and not to be skipped."""
        consumer = self.owners.get(group, FREE)
        if consumer == FREE:
            return FREE
        if consumer not in self.loads:
            del self.owners[group]
            self.handed.discard(group)
            return FREE
        return FREE if consumer in skip else consumer

    def took(self, group: str, consumer: int) -> Sequence[str]:
        """Record the owner."""
        self.bind(group, consumer)
        return NO_GROUPS

    def remembered(self) -> Iterable[tuple[str, int]]:
        """Walk all entries, also those of consumers that have left."""
        return self.owners.items()

    def hand(self, unit: str, consumer: int) -> None:
        """Write another owner."""
        self.bind(unit, consumer)
        self.handed.add(unit)

    def is_handed(self, group: str) -> bool:
        """Return True if the unit of the group has a new owner that has had nothing of it."""
        return bool(self.handed) and self.unit_of(group) in self.handed

    def introduced(self, group: str) -> None:
        """Note that the new owner has had a message of the unit."""
        if self.handed:
            self.handed.discard(self.unit_of(group))

    def joined(self, consumer: int, weight: int) -> bool:
        """Count the consumer as there; it owns nothing yet, so no lane has to be asked."""
        self.loads.setdefault(consumer, 0)
        return False

    def rejoined(self, consumer: int, weight: int) -> bool:
        """Drop the consumer's dead entries first: its number is about to count as living again."""
        if consumer not in self.loads:
            self.compact()
        return self.joined(consumer, weight)

    def left(self, consumer: int) -> None:
        """Count the consumer as gone; its entries go when they are next read."""
        self.live -= self.loads.pop(consumer, 0)
        if len(self.owners) - self.live > self.live + DEAD_SPARED:
            self.compact()

    def renamed(self, old: int, new: int) -> None:
        """Write the new number over the old one; O(entries), but clients return rarely."""
        if old not in self.loads:
            return
        self.loads[new] = self.loads.get(new, 0) + self.loads.pop(old)
        for key, consumer in self.owners.items():
            if consumer == old:
                self.owners[key] = new

    def closed(self, group: str) -> None:
        """Forget the group's owner."""
        self.forget(group)

    def reset(self) -> None:
        """Forget all owners."""
        self.owners.clear()
        self.handed.clear()
        self.live = 0
        for consumer in self.loads:
            self.loads[consumer] = 0

    def load(self, consumer: int) -> int:
        """Count the keys the consumer owns."""
        return self.loads.get(consumer, 0)

    def tracked(self) -> int:
        """Count the entries of living consumers."""
        return self.live

    def bind(self, key: str, consumer: int) -> None:
        """Make the consumer the owner of the key, whoever owned it before."""
        assert consumer in self.loads, f"consumer {consumer} takes {key!r} but never joined"
        before = self.owners.get(key, FREE)
        if before == consumer:
            return
        if before != FREE:
            self.forget(key)
        self.owners[key] = consumer
        self.loads[consumer] += 1
        self.live += 1

    def forget(self, key: str) -> bool:
        """Drop the key's entry; True if a living consumer owned it."""
        consumer = self.owners.pop(key, FREE)
        self.handed.discard(key)
        if consumer not in self.loads:
            return False
        self.loads[consumer] -= 1
        self.live -= 1
        return True

    def compact(self) -> None:
        """Drop all dead entries at once."""
        self.owners = {key: owner for key, owner in self.owners.items() if owner in self.loads}
        self.handed.intersection_update(self.owners)
