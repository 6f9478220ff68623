# Compiled by mypyc: see setup.py.
"""Index: a queue's entries by sequence number, in pages.

A message costs eight bytes here, and is found by its number in O(1). Browsers and limits walk the
entries in order. Nothing has to be repaired when entries vanish under such a walk: a browser keeps
a number, not a pointer. Numbers are only ever added in ascending order, so pages are too.

An entry that waits far from any consumer may be *packed*: then its place has its lane, and the
columns of its page have the rest, 8 to 24 bytes in all instead of 130 (`core.dispatch.backlog` says
which may be). Whoever asks for a packed entry by its number gets an entry again, which stays one
until it is packed anew. Walks that only look (`look_from`, the iterator) get copies of packed ones:
such a copy tells what is there, and whatever is done to it is lost.

A column whose values are all the same is that one number. It becomes an array, of four bytes a
place, when a second value comes. So a size or a second of expiry that all have costs nothing.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, TypeAlias

from mypy_extensions import mypyc_attr

from covey.core.dispatch.lane import Lane
from covey.core.model.entry import KEPT, PENDING, Entry

PAGE_BITS: Final = 8
PAGE_SIZE: Final = 1 << PAGE_BITS
PAGE_MASK: Final = PAGE_SIZE - 1
WORD: Final = "I"  # four bytes; a number that does not fit keeps its entry from being packed
WORD_MAX: Final = 0xFFFF_FFFF
MS_PER_S: Final = 1000
LAST_MS: Final = MS_PER_S - 1

# The value of all packed entries of a page, or the value of each.
Column: TypeAlias = "int | array[int]"


class IndexPage:
    """256 places; `live` says how many are taken, so that an empty page can go.

    A place has an entry, the lane of a packed entry, or nothing. The columns say nothing of a place
    that has no lane.
    """

    __slots__ = ("expiries", "links", "live", "packed", "places", "sizes", "tries")

    def __init__(self) -> None:
        self.places: list[Entry | Lane | None] = [None] * PAGE_SIZE
        self.live = 0
        self.packed = 0
        self.links: Column = 0  # how far the next number of the lane is, 0: no next
        self.sizes: Column = 0
        # The seconds in which they expire: without its body, an entry keeps no more than that.
        self.expiries: Column = 0
        self.tries: Column = 0  # how often each was delivered and came back

    def pack(self, at: int, entry: Entry) -> bool:
        """Put an entry's numbers in its place; False: they are too large."""
        link = entry.next - entry.seq if entry.next else 0
        second = entry.expires_ms // MS_PER_S
        if link > WORD_MAX or entry.size > WORD_MAX:
            return False
        if second > WORD_MAX or entry.deliveries > WORD_MAX:
            return False
        if entry.expires_ms and not second:
            return False  # 0 stands for "never"
        if self.packed == 0:
            self.links, self.sizes = link, entry.size
            self.expiries, self.tries = second, entry.deliveries
        else:
            self.links = _with(self.links, at, link)
            self.sizes = _with(self.sizes, at, entry.size)
            self.expiries = _with(self.expiries, at, second)
            self.tries = _with(self.tries, at, entry.deliveries)
        self.places[at] = entry.lane
        self.packed += 1
        return True

    def unpacked(self, seq: int, lane: Lane) -> Entry:
        """Return a packed entry as an entry; the place stays as it is."""
        at = seq & PAGE_MASK
        entry = Entry(seq, None, lane, PENDING)
        entry.marks = KEPT
        link = self.link_at(at)
        if link:
            entry.next = seq + link
        sizes, expiries, tries = self.sizes, self.expiries, self.tries
        entry.size = sizes if isinstance(sizes, int) else sizes[at]
        second = expiries if isinstance(expiries, int) else expiries[at]
        entry.expires_ms = second * MS_PER_S + LAST_MS if second else 0
        entry.deliveries = tries if isinstance(tries, int) else tries[at]
        return entry

    def link_at(self, at: int) -> int:
        """Return how far behind a packed entry the next one of its lane is, 0: there is none."""
        links = self.links
        return links if isinstance(links, int) else links[at]

    def drop_columns(self) -> None:
        """Let the columns go: nothing is packed any more."""
        self.links = self.sizes = self.expiries = self.tries = 0


def _with(column: Column, at: int, value: int) -> Column:
    """Return a column that has a value at a place, and what it had at the others."""
    if isinstance(column, int):
        if column == value:
            return column
        column = array(WORD, [column]) * PAGE_SIZE
    column[at] = value
    return column


