# Compiled by mypyc: see setup.py.
"""OwnerMap: what the strategies that remember owners have in common.

It is a map from a key (the group, or its bucket) to a consumer, with the number of keys that each
living consumer owns. `shared`, `simple`, `lru` and `hash-buckets` differ mainly in when a key is
forgotten.

A key is not written down with its consumer, but with a *seat*. A consumer that joins takes a seat.
A client that returns under another number takes over the seats of its old one. One that leaves
gives them up, and what is written down with such a seat is dead: nobody owns it. So all of this
costs the same however many keys there are. Dead entries are never counted, and go when they are
next read. Once they outnumber the living ones, `tidy` looks at all keys, a portion at a time. So
memory follows the living entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from mypy_extensions import mypyc_attr

from covey.groups.strategy import FREE, NO_GROUPS, NONE, GroupStrategy

DEAD_SPARED: Final = 64
"""Dead entries beyond the number of living ones that are not worth a look at all of them."""
SEATS_SPARED: Final = 64
"""Second seats of consumers that are not worth it."""


@mypyc_attr(allow_interpreted_subclasses=True)
class OwnerMap(GroupStrategy):
    """Keys with their owners; `live` counts the entries whose owner is still there."""

    __slots__ = (
        "_doubtful",
        "_last_seat",
        "_leaving",
        "_seats_of",
        "_sitting",
        "handed",
        "live",
        "loads",
        "seats",
    )

    def __init__(self) -> None:
        self.seats: dict[str, int] = {}  # by key
        self.loads: dict[int, int] = {}  # its keys are the consumers that are there
        self.live = 0
        self.handed: set[str] = set()  # keys whose owner has had no message since `hand`
        self._sitting: dict[int, int] = {}  # the consumer in each seat that is taken
        self._seats_of: dict[int, list[int]] = {}  # by consumer; the first is for new keys
        self._last_seat = 0
        self._doubtful: list[str] = []  # keys that `tidy` has still to look at
        self._leaving: set[int] = set()  # second seats of consumers, empty once it has

    def owner(self, group: str, skip: frozenset[int] = NONE) -> int:
        """Return the recorded owner if it is there and not to be skipped."""
        seat = self.seats.get(group, 0)
        if not seat:
            return FREE
        consumer = self._sitting.get(seat, FREE)
        if consumer == FREE:
            self._drop(group)
            return FREE
        return FREE if consumer in skip else consumer

    def took(self, group: str, consumer: int) -> Sequence[str]:
        """Record the owner."""
        self.bind(group, consumer)
        return NO_GROUPS

    def remembered(self) -> Iterable[tuple[str, int]]:
        """Walk all entries, also those of consumers that have left: these are `FREE`."""
        for key, seat in self.seats.items():
            yield key, self._sitting.get(seat, FREE)

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
        if consumer not in self.loads:
            self.loads[consumer] = 0
            self._last_seat += 1
            self._sitting[self._last_seat] = consumer
            self._seats_of[consumer] = [self._last_seat]
        return False

    def left(self, consumer: int) -> None:
        """Count the consumer as gone; its entries go when they are next read."""
        if consumer in self.loads:
            self.live -= self.loads.pop(consumer)
            for seat in self._seats_of.pop(consumer):
                del self._sitting[seat]

    def renamed(self, old: int, new: int) -> None:
        """Seat the new number where the old one sits."""
        if old not in self.loads:
            return
        seats = self._seats_of.pop(old)
        taken = self._seats_of.get(new, [])
        if self.loads.get(new, 0) == 0:  # nothing is written down with the seat that it has
            for seat in taken:
                del self._sitting[seat]
            taken = []
        self._seats_of[new] = taken + seats
        for seat in seats:
            self._sitting[seat] = new
        self.loads[new] = self.loads.get(new, 0) + self.loads.pop(old)

    def closed(self, group: str) -> None:
        """Forget the group's owner."""
        self.forget(group)

    def reset(self) -> None:
        """Forget all owners."""
        self.seats.clear()
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
        before = self.seats.get(key, 0)
        if before:
            if self._sitting.get(before, FREE) == consumer:
                return
            self.forget(key)
        self.seats[key] = self._seats_of[consumer][0]
        self.loads[consumer] += 1
        self.live += 1

    def forget(self, key: str) -> bool:
        """Drop the key's entry; True if a living consumer owned it."""
        consumer = self._sitting.get(self.seats.get(key, 0), FREE)
        self._drop(key)
        if consumer == FREE:
            return False
        self.loads[consumer] -= 1
        self.live -= 1
        return True

    def tidy(self, most: int) -> bool:
        """Look at so many keys, and drop those that nobody owns; True: there is more to do."""
        if not self._doubtful and self._is_untidy():
            self._doubtful = list(self.seats)
            self._leaving = {seat for seats in self._seats_of.values() for seat in seats[1:]}
        doubtful = self._doubtful
        for _ in range(min(most, len(doubtful))):
            key = doubtful.pop()
            seat = self.seats.get(key, 0)
            consumer = self._sitting.get(seat, FREE)
            if consumer == FREE:
                self._drop(key)
            elif seat in self._leaving:
                self.seats[key] = self._seats_of[consumer][0]
        if self._leaving and not doubtful:
            self._clear_seats()
        return bool(doubtful) or self._is_untidy()

    def _is_untidy(self) -> bool:
        if len(self._sitting) > len(self._seats_of) + SEATS_SPARED:
            return True
        return len(self.seats) - self.live > self.live + DEAD_SPARED

    def _clear_seats(self) -> None:
        """Give up the second seats with which nothing is written down any more."""
        for seat in self._leaving:
            consumer = self._sitting.pop(seat, FREE)
            if consumer != FREE:
                self._seats_of[consumer].remove(seat)
        self._leaving.clear()

    def _drop(self, key: str) -> None:
        """Drop the entry of a key, if there is one."""
        self.seats.pop(key, 0)
        self.handed.discard(key)
