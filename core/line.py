"""Line: willing consumers of one view, best first.

A heap with lazy truth. A consumer's place is valid only while `consumer.places[slot]` still
names it and the consumer belongs to this line's view; others are dropped when they reach the
top. So a consumer that runs dry, changes its selector or leaves costs nothing until then.

Two lines a view: the lane line (who gets a group nobody owns: highest priority, fewest groups
for its weight, longest without one) and the plain line (who gets a message without a group:
highest priority, least served for its weight).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from covey.core.consumer import Consumer
    from covey.core.view import View

LANES: Final = 0
PLAIN: Final = 1

VOID_SPARED: Final = 64  # void places that are not worth a rebuild


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
            # Void places with a high load would never reach the top, and no place does while there
            # is nothing to hand out: those who have left would be kept for ever.
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
            heappop(heap)
        return None

    def replace_best(self, load: float, tie: int, place: int) -> None:
        """Move the consumer `best` just returned to where its new load puts it."""
        top = self.heap[0]
        consumer = top[4]
        self.floor = top[1]
        consumer.places[self.slot] = place
        heapreplace(self.heap, (top[0], load, tie, place, consumer))
