# Compiled by mypyc: see setup.py.
"""Turns: what the core does at the end of every batch of events, and when time alone has passed.

Queues to which something happened are *dirty*. Each dirty queue is pumped once, however much
happened to it. A queue that uses up its budget before its work is done gets another turn, after the
others had theirs. A pump may make room. Then work that waited for room is done, which may make
further queues dirty. Last of all the turn's changes go to the store, as one batch.

Queues with a deadline (an expiry, a delay, a redelivery) are *timed*: a heap has the soonest first.
Only queues whose time has come are looked at, however many others are timed. A deadline that moves
away is found to have moved when its old time comes. One that comes nearer gets a new place in the
heap, and the old place is void. Expiry goes by the wall clock. If that jumps, all timed queues are
looked at once.

`Turns` is the owner of all queues (`core.queue.owner`). It marks queues dirty, and passes their
requests on to the store and to `core.publishing`.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Final

from covey.core.broker.shared import Shared
from covey.core.dispatch.state import ParkRecord
from covey.core.host.virtual_host import VirtualHost
from covey.core.model.consumer import Consumer, Window
from covey.core.model.entry import Entry
from covey.core.model.message import Message
from covey.core.publishing.publishing import Publishing
from covey.core.queue.owner import QueueOwner
from covey.core.queue.queue import Queue
from covey.core.queue.timers import Waiting
from covey.core.storage.commits import Commits

NEVER: Final = 1e18
JUMP_S: Final = 0.5  # a wall clock that is corrected little by little is no jump
VOID_SPARED: Final = 64  # so few void places are not worth a walk
DUE_AT_ONCE = 2000  # queues looked at in one turn as their time has come; a test makes it small
PUMPING_S: Final = 0.01  # of pumping in one turn; queues that are left have the next turn


class Turns(QueueOwner):
    """The queues that have something to do, and what they ask of the broker meanwhile."""

    def __init__(
        self, shared: Shared, commits: Commits, publishing: Publishing, hosts: list[VirtualHost]
    ) -> None:
        """Begin with no queue; the broker fills `hosts`."""
        super().__init__(shared.audit)
        self._pager = commits.pager
        self._dirty: deque[Queue] = deque()  # the one that has waited longest is first
        self._stuck: list[Queue] = []  # dirty ones that wait until the store goes on
        self._opened: list[Window] = []  # windows with credit that not all consumers know of yet
        self._stopwatch = shared.stopwatch  # tells the time within a turn
        self._timed: dict[Queue, float] = {}  # when to look at each, as the heap has it
        self._deadlines: list[tuple[float, int, Queue]] = []  # heap; the number is unique
        self._deadline_count = 0
        self._offset = 0.0  # of the wall clock, when all deadlines were last looked at
        self.soonest = NEVER  # the earliest deadline of the queues pumped since the last `run`
        self._hosts = hosts
        self.dying: list[tuple[Queue, str, str]] = []  # groups to dead-letter after one message
        self.finished: list[tuple[Consumer, str]] = []  # consumers whose only group is empty
        self._clock = shared.clock
        self._commits = commits
        self._publishing = publishing

    @property
    def is_any_dirty(self) -> bool:
        """Return True if the next run has a queue to pump."""
        return bool(self._dirty)

    @property
    def is_due(self) -> bool:
        """Return True if there is something to do."""
        return bool(
            self._dirty
            or self._stuck
            or self._opened
            or self._publishing.waiting_work.is_due
            or self._commits.is_due
        )

    def run(self, budget: int) -> bool:
        """Deliver what can be delivered, and hand the changes to the store.

        Return True if there is more to do.
        """
        now = self._clock.now
        if self._commits.is_suspended(now):
            if self._commits.is_due:
                self._commits.flush(now)
            return False  # the queues stay dirty until the next tick
        if self._stuck:
            self._dirty.extend(self._stuck)
            self._stuck = []
        unfinished: list[Queue] = []
        waiting_work = self._publishing.waiting_work
        deadline = 0.0 if self._stopwatch is None else self._stopwatch() + PUMPING_S
        has_time = self._pump(budget, unfinished, deadline)
        while has_time and (self._opened or waiting_work.is_due):
            opened, self._opened = self._opened, []
            for window in opened:
                window.reconsider()
            if waiting_work.is_due:
                self._publishing.retry()
            has_time = self._pump(budget, unfinished, deadline)
            if self._stopwatch is not None and self._stopwatch() >= deadline:
                has_time = False
        for queue in unfinished:
            queue.mark()
        if self._pager is not None:
            self._pager.trim()
        if self._commits.has_changes or self._commits.ledger.has_changes:
            self._commits.flush(now)
        return bool(unfinished or self._dirty or self._opened or waiting_work.is_due)

    def _pump(self, budget: int, unfinished: list[Queue], deadline: float) -> bool:
        """Pump the dirty queues; add to `unfinished` those that need another turn.

        Return False if the deadline has passed. The queues that are left stay dirty.
        """
        now = self._clock.now
        wall_ms = self._clock.wall_ms
        if self._publishing.fanned is not None:
            self._publishing.fan_out(now)
        dirty = self._dirty
        host = self._hosts[0]
        is_stuck = self._commits.is_stuck(now)
        while dirty:
            queue = dirty.popleft()
            if is_stuck and queue.storage_state.has_kept:
                self._stuck.append(queue)
                continue
            if host.outdated and queue in host.outdated:
                host.renew(queue)
            if queue.pump(now, wall_ms, budget):
                unfinished.append(queue)
            else:
                due = queue.next_deadline(now, wall_ms)
                if due:
                    self._time(queue, due)
                    self.soonest = min(self.soonest, due)
                elif self._timed:
                    self._timed.pop(queue, None)
            if self._pager is not None and self._pager.serve(queue):
                unfinished.append(queue)
            if self._stopwatch is not None and dirty and self._stopwatch() >= deadline:
                return False
        return True

    def mark_due(self, latest: float) -> float:
        """Mark the queues whose deadline has come; return the next deadline, `latest` at most.

        Very many may be due at one moment. Those that are left are due still.
        """
        now = self._clock.now
        wall_ms = self._clock.wall_ms
        if abs(self._clock.offset - self._offset) > JUMP_S:
            self._offset = self._clock.offset
            self._deadlines = [(0.0, at, queue) for at, queue in enumerate(self._timed)]
            self._timed = dict.fromkeys(self._timed, 0.0)
            self._deadline_count = len(self._timed)
        deadlines = self._deadlines
        left = DUE_AT_ONCE
        while left > 0 and deadlines and deadlines[0][0] <= now:
            left -= 1
            noted, _, queue = heappop(deadlines)
            if self._timed.get(queue) != noted:
                continue  # the deadline came nearer, and has another place
            del self._timed[queue]
            due = queue.next_deadline(now, wall_ms)
            if due > now:
                self._time(queue, due)
            elif due:
                queue.mark()  # its pump says when the next one is
        return min(latest, deadlines[0][0]) if deadlines else latest

    def _time(self, queue: Queue, due: float) -> None:
        """Look at a queue when its deadline has come, or before."""
        known = self._timed.get(queue)
        if known is not None and known <= due:
            return
        self._timed[queue] = due
        self._deadline_count += 1
        heappush(self._deadlines, (due, self._deadline_count, queue))
        if len(self._deadlines) > 2 * len(self._timed) + VOID_SPARED:
            self._deadlines = [
                place for place in self._deadlines if self._timed.get(place[2]) == place[0]
            ]
            heapify(self._deadlines)

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

    def dead_letter(self, queue: Queue, entry: Entry, reason: str) -> None:
        """Put a dead message into its dead-letter queue; do nothing if its own queue has ended."""
        host = next((host for host in self._hosts if host.has(queue)), None)
        if host is not None:
            self._publishing.dead_letter(host, queue, entry, reason)

    def rest_dies(self, queue: Queue, group: str, reason: str) -> None:
        """Note that the rest of a group is to die; the broker begins that work after the pumps."""
        host = next((host for host in self._hosts if host.has(queue)), None)
        if host is not None:
            record = ParkRecord("", self._clock.wall_ms, reason)
            host.queue_factory.dying.keep(queue.name, group, record)
        self.dying.append((queue, group, reason))

    def parked(self, queue: Queue, group: str, record: ParkRecord) -> None:
        """Remember a parked group in the store."""
        host = next((host for host in self._hosts if host.has(queue)), None)
        if host is not None:
            host.queue_factory.parked.keep(queue.name, group, record)

    def freed(self, queue: Queue) -> None:
        """Have the work that waits for room in the queue tried again after the pumps."""
        self._publishing.waiting_work.free(queue)

    def let_in(self, queue: Queue, waiting: Waiting) -> None:
        """Enqueue a message whose time has come."""
        self._publishing.arrivals.let_in(queue, waiting)

    def put(self, queue: Queue, message: Message) -> None:
        """Put a message of a topic into the queue, as its quota allows."""
        self._publishing.arrivals.put(queue, message)

    def group_done(self, consumer: Consumer, group: str) -> None:
        """Note that a consumer's only group is done; its subscription ends after the pumps."""
        self.finished.append((consumer, group))

    def opened(self, window: Window) -> None:
        """Let a window tell the next of its consumers of its credit, after this pump."""
        self._opened.append(window)

    def given_up(self, queue: Queue, waiting: Waiting) -> None:
        """Delete a delayed message from the store."""
        self._commits.given_up(queue, waiting)
