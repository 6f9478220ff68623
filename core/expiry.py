"""Expiry: which entries of a queue may have run out, without a timer each.

A heap of whole seconds and, for each second, the sequence numbers that run out within it: eight
bytes a message instead of the 120 of a heap of tuples. A second is looked at once it has passed;
until then the dispatch tests the exact time of whatever it is about to hand out, so nothing is
ever delivered late and nothing stays on the queue more than a second too long.

Consumed messages leave their number behind until their second comes: a day's time-to-live would
be a day of traffic. So the table is rebuilt when dead numbers outweigh the living.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from covey.core.entry import Entry

REBUILD_MIN: Final = 4096  # numbers; below this the table is small whatever is dead in it


class Expiry:
    """Sequence numbers by the second in which they expire."""

    __slots__ = ("_numbers", "_seconds", "count")

    def __init__(self) -> None:
        self._numbers: dict[int, array[int]] = {}
        self._seconds: list[int] = []
        self.count = 0

    def add(self, entry: Entry) -> None:
        """Note an entry that has an expiry time."""
        second = entry.expires_ms // 1000
        numbers = self._numbers.get(second)
        if numbers is None:
            numbers = array("q")
            self._numbers[second] = numbers
            heappush(self._seconds, second)
        numbers.append(entry.seq)
        self.count += 1

    def due(self, wall_ms: int) -> Iterable[int]:
        """Return the numbers whose second has passed, and forget them."""
        passed: list[int] = []
        while self._seconds and (self._seconds[0] + 1) * 1000 <= wall_ms:
            numbers = self._numbers.pop(heappop(self._seconds))
            self.count -= len(numbers)
            passed.extend(numbers)
        return passed

    def next_ms(self) -> int:
        """Return when to ask again, in milliseconds since the epoch; 0 for never."""
        return (self._seconds[0] + 1) * 1000 if self._seconds else 0

    def is_bloated(self, living: int) -> bool:
        """Say whether most numbers are of entries that are gone."""
        return self.count > REBUILD_MIN and self.count > 2 * living

    def rebuild(self, entries: Iterable[Entry]) -> None:
        """Keep the numbers of these entries only."""
        self._numbers.clear()
        self._seconds.clear()
        self.count = 0
        for entry in entries:
            if entry.expires_ms:
                self.add(entry)
