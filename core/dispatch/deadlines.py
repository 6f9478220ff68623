# Compiled by mypyc: see setup.py.
"""Deadlines: how long a consumer may hold a message, and whose time is over.

A queue may have a deadline (`delivery_deadline_s`), and a consumer may ask for another one. The
clock of a message starts at its delivery or at its consumer's last settlement, whichever is later.
So the messages that a busy consumer has prefetched do not run out while it works through them.

    clocks       of one consumer: when each message was delivered, by its number
    clock_from   of one consumer: when it last settled something. No clock starts before it
    heap         of one queue: when to look at which consumer again

A consumer is in the heap once, while it holds something. Its place says when to look, not what is
due: settlements move the clocks on, and cost nothing here. When that time has come, the real
deadline is worked out. If it lies ahead, the consumer goes back into the heap.

Nothing is kept for consumers without a deadline. What becomes of a consumer whose time is over is
the business of `core.dispatch.membership` and `core.queue.redelivery`.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from covey.core.model.consumer import NO_CLOCKS, Consumer
from covey.core.model.entry import Entry

SETTLED_SPARED: Final = 64  # the clocks of so few settled messages are not worth a walk
FAR: Final = 1e18  # a time that never comes
GONE_SPARED: Final = 64  # the places of so few consumers that have left are not worth a walk


class Deadlines:
    """The clocks of one queue's deliveries."""

    __slots__ = ("_gone", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Consumer]] = []
        self._gone = 0  # places of consumers that have left

    def left(self, consumer: Consumer) -> None:
        """Called when a consumer has left: its place would keep it in memory until its time."""
        self._gone += consumer.is_timed
        if self._gone > GONE_SPARED and self._gone * 2 > len(self._heap):
            self._heap = [place for place in self._heap if not place[2].is_gone]
            heapify(self._heap)
            self._gone = 0

    def delivered(self, consumer: Consumer, seq: int, now: float) -> None:
        """Start the clock of a message that goes to a consumer with a deadline."""
        clocks = consumer.clocks
        if clocks is NO_CLOCKS:
            clocks = consumer.clocks = {}
        clocks[seq] = now
        if len(clocks) > 2 * len(consumer.unsettled) + SETTLED_SPARED:
            held = consumer.unsettled
            consumer.clocks = {seq: began for seq, began in clocks.items() if seq in held}
            consumer.clocks[seq] = now
        if not consumer.is_timed:
            self._look_at(consumer, now + consumer.deadline_s)

    def restart(self, consumer: Consumer, now: float) -> None:
        """Start the clocks of all messages that a consumer holds again."""
        consumer.clock_from = now
        if consumer.deadline_s and consumer.unsettled and not consumer.is_timed:
            self._look_at(consumer, now + consumer.deadline_s)

    def take_due(self, now: float) -> Consumer | None:
        """Return the next consumer that has held a message for too long, None if there is none."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            consumer = heappop(heap)[2]
            consumer.is_timed = False
            if consumer.is_gone:
                self._gone = max(0, self._gone - 1)
                continue
            if not consumer.deadline_s or not consumer.unsettled:
                continue
            due = FAR
            for entry in consumer.unsettled.values():
                due = min(due, self._ends(consumer, entry))
                if due <= now:
                    return consumer
            self._look_at(consumer, due)
        return None

    def overdue(self, consumer: Consumer, now: float, most: int) -> list[Entry]:
        """Return `most` messages that a consumer has held for too long, by their numbers.

        The consumer is looked at again for the rest.
        """
        found: list[Entry] = []
        rest = 0.0
        for entry in consumer.unsettled.values():
            end = self._ends(consumer, entry)
            if end <= now:
                found.append(entry)
                if len(found) >= most:
                    rest = now
                    break
            elif rest == 0.0 or end < rest:
                rest = end
        if rest:
            self._look_at(consumer, rest)
        found.sort(key=_by_number)
        return found

    def next_due(self) -> float:
        """Return when to look again; 0 for never."""
        return self._heap[0][0] if self._heap else 0.0

    def _ends(self, consumer: Consumer, entry: Entry) -> float:
        # An entry without a clock came back from a transaction. That set `clock_from`, too.
        return max(consumer.clocks.get(entry.seq, 0.0), consumer.clock_from) + consumer.deadline_s

    def _look_at(self, consumer: Consumer, due: float) -> None:
        consumer.is_timed = True
        heappush(self._heap, (due, consumer.id, consumer))


def _by_number(entry: Entry) -> int:
    return entry.seq
