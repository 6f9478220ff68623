# Compiled by mypyc: see setup.py.
"""Backlog: which entries of a long queue are packed, and when.

An entry takes 130 bytes even if its body is out of memory. So in a long queue the entries that are
far from any consumer become rows of numbers in the index (`core.dispatch.index`). Rules:

- Only an entry that waits, whose body is in the store and not in memory, may be packed. Nothing
  else about such an entry is worth an object: it is PENDING and nobody holds it.
- The first entry of a lane, its last one and its head stay entries, and so does what is listed in
  the `todo` of a view. All else finds entries by their numbers, and need not know.
- A queue whose entries without a body are few is never packed. Above that number a sweep goes
  through the index, some pages at the end of each turn, and packs what it may. The next one begins
  when so many more have come that it is worth a walk. It looks at the pages that are new since the
  last one, and only if that is not enough at all of them. Old pages have what was the last of its
  lane then, and what came back to memory since.
- A restart packs as it goes (`recovered`), since ten million entries would not fit.
"""

from __future__ import annotations

from typing import Final

from covey.core.dispatch.index import PAGE_BITS, PAGE_MASK
from covey.core.dispatch.level import NOTHING
from covey.core.dispatch.state import DispatchState
from covey.core.model.entry import KEPT, PENDING, Entry

PAGES_PACKED: Final = 8  # pages that a turn packs: about a third of a millisecond
PAGES_SEEN: Final = 128  # pages that a turn looks at, in about the same time
RESTING: Final = -1


class Backlog:
    """The packing of one queue."""

    __slots__ = ("_at", "_is_whole", "_left", "_swept", "state")

    def __init__(self, state: DispatchState) -> None:
        self.state = state
        self._at = RESTING  # the page to go on with
        self._is_whole = True  # the present sweep began with the first page
        self._swept = 0  # the page that was the newest at the end of the last sweep
        self._left = 0  # entries without a body that the last sweep of all pages did not pack

    def sweep(self, out: int, most: int) -> bool:
        """Pack a portion if more than `most` entries have no body; True: there is more to do.

        `out` is how many have no body, the packed ones included.
        """
        index = self.state.index
        unpacked = out - index.packed
        if self._at == RESTING:
            self._left = min(self._left, unpacked)
            if not self._has_many(unpacked, most):
                return False
            self._at = self._swept
            self._is_whole = self._at == 0
        packed = 0
        numbers = index.pages_from(self._at, PAGES_SEEN)
        for number in numbers:
            self._at = number + 1
            self._swept = number
            entries = index.unpacked_of(number)
            if entries and self._pack(number, entries):
                packed += 1
                if packed == PAGES_PACKED:
                    return True
        if len(numbers) == PAGES_SEEN:
            return True
        unpacked = out - index.packed
        if not self._is_whole and self._has_many(unpacked, most):
            self._at = 0
            self._is_whole = True
            return True
        if self._is_whole:
            self._left = unpacked
        self._at = RESTING
        return False

    def _has_many(self, unpacked: int, most: int) -> bool:
        """Return True if it is worth a sweep."""
        return unpacked > most and unpacked > self._left + max(self._left // 4, most // 2)

    def pack_all(self) -> None:
        """Pack everything that may be packed, at once."""
        index = self.state.index
        for number in index.pages_from(0, index.count):
            self._pack(number, index.unpacked_of(number))

    def recovered(self, entry: Entry, before: Entry | None) -> None:
        """Pack what a restart has just brought back, as far as it may be.

        That is the entry itself if it has no group. Else it is the one that was its lane's last.
        """
        if not entry.lane.is_grouped:
            if not self._is_listed(entry.seq, entry.seq):
                self.state.index.pack(entry)
        elif before is not None and self._is_far(before):
            self.state.index.pack(before)

    def _pack(self, number: int, entries: list[Entry]) -> bool:
        """Pack the entries of a page, as far as they may be; False: none of them."""
        index = self.state.index
        first = number << PAGE_BITS
        is_listed = self._is_listed(first, first | PAGE_MASK)
        before = index.packed
        for entry in entries:
            if self._is_far(entry) and (entry.lane.is_grouped or not is_listed):
                index.pack(entry)
        return index.packed > before

    def _is_far(self, entry: Entry) -> bool:
        if entry.message is not None or entry.state != PENDING or entry.marks != KEPT:
            return False
        lane = entry.lane
        return lane.first is not entry and lane.last is not entry and lane.head is not entry

    def _is_listed(self, first: int, last: int) -> bool:
        """Return True if a view may list entries without a group between two numbers."""
        for view in self.state.views:
            for level in view.levels():
                todo = level.todo
                if (
                    todo
                    and todo[0].seq <= last
                    and (level.unread == NOTHING or first < level.unread)
                ):
                    return True
        return False
