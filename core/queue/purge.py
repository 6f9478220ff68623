# Compiled by mypyc: see setup.py.
"""Purge: drop the messages of a queue that nobody has acquired, up to a number.

A purge drops what was there when it began: numbers above `last` stay. A message that a consumer
held then stays, too, even if it comes back before the purge is done (`spare`). Nothing is handed
out meanwhile. So the outcome is the same as if all had been dropped at once.

`Disposal` frees what a deleted queue held. The queue is gone at once, on disk as well. But to free
a million entries takes the interpreter half a second. So they are freed in portions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.events.event import EventKind
from covey.core.jobs.job import Job, Steps
from covey.core.model.entry import ACQUIRED
from covey.core.queue.queue import Queue

if TYPE_CHECKING:
    from covey.core.queue.timers import Waiting
    from covey.core.session import Session


class Purge(Job):
    """Drops a queue's messages up to number `last`; if 0, all of them and the delayed ones."""

    def __init__(self, queue: Queue, last: int = 0, session: Session | None = None) -> None:
        delayed = queue.timers.delayed
        total = queue.state.index.count + (0 if last else delayed.count)
        super().__init__("trim" if last else "purge", f"queue {queue.name}", session, total)
        self.queue = queue
        self.is_stoppable = not last
        self.count = 0  # messages dropped so far
        self._spared: set[int] = set()
        self._last = last or queue.next_seq - 1
        self._delayed: list[Waiting] = [] if last else delayed.clear()
        queue.suspend()
        queue.purges.append(self)

    def spare(self, seq: int) -> None:
        """Leave a message alone: it was acquired when the purge began, and comes back."""
        if seq <= self._last:
            self._spared.add(seq)

    def steps(self) -> Steps:
        """Drop one message after the other, the oldest first."""
        queue = self.queue
        index = queue.state.index
        entry = index.at_or_after(0)
        while entry is not None and entry.seq <= self._last and not queue.is_ended:
            seq = entry.seq
            if entry.state != ACQUIRED and seq not in self._spared:
                self.count += 1
                queue.state.turn(self.now)
                queue.counters.dropped += 1
                queue.drop(entry, EventKind.DROP)
            yield 1
            entry = index.at_or_after(seq + 1)
        while self._delayed:
            queue.owner.given_up(queue, self._delayed.pop())
            self.count += 1
            yield 1

    def ended(self) -> None:
        """Let the queue hand out again."""
        self.queue.purges.remove(self)
        self.queue.resume()


class Disposal(Job):
    """Frees the memory of a deleted queue."""

    def __init__(self, queue: Queue) -> None:
        count = queue.state.index.count
        super().__init__("free", f"queue {queue.name}", None, count)
        self._queue = queue

    def steps(self) -> Steps:
        """Free all that refers to entries, then the entries, a page at a time."""
        state = self._queue.state
        for view in state.views:
            for level in view.levels():
                while level.todo:
                    level.todo.popleft()
                    yield 0
        while state.lanes:
            lane = state.lanes.popitem()[1]
            lane.clear()
            yield 0
        freed = state.index.drop_newest_page()
        while freed:
            yield freed
            freed = state.index.drop_newest_page()
