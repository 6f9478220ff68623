"""Founding: how the queues of a virtual host begin and end.

A new queue gets its strategy, its limits, its place in the store and whatever else it needs to be
used; one that comes back under its old name goes on counting where that stopped (`core.numbers`).
At the end its readers are told why, and whoever waits for room in it goes on.
"""

from __future__ import annotations

from collections.abc import Callable

from covey.config.queues import QueueSettings
from covey.core.clock import Clock
from covey.core.counts import Counts
from covey.core.destination import TEMPORARY_ROOT
from covey.core.events import EventSink
from covey.core.ledger import Ledger
from covey.core.numbers import Numbers
from covey.core.policies import Policies
from covey.core.policy import key_of, strategy_of
from covey.core.queue import Queue


class Founding:
    """What all queues of one virtual host are given."""

    def __init__(self, host_id: str, policies: Policies, clock: Clock) -> None:
        self.policies = policies
        self.numbers = Numbers()
        self.dirty: list[Queue] = []
        self.gone = Counts()  # what happened on queues that have ended
        self.events: EventSink | None = None
        self.ledger: Ledger | None = None  # the store's book, if there is a store
        self.prepare: Callable[[Queue], None] = _nothing  # the broker's hooks into a new queue
        self._host_id = host_id
        self._clock = clock

    def begin(self, name: str, settings: QueueSettings, kind: str) -> Queue:
        """Make a queue; the kind is the store's word for what it is."""
        limits = self.policies.broker
        strategy = strategy_of(settings)
        queue = Queue(name, settings, strategy, key_of(settings, strategy, limits))
        queue.membership.selectors_max = limits.selectors_per_queue_max
        queue.next_seq = self.numbers.take(name)
        queue.dropped_to = queue.next_seq - 1  # what an earlier queue of the name still held
        queue.dirty = self.dirty
        queue.touched_at = self._clock.now
        self.report(queue)
        self.prepare(queue)
        if self.ledger is not None:
            self.ledger.open(self._host_id, kind, queue)
        return queue

    def report(self, queue: Queue) -> None:
        """Let a queue tell its events to whoever hears them now."""
        queue.board.events = None if self.events is None else self.events.of_queue(queue.name)

    def end(self, queue: Queue, reason: str) -> None:
        """Let go of a queue that is in use no more; the store is told by whoever ends it."""
        self._remember(queue)
        queue.timers.delayed.clear()  # the store forgets the whole queue
        for consumer in [*queue.board.consumers.values(), *queue.board.browsers]:
            queue.leave(consumer, self._clock.now)
            consumer.cancelled(reason)
        self.gone.add(queue.counts)
        self.gone.dropped += queue.board.index.count
        if queue.freed is not None:
            queue.freed(queue)  # who waits for room in it goes on, to a new queue of its name

    def _remember(self, queue: Queue) -> None:
        # Nobody else ever gets a connection's temporary name, and its readers are gone.
        if queue.next_seq == 1 or queue.name.startswith(TEMPORARY_ROOT):
            return
        forgotten = self.numbers.keep(queue.name, queue.next_seq)
        if forgotten and self.ledger is not None:
            self.ledger.forget(self._host_id, forgotten, self.numbers.floor)


def _nothing(queue: Queue) -> None:
    """Prepare nothing."""
