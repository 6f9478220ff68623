# Compiled by mypyc: see setup.py.
"""Level: one view's way through the messages that have no group and the same priority.

In each view an ordinary queue has one level. A priority queue has one for each of its priorities,
the highest first. The next message comes from the first level that has one. Within a level the
order is that of the sequence numbers, for returned messages too.

    todo    the next entries this view has not looked at yet, in order: `TODO_MAX` and a page at
            most. A backlog may be long, and must not be listed a second time beside the index
    unread  where to read on in the index: entries from this number on are not in `todo` yet.
            NOTHING if all are there. The index is read a page at a time, as far as needed. After a
            change of views every entry is looked at again: then it is read from the beginning
    cursor  the highest number looked at. It never moves back: a returned message below it goes
            into `back`, which is tested again. So nothing is skipped and nothing seen twice
"""

from __future__ import annotations

from collections import deque
from heapq import heapify
from typing import TYPE_CHECKING, Final

from covey.core.model.entry import GONE, PENDING, Entry

if TYPE_CHECKING:
    from covey.core.dispatch.index import Index

NOTHING: Final = -1  # the value of `unread` when the whole index has been read
TODO_MAX: Final = 4096  # more than is read ahead from the store (`core.storage.paging`)
MIDDLE: Final = 5  # levels lie around this priority, as in AMQP 0-10, which Qpid follows


class Level:
    """One view's way through the ungrouped entries of one priority."""

    __slots__ = ("back", "checked", "cursor", "todo", "unread")

    def __init__(self) -> None:
        self.todo: deque[Entry] = deque()
        self.cursor = 0
        self.checked: Entry | None = None  # the head of `todo`, once it was found to match
        self.back: list[int] = []
        self.unread = NOTHING

    def append(self, entry: Entry) -> None:
        """Take in a new entry, whose number is above all others'."""
        if self.unread == NOTHING:
            if len(self.todo) < TODO_MAX:
                self.todo.append(entry)
            else:
                self.unread = entry.seq  # this entry and all later ones are read from the index

    def is_waiting(self) -> bool:
        """Return True if the next entry lacks only its body, or is yet to be found."""
        if not self.todo:
            return self.unread != NOTHING
        return self.todo[0].state == PENDING

    def read_on(self, index: Index, rank: int) -> int:
        """Put the next page of the index behind `todo`; return how many entries it had."""
        entries, count, self.unread = index.ungrouped_from(self.unread, rank)
        self.todo.extend(entries)
        return count

    def first_usable(self) -> Entry | None:
        """Return the next entry if it can go and none came back; for queues without selectors."""
        if self.back or not self.todo:
            return None
        first = self.todo[0]
        return first if first.state == PENDING and first.message is not None else None

    def trim(self) -> None:
        """Drop gone entries from `todo`; any other entry may still be needed."""
        self.todo = deque([entry for entry in self.todo if entry.state != GONE])

    def trim_back(self, index: Index) -> None:
        """Drop from `back` the doubles and the entries that are not pending."""
        found = (index.get(seq) for seq in set(self.back))
        self.back = [entry.seq for entry in found if entry is not None and entry.state == PENDING]
        heapify(self.back)

    def restart(self, unread: int) -> None:
        """Look again at all entries from a number on: the set of views has changed."""
        self.todo = deque()
        self.unread = unread
        self.cursor = 0
        self.checked = None
        self.back = []


def rank_of(priority: int, levels: int) -> int:
    """Return which of so many levels a priority of 0..9 belongs to; 0 is the highest.

    With fewer levels than priorities, each priority in the middle has its own level. The
    priorities further out share the first and the last level.
    """
    lowest = MIDDLE - (levels + 1) // 2
    return levels - 1 - min(max(priority - lowest, 0), levels - 1)
