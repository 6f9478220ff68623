"""Delayed: messages whose time has not come, outside the queue they are meant for.

They have no sequence number until they are due, so order, browsers and bookmarks never see the
past change; then they come in like any other message, at the end. What is due at the same moment
comes in the order it was sent. They count for the queue's quota from the start, so that nobody
has to be refused when the time comes.

A persistent one is in the store at a place of its own (`place`, above every sequence number), and
moves from there to its number in one step. Its body stays there: here is only what the queue
needs to give it a place. One that is not persistent is kept in memory whole.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from covey.core.message import Message

if TYPE_CHECKING:
    from covey.core.stores.base import MessageRecord

PLACE: Final = 1 << 41  # sequence numbers of seven years at 10,000 a second stay below it


class Waiting:
    """One message that waits for its time."""

    __slots__ = (
        "arrival",
        "due_ms",
        "expires_ms",
        "is_kept",
        "key",
        "message",
        "priority",
        "size",
    )

    def __init__(self, arrival: int, due_ms: int, key: str) -> None:
        self.arrival = arrival
        self.due_ms = due_ms
        self.key = key  # its group, or what a last-value queue replaces it by
        self.message: Message | None = None  # None: its body is in the store
        self.size = 0
        self.expires_ms = 0
        self.priority = 0
        self.is_kept = False

    @property
    def place(self) -> int:
        """Return what stands for a sequence number in the store."""
        return PLACE | self.arrival


class Delayed:
    """What waits for its time on one queue."""

    __slots__ = ("_heap", "arrivals", "resident", "size")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Waiting]] = []  # by time, then by arrival
        self.arrivals = 0
        self.size = 0  # content bytes of all of them
        self.resident = 0  # of those in memory

    @property
    def count(self) -> int:
        """Return how many wait."""
        return len(self._heap)

    def add(self, message: Message, key: str, *, is_kept: bool) -> Waiting:
        """Let a message wait until its `due_ms`."""
        waiting = Waiting(self.arrivals, message.due_ms, key)
        waiting.size = message.size
        waiting.expires_ms = message.expires_ms
        waiting.priority = message.priority
        waiting.is_kept = is_kept
        if not is_kept:
            waiting.message = message
            self.resident += message.size
        self._push(waiting)
        return waiting

    def restore(self, record: MessageRecord) -> None:
        """Let a message wait on after a restart."""
        waiting = Waiting(record.seq & ~PLACE, record.due_ms, record.group)
        waiting.size = record.size
        waiting.expires_ms = record.expires_ms
        waiting.priority = record.priority
        waiting.is_kept = True
        self._push(waiting)

    def take_due(self, wall_ms: int, most: int) -> list[Waiting]:
        """Return those whose time has come, at most so many, and let go of them."""
        due: list[Waiting] = []
        while self._heap and self._heap[0][0] <= wall_ms and len(due) < most:
            due.append(heappop(self._heap)[2])
        self._forget(due)
        return due

    def next_ms(self) -> int:
        """Return when the next one is due; 0 for never."""
        return self._heap[0][0] if self._heap else 0

    def clear(self) -> list[Waiting]:
        """Return all of them and let go of them."""
        gone = [waiting for _, _, waiting in self._heap]
        self._heap.clear()
        self._forget(gone)
        return gone

    def _push(self, waiting: Waiting) -> None:
        heappush(self._heap, (waiting.due_ms, waiting.arrival, waiting))
        self.arrivals = max(self.arrivals, waiting.arrival + 1)
        self.size += waiting.size

    def _forget(self, gone: list[Waiting]) -> None:
        for waiting in gone:
            self.size -= waiting.size
            if waiting.message is not None:
                self.resident -= waiting.size
