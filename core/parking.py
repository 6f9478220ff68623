"""Parking: work that waits for room in a queue, in the order it came.

A producer whose message finds its queue full (`full_policy = "block"`) waits here; so does a
commit. When the queue has lost a message the oldest piece of work is tried again, as a whole; it
may then wait for another queue.

A queue that somebody waits for says so when it loses a message (`free`), and no more: trying
again there and then would put a message into a queue that is in the middle of something. The
broker retries between dispatches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from covey.core.queue import Queue

if TYPE_CHECKING:
    from covey.core.destination import Destination
    from covey.core.message import Message
    from covey.core.session import Session

Send = tuple[tuple["Destination", ...], "Message"]


class Work:
    """Messages to be published all together, and what follows."""

    __slots__ = ("done", "refused", "sends", "session", "taken")

    def __init__(
        self,
        session: Session,
        sends: list[Send],
        done: Callable[[], None] | None = None,
        refused: Callable[[], None] | None = None,
        taken: Callable[[], None] | None = None,
    ) -> None:
        self.session = session
        self.sends = sends
        self.taken = taken  # called as it is taken: what it does is part of the same batch
        self.done = done  # called once all of it is safe
        self.refused = refused  # called if it is refused after it had to wait


class Parking:
    """Who waits for which queue."""

    def __init__(self) -> None:
        self.waiting: dict[Queue, deque[Work]] = {}
        self.freed: dict[Queue, None] = {}  # those that lost a message somebody waits for

    def add(self, queue: Queue, work: Work) -> None:
        """Let a piece of work wait for a queue."""
        self.waiting.setdefault(queue, deque()).append(work)
        queue.freed = self.free

    def free(self, queue: Queue) -> None:
        """Hear that a queue has more room, or is gone."""
        if queue in self.waiting:
            self.freed[queue] = None

    def retry(self, attempt: Callable[[Work], Queue | None]) -> None:
        """Try what waits for the freed queues, oldest first, until it finds no room again.

        `attempt` returns the queue that has no room, None if the work is done with.
        """
        while self.freed:
            queue = next(iter(self.freed))
            del self.freed[queue]
            self._retry(queue, attempt)

    def forget(self, session: Session) -> None:
        """Drop the work of a session that went; who waited behind it may go on."""
        for queue, line in list(self.waiting.items()):
            kept = deque([work for work in line if work.session is not session])
            if len(kept) == len(line):
                continue
            if kept:
                self.waiting[queue] = kept
                self.freed[queue] = None
            else:
                del self.waiting[queue]
                self.freed.pop(queue, None)
                queue.freed = None

    def _retry(self, queue: Queue, attempt: Callable[[Work], Queue | None]) -> None:
        line = self.waiting.pop(queue, None)
        queue.freed = None
        while line:
            blocker = attempt(line[0])
            if blocker is queue:
                self.waiting[queue] = line
                queue.freed = self.free
                return
            work = line.popleft()
            if blocker is not None:
                self.add(blocker, work)
