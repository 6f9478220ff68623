# Compiled by mypyc: see setup.py.
"""TurnLengths: how long the turns of the event loop took, and what the long ones were doing.

Nobody else is served during a turn. So the longest turn is the longest that anybody had to wait for
the work of others. Lengths are counted in buckets, as Prometheus does. The operator is told of a
turn above `slow_s`, and of what it was doing: the last value of `doing`. If half of the turn went
to the garbage collector, that is said first: it was not the work that was slow. What has to be
tidied up after some time of work (`tidy`) is done within a turn, and so measured with it.

What one connection has sent may be long work. So its engine stops between two frames when the turn
has taken LONG_S, and handles the rest in another turn. To look at the stopwatch costs something. So
whoever works counts `pieces`, each about as much as a message to one queue, and an engine only
looks (`look`) after LOOK_EVERY pieces. Slow work counts for as many pieces as it has parts.

Without a stopwatch, as in a test, nothing is measured, and no turn is long.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from covey.core.events.audit import Audit

BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
LONG_S: Final = 0.01  # one client's frames may take so long, then others have a turn
LOOK_EVERY: Final = 32  # pieces of work between two looks at the stopwatch


class TurnLengths:
    """The lengths of all turns so far."""

    def __init__(self, stopwatch: Callable[[], float] | None, audit: Audit) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)  # the last count is for turns above all bounds
        self.total_s = 0.0
        self.longest_s = 0.0
        self.longest_doing = ""
        self.collected_s = 0.0  # time in the garbage collector, which stops everything
        self.longest_collection_s = 0.0
        self.slow_s = 0.1
        self.doing = ""  # what the present turn does, in words for people
        self.pieces = 0  # of work in this turn since the stopwatch was last looked at
        self.tidy_at_s = math.inf  # when `total_s` comes to this, `tidy` is called in its turn
        self.tidy: Callable[[], None] = _nothing
        self._stopwatch = stopwatch
        self._audit = audit
        self._began = 0.0
        self._collected_before_s = 0.0  # `collected_s` when the turn began
        self._number = 0

    def begin(self, doing: str) -> int:
        """Begin a turn; return its number."""
        self.pieces = 0
        if self._stopwatch is not None:
            self._number += 1
            self._began = self._stopwatch()
            self._collected_before_s = self.collected_s
            self.doing = doing
        return self._number

    def look(self) -> bool:
        """Look at the stopwatch; return True if it is time that others have their turn."""
        self.pieces = 0
        return self._stopwatch is not None and self._stopwatch() - self._began > LONG_S

    def end_of(self, number: int) -> None:
        """End the turn of this number, unless others have begun since: then it was not busy."""
        if self._number == number:
            self.end()

    def collected(self, length_s: float) -> None:
        """Called with the length of each garbage collection."""
        self.collected_s += length_s
        self.longest_collection_s = max(self.longest_collection_s, length_s)

    def end(self) -> None:
        """End the turn, if one was begun."""
        if self._stopwatch is None or not self._began:
            return
        length = self._stopwatch() - self._began
        if self.total_s + length >= self.tidy_at_s:
            self.tidy()
            length = self._stopwatch() - self._began
        self._began = 0.0
        self.counts[bisect_left(BOUNDS, length)] += 1
        self.total_s += length
        if length <= self.longest_s and length <= self.slow_s:
            return
        collected_s = self.collected_s - self._collected_before_s
        doing = self.doing
        if collected_s > length / 2:
            doing = f"garbage collection ({round(collected_s * 1000)} ms), {doing}"
        if length > self.longest_s:
            self.longest_s = length
            self.longest_doing = doing
        if length > self.slow_s:
            self._audit.slow_turn(length, doing)


def _nothing() -> None:
    """Tidy up nothing."""
