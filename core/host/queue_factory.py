"""QueueFactory: how the queues of a virtual host begin and end.

A new queue gets its owner, its strategy, its limits and its place in the store. When a queue ends,
its readers are told why, and producers that wait for room in it go on.

`Numbers` know the next sequence number of each queue that has ended. A new queue of the same name
goes on from there. A sequence number is never given twice, since browsers keep them as bookmarks.
The count of names is limited. Queues of forgotten names go on from the highest of their numbers,
the floor.
"""

from __future__ import annotations

from typing import Final

from covey.config.queues import QueueSettings
from covey.core.clock import Clock
from covey.core.events.event import EventSink
from covey.core.host.stops import PARK, PAUSE, REST, Stops
from covey.core.naming.destination import TEMPORARY_ROOT
from covey.core.naming.policies import Policies
from covey.core.queue.counters import Counters
from covey.core.queue.owner import QueueOwner
from covey.core.queue.policy import key_of, park, pause, strategy_of
from covey.core.queue.queue import Queue
from covey.core.storage.ledger import Ledger

REMEMBERED_MAX: Final = 100_000  # names, at about 150 bytes each


class Numbers:
    """The next sequence number of every name that was used and has no queue now."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self.floor = 1  # where names that were forgotten, or never used, begin

    def take(self, name: str) -> int:
        """Return where a new queue of this name begins."""
        return self._next.pop(name, self.floor)

    def keep(self, name: str, next_seq: int) -> str:
        """Remember a name; return the one that had to be forgotten for it, "" if none."""
        self._next[name] = next_seq
        if len(self._next) <= REMEMBERED_MAX:
            return ""
        oldest = next(iter(self._next))
        self.floor = max(self.floor, self._next.pop(oldest))
        return oldest

    def recall(self, name: str, next_seq: int, *, is_floor: bool) -> None:
        """Take over at a restart the next number of a name, or the floor."""
        if is_floor:
            self.floor = max(self.floor, next_seq)
        else:
            self._next[name] = next_seq


class QueueFactory:
    """Makes and ends the queues of one virtual host."""

    def __init__(
        self,
        host_id: str,
        policies: Policies,
        clock: Clock,
        owner: QueueOwner,
        ledger: Ledger | None,
    ) -> None:
        """Make queues that belong to an owner; the ledger is the store's, if there is a store."""
        self.policies = policies
        self.numbers = Numbers()
        self.gone = Counters()  # what happened on queues that have ended
        self.events: EventSink | None = None
        self.ledger = ledger
        self.parked = Stops(PARK, host_id, ledger)
        self.paused = Stops(PAUSE, host_id, ledger)
        self.dying = Stops(REST, host_id, ledger)
        self._owner = owner
        self._host_id = host_id
        self._clock = clock

    def begin(self, name: str, settings: QueueSettings, kind: str) -> Queue:
        """Make a queue; `kind` says whether it is a durable subscription's, in the store's word."""
        limits = self.policies.broker
        strategy = strategy_of(settings)
        queue = Queue(name, settings, strategy, key_of(settings, strategy, limits), self._owner)
        queue.membership.selectors_max = limits.selectors_per_queue_max
        queue.next_seq = self.numbers.take(name)
        queue.dropped_to = queue.next_seq - 1  # an earlier queue of this name may have dropped some
        queue.touched_at = self._clock.now
        self.report(queue)
        if self.ledger is not None:
            self.ledger.open(self._host_id, kind, queue)
        for group, record in self.parked.of(name).items():
            park(queue, group, self._clock.now, parked=True, record=record)
        for way, record in self.paused.of(name).items():
            pause(queue, way, self._clock.now, record)
        return queue

    def forget_stops(self, name: str) -> None:
        """Forget which groups and directions of a queue were stopped: the queue is deleted."""
        self.parked.forget(name)
        self.paused.forget(name)
        self.dying.forget(name)

    def report(self, queue: Queue) -> None:
        """Connect a queue with the present sink of events, if there is one."""
        queue.report_to(None if self.events is None else self.events.of_queue(queue.name))

    def end(self, queue: Queue, reason: str) -> None:
        """End a queue; the caller tells the store."""
        queue.is_ended = True
        self._remember(queue)
        queue.timers.delayed.clear()  # the store forgets the whole queue
        for consumer in [*queue.state.consumers.values(), *queue.state.browsers]:
            queue.leave(consumer, self._clock.now)
            consumer.cancelled(reason)
        self.gone.add(queue.counters)
        self.gone.dropped += queue.state.index.count
        if queue.is_awaited:
            self._owner.freed(queue)  # work that waits for it goes on, to a new queue of its name

    def _remember(self, queue: Queue) -> None:
        # No other connection ever gets a temporary name again, and its readers are gone.
        if queue.next_seq == 1 or queue.name.startswith(TEMPORARY_ROOT):
            return
        forgotten = self.numbers.keep(queue.name, queue.next_seq)
        if forgotten and self.ledger is not None:
            self.ledger.forget(self._host_id, forgotten, self.numbers.floor)
