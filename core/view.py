"""View: what a set of consumers with the same selector and from-seq may see of a queue.

Consumers that ask for the same share one view, so each message is tested once per distinct
selector, not once per consumer. The default view (no selector, from the start) always exists;
without any other view not a single test is run. An exclusive consumer has a view of its own, and
so has one that refused a message for itself alone (`core.exclusions`).

    free   heap of sequence numbers: heads of OPEN lanes this view admits

A view is itself the first level of the messages without a group (see `core.level`), the only one
but for a priority queue, which keeps the others in `lower`.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from covey.core.entry import Entry
from covey.core.lane import OPEN
from covey.core.level import Level
from covey.core.line import LANES, PLAIN, Line

if TYPE_CHECKING:
    from covey.core.consumer import Consumer
    from covey.core.index import Index
    from covey.core.selector import Selector


class View(Level):
    """One selector's window onto a queue."""

    __slots__ = (
        "exclusive",
        "free",
        "from_seq",
        "lane_line",
        "lower",
        "members",
        "plain_line",
        "refused",
        "selector",
    )

    def __init__(self, selector: Selector | None, from_seq: int, levels: int = 1) -> None:
        super().__init__()
        self.selector = selector
        self.from_seq = from_seq
        self.exclusive: Consumer | None = None
        self.refused: set[int] | None = None  # what its one member must not get again
        self.members: list[Consumer] = []
        self.free: list[int] = []
        self.lower: list[Level] = [Level() for _ in range(levels - 1)]
        self.lane_line = Line(self, LANES)
        self.plain_line = Line(self, PLAIN)

    def matches(self, entry: Entry) -> bool:
        """Say whether the selector and from-seq let the entry through."""
        if entry.seq < self.from_seq:
            return False
        if self.refused is not None and entry.seq in self.refused:
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

    def forget(self, seq: int, rank: int) -> None:
        """Drop the places of an entry: old ones would be good again once it is back."""
        self.free = [number for number in self.free if number != seq]
        heapify(self.free)
        level = self.level(rank)
        level.back = [number for number in level.back if number != seq]
        heapify(level.back)

    def level(self, rank: int) -> Level:
        """Return a level of the plain entries; 0 is the highest."""
        return self.lower[rank - 1] if rank else self

    def levels(self) -> list[Level]:
        """Return all of them, the highest first."""
        return [self, *self.lower]

    def restart_all(self, entries: list[Entry]) -> None:
        """Look at all plain entries anew, each in its level."""
        if not self.lower:
            self.restart(entries)
            return
        for rank, level in enumerate(self.levels()):
            level.restart([entry for entry in entries if entry.lane.rank == rank])
