"""Expiry: which entries of a queue may have run out, without a timer each.

A heap of whole seconds and, for each second, the sequence numbers that run out within it: eight
bytes a message instead of the 120 of a heap of tuples. A second is looked at once it has passed;
until then the dispatch tests the exact time of whatever it is about to hand out, so nothing is
ever delivered late and nothing stays on the queue more than a second too long.

An entry whose body is out in the store keeps only the end of its second, one number for all of
that second: the exact time comes back with the body, and nothing is handed out without one.

Consumed messages leave their number behind until their second comes: a day's time-to-live would
be a day of traffic. So the table is rebuilt when dead numbers outweigh the living.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from covey.core.entry import Entry

MS_PER_S: Final = 1000
LAST_MS: Final = MS_PER_S - 1
REBUILD_MIN: Final = 4096  # numbers; below this the table is small whatever is dead in it


class Expiry:
    """Sequence numbers by the second in which they expire."""

    __slots__ = ("_ends", "_numbers", "_seconds", "count")

    def __init__(self) -> None:
        self._numbers: dict[int, array[int]] = {}
        self._seconds: list[int] = []
        self._ends: dict[int, int] = {}  # the last millisecond of each, one number for all
        self.count = 0

    def add(self, entry: Entry) -> None:
        """Note an entry that has an expiry time."""
        second = entry.expires_ms // MS_PER_S
        numbers = self._numbers.get(second)
        if numbers is None:
            numbers = array("q")
            self._numbers[second] = numbers
            self._ends[second] = second * MS_PER_S + LAST_MS
            heappush(self._seconds, second)
        numbers.append(entry.seq)
        self.count += 1

    def rounded(self, expires_ms: int) -> int:
        """Return the last millisecond of its second: for an entry that is here without its body."""
        second = expires_ms // MS_PER_S
        return self._ends.get(second, 0) or second * MS_PER_S + LAST_MS

    def due(self, wall_ms: int) -> Iterable[int]:
        """Return the numbers whose second has passed, and forget them."""
        passed: list[int] = []
        while self._seconds and (self._seconds[0] + 1) * MS_PER_S <= wall_ms:
            second = heappop(self._seconds)
            del self._ends[second]
            numbers = self._numbers.pop(second)
            self.count -= len(numbers)
            passed.extend(numbers)
        return passed

    def next_ms(self) -> int:
        """Return when to ask again, in milliseconds since the epoch; 0 for never."""
        return (self._seconds[0] + 1) * MS_PER_S if self._seconds else 0

    def is_bloated(self, living: int) -> bool:
        """Say whether most numbers are of entries that are gone."""
        return self.count > REBUILD_MIN and self.count > 2 * living

    def rebuild(self, entries: Iterable[Entry]) -> None:
        """Keep the numbers of these entries only."""
        self._numbers.clear()
        self._seconds.clear()
        self._ends.clear()
        self.count = 0
        for entry in entries:
            if entry.expires_ms:
                self.add(entry)