@mypyc_attr(allow_interpreted_subclasses=True)  # a test counts its look-ups
class Index:
    """A queue's entries, in the order of their numbers."""

    __slots__ = ("_dead_pages", "_order", "_pages", "count", "packed")

    def __init__(self) -> None:
        self._pages: dict[int, IndexPage] = {}
        self._order: list[int] = []  # page numbers ascending; dead ones are dropped in bulk
        self._dead_pages = 0
        self.count = 0
        self.packed = 0

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
        if page is None:
            return None
        place = page.places[seq & PAGE_MASK]
        return self._unpack(page, seq, place) if isinstance(place, Lane) else place

    def has(self, seq: int) -> bool:
        """Return True if there is an entry with this number."""
        page = self._pages.get(seq >> PAGE_BITS)
        return page is not None and page.places[seq & PAGE_MASK] is not None

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

    # In the order of numbers.

    def at_or_after(self, seq: int) -> Entry | None:
        """Return the first entry whose number is `seq` or above."""
        found = self._next_taken(seq)
        return None if found < 0 else self.get(found)

    def look_from(self, seq: int) -> Entry | None:
        """Return the first entry whose number is `seq` or above, to be looked at only."""
        found = self._next_taken(seq)
        if found < 0:
            return None
        page = self._pages[found >> PAGE_BITS]
        place = page.places[found & PAGE_MASK]
        return page.unpacked(found, place) if isinstance(place, Lane) else place

    def ungrouped_from(self, seq: int, rank: int) -> tuple[list[Entry], int, int]:
        """Return the entries without a group of a rank in the next page that has any entry.

        With them come how many entries the page has, and the number to go on from, -1 if it was the
        last page.
        """
        at = bisect_left(self._order, seq >> PAGE_BITS)
        while at < len(self._order):
            number = self._order[at]
            at += 1
            page = self._pages.get(number)
            if page is None or not page.live:
                continue
            first = seq & PAGE_MASK if number == seq >> PAGE_BITS else 0
            found: list[Entry] = []
            count = 0
            for offset in range(first, PAGE_SIZE):
                place = page.places[offset]
                if place is None:
                    continue
                count += 1
                lane = place if isinstance(place, Lane) else place.lane
                if not lane.is_grouped and lane.rank == rank:
                    entry = self.get(number << PAGE_BITS | offset)
                    if entry is not None:
                        found.append(entry)
            if count:
                is_last = at >= len(self._order)
                return found, count, -1 if is_last else (number + 1) << PAGE_BITS
        return [], 0, -1

    def __iter__(self) -> Iterator[Entry]:
        """Walk all entries in order, to look at them. The index must not change meanwhile."""
        for number in self._order:
            page = self._pages.get(number)
            if page is not None:
                for offset, place in enumerate(page.places):
                    if isinstance(place, Lane):
                        yield page.unpacked(number << PAGE_BITS | offset, place)
                    elif place is not None:
                        yield place

    def drop_newest_page(self) -> int:
        """Free the entries of one page, the newest first; return how many, 0 if none are left."""
        while self._order:
            page = self._pages.pop(self._order.pop(), None)
            if page is not None and page.live:
                self.count -= page.live
                self.packed -= page.packed
                for place in page.places:
                    if isinstance(place, Entry):
                        place.message = None
                return page.live
        return 0

    def _next_taken(self, seq: int) -> int:
        """Return the first number at `seq` or above that has an entry, -1 if there is none."""
        at = bisect_left(self._order, seq >> PAGE_BITS)
        while at < len(self._order):
            number = self._order[at]
            page = self._pages.get(number)
            if page is not None:
                start = seq & PAGE_MASK if number == seq >> PAGE_BITS else 0
                for offset in range(start, PAGE_SIZE):
                    if page.places[offset] is not None:
                        return number << PAGE_BITS | offset
            at += 1
        return -1

    # Along a lane.

    def line(self, entry: Entry) -> Iterator[Entry]:
        """Walk a lane's FIFO from an entry on."""
        gone = entry.lane.gone
        at: Entry | None = entry
        while at is not None:
            yield at
            following = at.next
            while gone is not None and following in gone:
                following = gone[following]
            at = self.get(following) if following else None

    def following(self, seq: int) -> int:
        """Return the number that a lane's FIFO has behind this one, 0 at its end."""
        page = self._pages[seq >> PAGE_BITS]
        place = page.places[seq & PAGE_MASK]
        if isinstance(place, Entry):
            return place.next
        link = page.link_at(seq & PAGE_MASK)
        return seq + link if link else 0

    def link(self, seq: int, following: int) -> None:
        """Let a number of a lane's FIFO be followed by another, or (0) by none."""
        entry = self.get(seq)
        assert entry is not None
        entry.next = following

    # Packed and unpacked.

    def pages_from(self, number: int, most: int) -> list[int]:
        """Return the next page numbers from one on, at most so many."""
        at = bisect_left(self._order, number)
        return self._order[at : at + most]

    def unpacked_of(self, number: int) -> list[Entry]:
        """Return the entries of a page that are not packed."""
        page = self._pages.get(number)
        if page is None or page.packed == page.live:
            return []
        return [place for place in page.places if isinstance(place, Entry)]

    def pack(self, entry: Entry) -> bool:
        """Make an entry a row of numbers; its object is forgotten. False: it stays an entry."""
        page = self._pages[entry.seq >> PAGE_BITS]
        if not page.pack(entry.seq & PAGE_MASK, entry):
            return False
        self.packed += 1
        return True

    def _unpack(self, page: IndexPage, seq: int, lane: Lane) -> Entry:
        entry = page.unpacked(seq, lane)
        page.places[seq & PAGE_MASK] = entry
        page.packed -= 1
        self.packed -= 1
        if page.packed == 0:
            page.drop_columns()
        return entry

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
