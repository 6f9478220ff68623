# Compiled by mypyc: see setup.py.
"""Index: a queue's entries by sequence number, in pages.

A message costs eight bytes here, and is found by its number in O(1). Browsers and limits walk the
entries in order. Nothing has to be repaired when entries vanish under such a walk: a browser keeps
a number, not a pointer. Numbers are only ever added in ascending order, so pages are too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from mypy_extensions import mypyc_attr

from covey.core.model.entry import Entry

PAGE_BITS: Final = 8
PAGE_SIZE: Final = 1 << PAGE_BITS
PAGE_MASK: Final = PAGE_SIZE - 1


class IndexPage:
    """256 places; `live` says how many are taken, so that an empty page can go."""

    __slots__ = ("live", "places")

    def __init__(self) -> None:
        self.places: list[Entry | None] = [None] * PAGE_SIZE
        self.live = 0


@mypyc_attr(allow_interpreted_subclasses=True)  # a test counts its look-ups
class Index:
    """A queue's entries, in the order of their numbers."""

    __slots__ = ("_dead_pages", "_order", "_pages", "count")

    def __init__(self) -> None:
        self._pages: dict[int, IndexPage] = {}
        self._order: list[int] = []  # page numbers ascending; dead ones are dropped in bulk
        self._dead_pages = 0
        self.count = 0

    def add(self, entry: Entry) -> None:
        """Add an entry whose number is above all others'."""
        number = entry.seq >> PAGE_BITS
        page = self._pages.get(number)
        if page is None:
            page = self._new_page(number)
        page.places[entry.seq & PAGE_MASK] = entry
        page.live += 1
        self.count += 1

    def get(self, seq: int) -> Entry | None:
        """Return the entry with this number, None if there is none."""
        page = self._pages.get(seq >> PAGE_BITS)
        return None if page is None else page.places[seq & PAGE_MASK]

    def remove(self, seq: int) -> None:
        """Take an entry out; the number is never used again."""
        number = seq >> PAGE_BITS
        page = self._pages[number]
        page.places[seq & PAGE_MASK] = None
        page.live -= 1
        self.count -= 1
        # The newest page stays even when empty: the next message would make it again.
        if page.live == 0 and number != self._order[-1]:
            self._drop_page(number)

    def at_or_after(self, seq: int) -> Entry | None:
        """Return the first entry whose number is `seq` or above."""
        at = bisect_left(self._order, seq >> PAGE_BITS)
        start = seq & PAGE_MASK
        while at < len(self._order):
            number = self._order[at]
            page = self._pages.get(number)
            if page is not None:
                if number != seq >> PAGE_BITS:
                    start = 0
                for place in range(start, PAGE_SIZE):
                    entry = page.places[place]
                    if entry is not None:
                        return entry
            at += 1
        return None

    def page_from(self, seq: int) -> tuple[list[Entry], int]:
        """Return the entries of the next page that has some at `seq` or above.

        With them comes the number to go on from, -1 if these were the last.
        """
        at = bisect_left(self._order, seq >> PAGE_BITS)
        while at < len(self._order):
            number = self._order[at]
            at += 1
            page = self._pages.get(number)
            if page is None or not page.live:
                continue
            first = seq & PAGE_MASK if number == seq >> PAGE_BITS else 0
            found = [entry for entry in page.places[first:] if entry is not None]
            if found:
                is_last = at >= len(self._order)
                return found, -1 if is_last else (number + 1) << PAGE_BITS
        return [], -1

    def __iter__(self) -> Iterator[Entry]:
        """Walk all entries in order. The index must not change meanwhile."""
        for number in self._order:
            page = self._pages.get(number)
            if page is not None:
                for entry in page.places:
                    if entry is not None:
                        yield entry

    def take_page(self) -> list[Entry]:
        """Take the entries of one page out, the newest first; none if there are no more."""
        while self._order:
            page = self._pages.pop(self._order.pop(), None)
            if page is not None and page.live:
                self.count -= page.live
                return [entry for entry in page.places if entry is not None]
        return []

    def _new_page(self, number: int) -> IndexPage:
        newest = self._order[-1] if self._order else -1
        page = IndexPage()
        self._pages[number] = page
        self._order.append(number)
        if newest >= 0 and self._pages[newest].live == 0:
            self._drop_page(newest)
        return page

    def _drop_page(self, number: int) -> None:
        del self._pages[number]
        self._dead_pages += 1
        if self._dead_pages * 2 > len(self._order):
            self._order = [known for known in self._order if known in self._pages]
            self._dead_pages = 0
