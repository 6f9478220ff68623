# Compiled by mypyc: see setup.py.
"""View: what a set of consumers with the same selector and from-seq may see of a queue.

Consumers that ask for the same share one view. So each message is tested once per distinct
selector, not once per consumer. The default view (no selector, from the start) always exists.
While it is the only view, no message is tested. An exclusive consumer has a view of its own. So has
a consumer that refused a message for itself alone (`core.dispatch.admission`).

    free   heap of sequence numbers: heads of OPEN lanes that this view admits

A view is itself the first level of the messages without a group (`core.dispatch.level`). Only a
priority queue has others, in `lower`.

`Line` holds the willing consumers of one view, the best first. It is a heap whose places may be
out of date. A place is valid only while `consumer.places[slot]` has its number and the
consumer belongs to this line's view. Other places are dropped when they reach the top. So a
consumer that runs dry, changes its selector or leaves costs nothing until then.

A view has two lines:

    lane_line       who gets a group that nobody owns: highest priority, fewest groups for its
                    weight, longest without a new one
    ungrouped_line  who gets a message without a group: highest priority, least served for its
                    weight
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final

from covey.core.dispatch.level import Level
from covey.core.model.entry import Entry

if TYPE_CHECKING:
    from covey.core.model.consumer import Consumer
    from covey.core.selector import Selector


LANES: Final = 0
UNGROUPED: Final = 1

VOID_SPARED: Final = 64  # so few void places are not worth a rebuild


class Line:
    """Consumers waiting for work of one sort."""

    __slots__ = ("floor", "heap", "slot", "view")

    def __init__(self, view: View, slot: int) -> None:
        self.view = view
        self.slot = slot
        # (-priority, load, tie, place, consumer): the place is unique, consumers never compare.
        self.heap: list[tuple[int, float, int, int, Consumer]] = []
        self.floor = 0.0  # the load of whoever was served last

    def push(self, consumer: Consumer, load: float, tie: int, place: int) -> None:
        """Give a consumer a place; an earlier place of it is void from now on."""
        consumer.places[self.slot] = place
        heappush(self.heap, (-consumer.priority, load, tie, place, consumer))
        if len(self.heap) > 2 * len(self.view.members) + VOID_SPARED:
            # A void place is dropped only at the top. One with a high load may never get there,
            # and none does while there is nothing to hand out. It would keep its consumer alive.
            self.heap = [
                top
                for top in self.heap
                if top[4].places[self.slot] == top[3] and top[4].view is self.view
            ]
            heapify(self.heap)

    def best(self) -> Consumer | None:
        """Return the consumer whose turn it is, None if nobody is willing."""
        heap = self.heap
        while heap:
            top = heap[0]
            consumer = top[4]
            if consumer.places[self.slot] == top[3] and consumer.view is self.view:
                if consumer.is_willing():
                    return consumer
                consumer.places[self.slot] = 0
                consumer.window.stall(consumer)
            heappop(heap)
        return None

    def replace_best(self, load: float, tie: int, place: int) -> None:
        """Move the consumer that `best` has just returned to the place of its new load."""
        top = self.heap[0]
        consumer = top[4]
        self.floor = top[1]
        consumer.places[self.slot] = place
        heapreplace(self.heap, (top[0], load, tie, place, consumer))


class View(Level):
    """One selector's window onto a queue."""

    __slots__ = (
        "exclusive",
        "free",
        "from_seq",
        "lane_line",
        "lower",
        "members",
        "refused",
        "selector",
        "ungrouped_line",
    )

    def __init__(self, selector: Selector | None, from_seq: int, levels: int = 1) -> None:
        super().__init__()
        self.selector = selector
        self.from_seq = from_seq
        self.exclusive: Consumer | None = None
        self.refused: set[int] | None = None  # numbers that its one member must not get again
        self.members: list[Consumer] = []
        self.free: list[int] = []
        self.lower: list[Level] = [Level() for _ in range(levels - 1)]
        self.lane_line = Line(self, LANES)
        self.ungrouped_line = Line(self, UNGROUPED)

    def matches(self, entry: Entry) -> bool:
        """Return True if the selector and from-seq let the entry through."""
        if entry.seq < self.from_seq:
            return False
        if self.refused is not None and entry.seq in self.refused:
            return False
        return self.selector is None or self.selector.matches(entry.content.lookup)

    def forget(self, seq: int, rank: int) -> None:
        """Drop the places of an entry: they would be valid again when the entry comes back."""
        self.free = [number for number in self.free if number != seq]
        heapify(self.free)
        level = self.level(rank)
        level.back = [number for number in level.back if number != seq]
        heapify(level.back)

    def level(self, rank: int) -> Level:
        """Return a level of the ungrouped entries; 0 is the highest."""
        return self.lower[rank - 1] if rank else self

    def levels(self) -> list[Level]:
        """Return all levels, the highest first."""
        return [self, *self.lower]

    def restart_all(self, unread: int) -> None:
        """Look again at all ungrouped entries from a number on, each in its level."""
        for level in self.levels():
            level.restart(unread)
