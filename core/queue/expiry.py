# Compiled by mypyc: see setup.py.
"""Expiry: which entries of a queue may have expired, without a timer for each.

It is a heap of whole seconds and, for each second, the sequence numbers that expire within it. A
second is looked at once it has passed. Until then the dispatch tests the exact time of whatever it
is about to hand out. So no expired message is ever delivered, and none stays on the queue more than
a second too long.

Producers mostly give all their messages the same time to live. So the numbers of a second are runs:
a number, and behind it how many more follow without a gap, as a negative number. A run takes 16
bytes, however long it is, and a number by itself 8. Ten million messages that came in three minutes
are some kilobytes here. Messages whose times to live differ from one to the next are numbers by
themselves, and so is what comes in another order than that of the numbers.

An entry whose body is in the store only keeps the end of its second, one number object for all
entries of that second. The exact time comes back with the body, and nothing is handed out without a
body.

What is consumed, purged or moved leaves its number behind until its second comes. With a time to
live of a day that would be a day of traffic, to be looked up one by one. So the table is rebuilt
when dead numbers outweigh the living.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from covey.core.model.entry import Entry

MS_PER_S: Final = 1000
LAST_MS: Final = MS_PER_S - 1
REBUILD_MIN: Final = 4096  # a table of fewer numbers is not worth a rebuild
NOBODY: Final = -1  # no sequence number


class Expiry:
    """Sequence numbers by the second in which they expire."""

    __slots__ = ("_at", "_ends", "_left", "_next", "_passed", "_runs", "_seconds", "count")

    def __init__(self) -> None:
        self._runs: dict[int, array[int]] = {}
        self._seconds: list[int] = []
        self._ends: dict[int, int] = {}  # the last millisecond of each second, for all its entries
        self._passed: array[int] = array("q")  # the runs of a second that is over
        self._at = 0  # place in `_passed`: the runs before it were taken, or begun
        self._next = 0  # the first number of the begun run that was not taken
        self._left = 0  # how many numbers of that run were not taken
        self.count = 0

    def add(self, entry: Entry) -> None:
        """Note an entry that has an expiry time."""
        second = entry.expires_ms // MS_PER_S
        runs = self._runs.get(second)
        if runs is None:
            self._runs[second] = array("q", (entry.seq,))
            self._ends[second] = second * MS_PER_S + LAST_MS
            heappush(self._seconds, second)
        else:
            last = runs[-1]
            if last < 0:
                if entry.seq == runs[-2] - last + 1:
                    runs[-1] = last - 1
                else:
                    runs.append(entry.seq)
            else:
                runs.append(NOBODY if entry.seq == last + 1 else entry.seq)
        self.count += 1

    def rounded(self, expires_ms: int) -> int:
        """Return the last millisecond of a time's second, for an entry without its body."""
        second = expires_ms // MS_PER_S
        return self._ends.get(second, 0) or second * MS_PER_S + LAST_MS

    def take_due(self, wall_ms: int, most: int) -> list[int]:
        """Return numbers whose second has passed, at most so many, and forget them."""
        due: list[int] = []
        while len(due) < most and (self._left or self._begin_run(wall_ms)):
            taken = min(self._left, most - len(due))
            due += range(self._next, self._next + taken)
            self._next += taken
            self._left -= taken
        self.count -= len(due)
        return due

    def _begin_run(self, wall_ms: int) -> bool:
        """Begin to take the next run of a second that is over; False: there is none."""
        if self._at == len(self._passed) and not self._begin_second(wall_ms):
            return False
        self._next = self._passed[self._at]
        self._left = 1
        self._at += 1
        if self._at < len(self._passed) and self._passed[self._at] < 0:
            self._left -= self._passed[self._at]
            self._at += 1
        return True

    def _begin_second(self, wall_ms: int) -> bool:
        """Begin to take the runs of the next second that is over; False: there is none."""
        self._at = 0
        self._passed = array("q")
        if not self._seconds or (self._seconds[0] + 1) * MS_PER_S > wall_ms:
            return False
        second = heappop(self._seconds)
        del self._ends[second]
        self._passed = self._runs.pop(second)
        return True

    def next_ms(self) -> int:
        """Return when to ask again, in milliseconds since the epoch; 0 for never."""
        if self._left or self._at < len(self._passed):
            return 1  # there are more numbers, and they are overdue
        return (self._seconds[0] + 1) * MS_PER_S if self._seconds else 0

    def is_bloated(self, living: int) -> bool:
        """Return True if most numbers are of entries that are gone."""
        return self.count > REBUILD_MIN and self.count > 2 * living

    def rebuild(self, entries: Iterable[Entry]) -> None:
        """Keep the numbers of these entries only."""
        self._runs.clear()
        self._seconds.clear()
        self._ends.clear()
        self._passed = array("q")
        self._at = self._left = 0
        self.count = 0
        for entry in entries:
            if entry.expires_ms:
                self.add(entry)
