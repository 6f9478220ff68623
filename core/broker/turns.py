# Compiled by mypyc: see setup.py.
"""Turns: what the core does at the end of every batch of events, and when time alone has passed.

Queues to which something happened are *dirty* and are pumped once, however much it was. One whose
budget ends before its work does gets another turn, after the others had theirs. Room that a pump
has made lets in what was parked, which may make further queues dirty. Last of all the turn's
changes go to the store, as one batch.

Queues with a deadline (an expiry, a delay, a redelivery) are *timed*: they are looked at when time
has passed, and forgotten when they have none any more.
"""

from __future__ import annotations

from covey.core.clock import Clock
from covey.core.publishing.publishing import Publishing
from covey.core.queue.queue import Queue
from covey.core.storage.commits import Commits
from covey.core.storage.paging import Pager


class Turns:
    """The queues that have something to do."""

    __slots__ = ("_clock", "_commits", "_publishing", "_timed", "dirty", "pager")

    def __init__(self, clock: Clock, commits: Commits, publishing: Publishing) -> None:
        self.dirty: list[Queue] = []
        self.pager: Pager | None = None  # none without a durable store
        self._timed: set[Queue] = set()
        self._clock = clock
        self._commits = commits
        self._publishing = publishing

    @property
    def is_due(self) -> bool:
        """Say whether there is something to do."""
        return bool(self.dirty or self._publishing.parking.freed or self._commits.is_due)

    def run(self, budget: int) -> bool:
        """Deliver what can be delivered and hand the changes over; True: there is more to do."""
        unfinished: list[Queue] = []
        parking = self._publishing.parking
        self._pump(budget, unfinished)
        while parking.freed:
            self._publishing.retry()
            self._pump(budget, unfinished)
        for queue in unfinished:
            queue.mark()
        if self.pager is not None:
            self.pager.trim()
        self._commits.flush()
        return bool(unfinished)

    def _pump(self, budget: int, unfinished: list[Queue]) -> None:
        """Pump every queue that something happened to; those that need more turns are listed."""
        now = self._clock.now
        wall_ms = self._clock.wall_ms
        self._publishing.fan_out(now)
        dirty = self.dirty
        while dirty:
            queue = dirty.pop()
            if queue.pump(now, wall_ms, budget):
                unfinished.append(queue)
            elif queue.next_deadline(now, wall_ms):
                self._timed.add(queue)
            if self.pager is not None:
                self.pager.serve(queue)

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
