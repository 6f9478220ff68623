# Compiled by mypyc: see setup.py.
"""Asking: which lanes have yet to be asked whose they are, since something has changed for them.

A consumer that comes or goes may change the owner of any lane. There may be a million lanes, so
they are asked some at a time, in each turn of the queue. `add_all` asks for a *round* through all
lanes. If something changes again meanwhile, the round goes on, and another follows. If each change
began anew, the last lanes would never be asked while consumers come and go.

A round begins when its first lane is taken, with a list of all lanes: some 20 ms for a million. So
this is not done in the turn in which somebody came or went, which has its own work.

Lanes that are added one by one come behind those of a round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from covey.core.dispatch.lane import Lane


class Asking:
    """The lanes of one queue that have yet to be asked."""

    __slots__ = ("_is_again", "_lanes", "_line", "_round")

    def __init__(self, lanes: dict[str, Lane]) -> None:
        """Begin with none; `lanes` has all lanes of the queue, by their names."""
        self._lanes = lanes
        self._line: deque[Lane] = deque()
        self._round: list[Lane] = []  # the next one is the last
        self._is_again = False  # another round follows

    @property
    def is_any(self) -> bool:
        """Return True if some lane has yet to be asked."""
        return bool(self._line) or bool(self._round) or (self._is_again and bool(self._lanes))

    @property
    def count(self) -> int:
        """Return how many are to be asked, without another round that follows one."""
        if self._is_again and not self._round:
            return len(self._line) + len(self._lanes)
        return len(self._line) + len(self._round)

    def add(self, lane: Lane) -> None:
        """Have a lane asked."""
        self._line.append(lane)

    def add_some(self, lanes: Iterable[Lane]) -> None:
        """Have some lanes asked."""
        self._line.extend(lanes)

    def add_all(self) -> None:
        """Have all lanes asked, in a round of their own if one is under way."""
        self._is_again = True

    def next(self) -> Lane | None:
        """Return the next lane, which may be gone; None: there is none."""
        if self._is_again and not self._round:
            self._is_again = False
            self._round = list(self._lanes.values())
            self._round.reverse()
        if self._round:
            return self._round.pop()
        return self._line.popleft() if self._line else None
