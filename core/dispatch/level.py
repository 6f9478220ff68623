# Compiled by mypyc: see setup.py.
"""Level: the messages without a group of one priority, as one view goes through them.

In each view an ordinary queue has one level. A priority queue has one for each of its priorities,
the highest first. A message is taken from the first level that has one. Within a level the order is
that of the sequence numbers, for returned messages too.

    todo    entries this view has not looked at yet, in order
    unread  the number from which on the index has entries that come behind those in `todo`;
            NOTHING if all are there. After a change of views everything is to be looked at anew,
            and a backlog may be long: it is read a page at a time, as far as somebody wants it
    cursor  the highest number looked at; never moves back (a returned message below it goes
            into `back`, which is tested again, so nothing is skipped and nothing seen twice)
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop
from typing import TYPE_CHECKING, Final

from covey.core.model.entry import GONE, PENDING, Entry

if TYPE_CHECKING:
    from covey.core.dispatch.index import Index

NOTHING: Final = -1  # of the index is unread
MIDDLE: Final = 5  # AMQP 0-10, which Qpid's priorities follow, shares out 0..9 around it


class Level:
    """One view's way through the ungrouped entries of one priority."""

    __slots__ = ("back", "checked", "cursor", "todo", "unread")

    def __init__(self) -> None:
        self.todo: deque[Entry] = deque()
        self.cursor = 0
        self.checked: Entry | None = None  # the head of `todo`, once it was found to match
        self.back: list[int] = []
        self.unread = NOTHING

    def is_waiting(self) -> bool:
        """Return True if the next one could go but for its body, or has yet to be found."""
        if not self.todo:
            return self.unread != NOTHING
        return self.todo[0].state == PENDING

    def read_on(self, index: Index, rank: int) -> int:
        """Put the next page of the index behind `todo`; return how many entries it had."""
        entries, self.unread = index.page_from(self.unread)
        for entry in entries:
            lane = entry.lane
            if not lane.is_grouped and lane.rank == rank and entry.state != GONE:
                self.todo.append(entry)
        return len(entries)

    def first_usable(self) -> Entry | None:
        """Return the next one if it can go and nothing came back; nobody may have a selector."""
        if self.back or not self.todo:
            return None
        first = self.todo[0]
        return first if first.state == PENDING and first.message is not None else None

    def best_returned(self, index: Index) -> Entry | None:
        """Return the oldest returned ungrouped entry."""
        back = self.back
        while back:
            entry = index.get(back[0])
            if entry is not None and entry.state == PENDING:
                return entry
            heappop(back)
        return None

    def trim(self) -> None:
        """Drop gone entries from `todo`; any other may still be looked at, or come back."""
        self.todo = deque([entry for entry in self.todo if entry.state != GONE])

    def trim_back(self, index: Index) -> None:
        """Drop doubles and what is not pending from `back`."""
        found = (index.get(seq) for seq in set(self.back))
        self.back = [entry.seq for entry in found if entry is not None and entry.state == PENDING]
        heapify(self.back)

    def restart(self, unread: int) -> None:
        """Look at all entries from a number on anew: the set of views changed."""
        self.todo = deque()
        self.unread = unread
        self.cursor = 0
        self.checked = None
        self.back = []


def rank_of(priority: int, levels: int) -> int:
    """Return which of so many levels a priority of 0..9 belongs to; 0 is the highest.

    With fewer levels than priorities the ones in the middle are told apart, and those further
    out share the first and the last level.
    """
    lowest = MIDDLE - (levels + 1) // 2
    return levels - 1 - min(max(priority - lowest, 0), levels - 1)
