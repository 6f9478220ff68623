"""Page: which bodies of a queue are read next, together.

What consumers come to first is wanted first: messages that ran out while they were away, then plain
ones in their order, then the heads of lanes that wait for theirs. Nothing is asked for twice, and
no page is so large that the commits behind it would wait long. While the queue is over its window
only what a consumer waits for is read, not what comes after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from covey.core.consumer import Consumer
from covey.core.entry import GONE, STORING, Entry
from covey.core.glances import Glances
from covey.core.lane import Lane
from covey.core.queue import Queue

# Not Final, so that a test of the compiled pager can make it small.
PAGE_MESSAGES = 512  # read at a time: larger ones hold up the commits behind them
PAGE_BYTES: Final = 512 * 1024  # the same in bytes; a page holds one message at least
LANES_PER_PAGE: Final = 256  # so that each gets more than one message ahead, if there is room


class Page:
    """Entries to be read together, none of them twice."""

    __slots__ = ("asked", "entries", "is_full", "size")

    def __init__(self, loading: set[int]) -> None:
        """Begin an empty one; `loading` was asked for before."""
        self.entries: list[Entry] = []
        self.asked = set(loading)
        self.size = 0
        self.is_full = False

    def add(self, entry: Entry | None) -> bool:
        """Read an entry's body too, if it is out and nobody asked; False if the page is full."""
        if entry is None or entry.message is not None or entry.state in (GONE, STORING):
            return True  # not there, not needed, or not at its place in the store yet
        if entry.seq in self.asked or self.is_full:
            return not self.is_full
        self.asked.add(entry.seq)
        self.entries.append(entry)
        self.size += entry.size
        self.is_full = len(self.entries) >= PAGE_MESSAGES or self.size >= PAGE_BYTES
        return not self.is_full

    def add_all(self, entries: Iterable[Entry]) -> None:
        """Read these too, as far as the page goes."""
        for entry in entries:
            if not self.add(entry):
                return


def wanted(queue: Queue, *, is_over: bool) -> list[Entry]:
    """Return what the queue's consumers need next."""
    board = queue.board
    shelf = queue.shelf
    page = Page(shelf.loading)
    shelf.overdue = [seq for seq in shelf.overdue if not page.add(board.index.get(seq))]
    if board.consumers:
        _want_plain(queue, page, is_over=is_over)
        _want_lanes(queue, page, is_over=is_over)
    return page.entries


def ahead_of(queue: Queue, browser: Consumer, glances: Glances) -> list[Entry]:
    """Return what a browser sees next; nothing while it has enough to look at."""
    if glances.is_asked or len(glances) > PAGE_MESSAGES // 2 or not browser.window.has_credit():
        return []
    index = queue.board.index
    page = Page(set())
    entry = index.at_or_after(max(glances.ahead, browser.cursor))
    while entry is not None and entry.message is None and entry.state != STORING:
        glances.ahead = entry.seq + 1
        if not page.add(entry):
            break
        entry = index.at_or_after(glances.ahead)
    return page.entries


def _want_plain(queue: Queue, page: Page, *, is_over: bool) -> None:
    views = [view for view in queue.board.views if view.members]
    for level in [level for view in views for level in view.levels()]:
        todo = level.todo
        if not todo:
            continue
        ahead = todo[min(len(todo) - 1, PAGE_MESSAGES // 2)]
        if todo[0].message is None or (ahead.message is None and not is_over):
            page.add_all(islice(todo, 2 * PAGE_MESSAGES))


def _want_lanes(queue: Queue, page: Page, *, is_over: bool) -> None:
    board = queue.board
    lanes = list(islice(board.unread, LANES_PER_PAGE))
    if not lanes:
        return
    ahead = 1 if is_over else PAGE_MESSAGES // len(lanes)
    for lane in lanes:
        if page.is_full:
            return
        del board.unread[lane]
        if board.lanes.get(lane.name) is lane:
            page.add_all(islice(_line(lane), ahead))


def _line(lane: Lane) -> Iterable[Entry]:
    entry = lane.head
    while entry is not None:
        yield entry
        entry = entry.next
