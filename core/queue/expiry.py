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
live of a day that would be a day of traffic, to be looked up one by one. So the table is swept when
dead numbers outweigh the living: second by second, a portion at a time.
"""

from __future__ import annotations

from array import array
from heapq import heappop, heappush
from typing import Final

from covey.core.dispatch.index import Index
from covey.core.model.entry import Entry

MS_PER_S: Final = 1000
LAST_MS: Final = MS_PER_S - 1
# Not Final, so that a test of the compiled table can make it small.
SWEEP_MIN = 4096  # a table of fewer numbers is not worth it
NOBODY: Final = -1  # no sequence number


def append(runs: array[int], seq: int) -> None:
    """Add a number to runs."""
    last = runs[-1] if runs else NOBODY
    if not runs:
        runs.append(seq)
    elif last < 0:
        if seq == runs[-2] - last + 1:
            runs[-1] = last - 1
        else:
            runs.append(seq)
    else:
        runs.append(NOBODY if seq == last + 1 else seq)


class Expiry:
    """Sequence numbers by the second in which they expire."""

    __slots__ = (
        "_at",
        "_ends",
        "_left",
        "_next",
        "_passed",
        "_runs",
        "_seconds",
        "_sweep",
        "count",
    )

    def __init__(self) -> None:
        self._runs: dict[int, array[int]] = {}
        self._seconds: list[int] = []  # a heap; some may have been swept away
        self._ends: dict[int, int] = {}  # the last millisecond of each second, for all its entries
        self._passed: array[int] = array("q")  # the runs of a second that is over
        self._at = 0  # place in `_passed`: the runs before it were taken, or begun
        self._next = 0  # the first number of the begun run that was not taken
        self._left = 0  # how many numbers of that run were not taken
        self._sweep: ExpirySweep | None = None
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
            append(runs, entry.seq)
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
        first = self._first_second()
        if first < 0 or (first + 1) * MS_PER_S > wall_ms:
            return False
        second = heappop(self._seconds)
        del self._ends[second]
        self._passed = self._runs.pop(second)
        return True

    def next_ms(self) -> int:
        """Return when to ask again, in milliseconds since the epoch; 0 for never."""
        if self._left or self._at < len(self._passed):
            return 1  # there are more numbers, and they are overdue
        first = self._first_second()
        return 0 if first < 0 else (first + 1) * MS_PER_S

    def _first_second(self) -> int:
        """Return the first second that has numbers, -1 if none has."""
        seconds = self._seconds
        while seconds and seconds[0] not in self._runs:
            heappop(seconds)
        return seconds[0] if seconds else -1

    def sweep(self, index: Index, most: int) -> bool:
        """Drop numbers of entries that are gone, if most are; True: there is more to look at.

        At most so many numbers are looked at.
        """
        sweep = self._sweep
        if sweep is None:
            if self.count <= SWEEP_MIN or self.count <= 2 * index.count:
                return False
            sweep = self._sweep = ExpirySweep(list(self._runs))
        left = most
        oldest = index.look_from(0)
        sweep.oldest = 0 if oldest is None else oldest.seq
        while left > 0 and sweep.seconds:
            second = sweep.seconds[-1]
            runs = self._runs.get(second)
            if runs is None:
                sweep.seconds.pop()  # its time has come
                left -= 1
                continue
            left -= sweep.look_at(runs, index, left)
            if sweep.at == len(runs):
                self._replace(second, sweep)
        if not sweep.seconds:
            self._sweep = None
        return self._sweep is not None

    def _replace(self, second: int, sweep: ExpirySweep) -> None:
        """Keep what the sweep has found alive of a second."""
        sweep.seconds.pop()
        self.count -= sweep.dropped
        if sweep.kept:
            self._runs[second] = sweep.kept
        else:
            del self._runs[second], self._ends[second]
        sweep.runs = None


class ExpirySweep:
    """How far the look at all numbers has come; what it has found alive of the last second."""

    __slots__ = ("at", "done", "dropped", "kept", "oldest", "runs", "seconds")

    def __init__(self, seconds: list[int]) -> None:
        self.seconds = seconds  # the last one is the next
        self.runs: array[int] | None = None  # of the second that is being looked at
        self.at = 0  # place in it: the runs before it were looked at
        self.done = 0  # how many numbers of the next run were
        self.kept: array[int] = array("q")
        self.dropped = 0
        self.oldest = 0  # no entry has a number below it; 0: nobody knows

    def look_at(self, runs: array[int], index: Index, most: int) -> int:
        """Look at so many numbers of a second, or at all; return at how many."""
        if runs is not self.runs:  # not begun, or it was over and has begun anew
            self.runs, self.kept = runs, array("q")
            self.at = self.done = self.dropped = 0
        left = most
        while left > 0 and self.at < len(runs):
            first = runs[self.at]
            is_alone = self.at + 1 == len(runs) or runs[self.at + 1] >= 0
            length = 1 if is_alone else 1 - runs[self.at + 1]
            gone = min(length, self.oldest - first)  # most queues are consumed in order
            if gone > self.done:
                self.dropped += gone - self.done
                self.done = gone
                left -= 1
            stop = min(length, self.done + left)
            for seq in range(first + self.done, first + stop):
                if index.has(seq):
                    append(self.kept, seq)
                else:
                    self.dropped += 1
            left -= stop - self.done
            self.done = stop
            if stop == length:
                self.at += 1 if is_alone else 2
                self.done = 0
        return most - left
