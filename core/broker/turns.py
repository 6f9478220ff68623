# Compiled by mypyc: see setup.py.
"""Turns: what the core does at the end of every batch of events, and when time alone has passed.

Queues to which something happened are *dirty* and are pumped once, however much it was. One whose
budget ends before its work does gets another turn, after the others had theirs. Room that a pump
has made lets in the work that waited, which may make further queues dirty. Last of all the turn's
changes go to the store, as one batch.

Queues with a deadline (an expiry, a delay, a redelivery) are *timed*: they are looked at when time
has passed, and forgotten when they have none any more.

`Turns` is the owner of all queues (`core.queue.owner`): it marks them dirty, and passes on what
they ask of the store and of the ways in.
"""

from __future__ import annotations

from covey.core.clock import Clock
from covey.core.events.audit import Audit
from covey.core.host.virtual_host import VirtualHost
from covey.core.model.entry import Entry
from covey.core.model.message import Message
from covey.core.publishing.publishing import Publishing
from covey.core.queue.owner import QueueOwner
from covey.core.queue.queue import Queue
from covey.core.queue.timers import Waiting
from covey.core.storage.commits import Commits


class Turns(QueueOwner):
    """The queues that have something to do, and what they ask of the broker meanwhile."""

    def __init__(
        self,
        clock: Clock,
        commits: Commits,
        publishing: Publishing,
        hosts: list[VirtualHost],
        audit: Audit,
    ) -> None:
        """Begin with no queue; the broker fills `hosts`."""
        super().__init__(audit)
        self._pager = commits.pager
        self._dirty: list[Queue] = []
        self._timed: set[Queue] = set()
        self._hosts = hosts
        self._clock = clock
        self._commits = commits
        self._publishing = publishing

    @property
    def is_any_dirty(self) -> bool:
        """Return True if the next run has a queue to pump."""
        return bool(self._dirty)

    @property
    def is_due(self) -> bool:
        """Return True if there is something to do."""
        return bool(self._dirty or self._publishing.waiting_work.is_due or self._commits.is_due)

    def run(self, budget: int) -> bool:
        """Deliver what can be delivered and hand the changes over; True: there is more to do."""
        unfinished: list[Queue] = []
        waiting_work = self._publishing.waiting_work
        self._pump(budget, unfinished)
        while waiting_work.is_due:
            self._publishing.retry()
            self._pump(budget, unfinished)
        for queue in unfinished:
            queue.mark()
        if self._pager is not None:
            self._pager.trim()
        if self._commits.has_changes or self._commits.ledger.has_changes:
            self._commits.flush()
        return bool(unfinished)

    def _pump(self, budget: int, unfinished: list[Queue]) -> None:
        """Pump every queue that something happened to; those that need more turns are listed."""
        now = self._clock.now
        wall_ms = self._clock.wall_ms
        if self._publishing.fanned is not None:
            self._publishing.fan_out(now)
        dirty = self._dirty
        while dirty:
            queue = dirty.pop()
            if queue.pump(now, wall_ms, budget):
                unfinished.append(queue)
            elif queue.next_deadline(now, wall_ms):
                self._timed.add(queue)
            if self._pager is not None:
                self._pager.serve(queue)

    def mark_due(self, latest: float) -> float:
        """Mark the queues whose time has come; return when the next one's comes, or `latest`."""
        now = self._clock.now
        wall_ms = self._clock.wall_ms
        deadline = latest
        for queue in list(self._timed):
            due = queue.next_deadline(now, wall_ms)
            if due == 0.0:
                self._timed.discard(queue)
            elif due <= now:
                queue.mark()
            else:
                deadline = min(deadline, due)
        return deadline

    # What queues ask for (`core.queue.owner`).

    def mark(self, queue: Queue) -> None:
        """Pump the queue at the end of this turn."""
        self._dirty.append(queue)

    def removed(self, queue: Queue, entry: Entry) -> None:
        """Delete a message from the store."""
        self._commits.removed(queue, entry)

    def retried(self, queue: Queue, entry: Entry) -> None:
        """Count a failed delivery in the store."""
        self._commits.retried(queue, entry)

    def dead_letter(self, queue: Queue, message: Message, reason: str) -> None:
        """Put a dead message into its dead-letter queue; nothing if its own queue has ended."""
        host = next((host for host in self._hosts if host.has(queue)), None)
        if host is not None:
            self._publishing.dead_letter(host, queue, message, reason)

    def freed(self, queue: Queue) -> None:
        """Try the work that waits for room in the queue, between dispatches."""
        self._publishing.waiting_work.free(queue)

    def let_in(self, queue: Queue, waiting: Waiting) -> None:
        """Enqueue a message whose time has come."""
        self._publishing.arrivals.let_in(queue, waiting)

    def put(self, queue: Queue, message: Message) -> None:
        """Put a message of a topic into the queue, as its quota allows."""
        self._publishing.arrivals.put(queue, message)
