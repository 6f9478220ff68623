"""View: what a set of consumers with the same selector and from-seq may see of a queue.

Consumers that ask for the same share one view, so each message is tested once per distinct
selector, not once per consumer. The default view (no selector, from the start) always exists;
without any other view not a single test is run. An exclusive consumer has a view of its own.

    free   heap of sequence numbers: heads of OPEN lanes this view admits
    todo   plain entries (no group) this view has not looked at yet, in order
    cursor the highest number looked at; never moves back (a returned message below it goes
           into `back`, which is tested again, so nothing is skipped and nothing seen twice)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from covey.core.entry import GONE, PENDING, Entry
from covey.core.lane import OPEN
from covey.core.line import LANES, PLAIN, Line

if TYPE_CHECKING:
    from covey.core.consumer import Consumer
    from covey.core.index import Index
    from covey.core.selector import Selector


class View:
    """One selector's window onto a queue."""

    __slots__ = (
        "back",
        "checked",
        "cursor",
        "exclusive",
        "free",
        "from_seq",
        "lane_line",
        "members",
        "plain_line",
        "selector",
        "todo",
    )

    def __init__(self, selector: Selector | None, from_seq: int) -> None:
        self.selector = selector
        self.from_seq = from_seq
        self.exclusive: Consumer | None = None
        self.members: list[Consumer] = []
        self.free: list[int] = []
        self.todo: deque[Entry] = deque()
        self.cursor = 0
        self.checked: Entry | None = None  # the head of `todo`, once it was found to match
        self.back: list[int] = []
        self.lane_line = Line(self, LANES)
        self.plain_line = Line(self, PLAIN)

    def matches(self, entry: Entry) -> bool:
        """Say whether the selector and from-seq let the entry through."""
        if entry.seq < self.from_seq:
            return False
        return self.selector is None or self.selector.matches(entry.content.lookup)

    def list_free(self, seq: int) -> None:
        """Note the head of an open lane."""
        heappush(self.free, seq)

    def best_free(self, index: Index) -> Entry | None:
        """Return the oldest head of an open lane, dropping places that no longer hold."""
        free = self.free
        while free:
            entry = index.get(free[0])
            if entry is not None:
                lane = entry.lane
                if lane.head is entry and lane.where == OPEN:
                    return entry
            heappop(free)
        return None

    def best_returned(self, index: Index) -> Entry | None:
        """Return the oldest returned plain entry."""
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

    def restart(self, entries: Iterable[Entry]) -> None:
        """Look at all plain entries anew: the set of views changed."""
        self.todo = deque(entries)
        self.cursor = 0
        self.checked = None
        self.back = []
