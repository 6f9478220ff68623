"""Trace: the latest events of a queue, kept for a while because somebody watches the queue.

Nobody switches a trace on or off. The first request for events starts the trace. The trace ends by
itself when nobody has asked for some time. A queue that is not traced reports to nobody, or to the
event log alone, so tracing costs it nothing. A traced queue reports to the trace, and the trace
passes each event on to the event log.

Events of a trace are numbered 1, 2, ... Each request names the last event that the client has seen,
and gets the next ones. The answer also tells how many events were pushed out of the ring before
they were asked for. A trace outlives its queue, so that the deletion can be seen. If a new queue
gets the same name, the trace follows the new queue from the next request on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Final

from covey.config.settings import BrokerSettings
from covey.core.clock import Clock
from covey.core.dispatch.state import DispatchState
from covey.core.errors import RefusedError
from covey.core.events.event import QueueEvents
from covey.core.host.virtual_host import VirtualHost
from covey.core.model.message import Message
from covey.core.naming.destination import DURABLE_PREFIX
from covey.core.queue.queue import Queue

EVENTS_PER_ANSWER: Final = 1000  # so that no answer takes too much of a turn

# Number, time of day in ms, kind, sequence number, group, consumer.
Event = tuple[int, int, int, int, str, int]


@dataclass(frozen=True, slots=True)
class TracePage:
    """One answer of a trace."""

    events: list[Event]
    last: int  # the event number to name in the next request
    missed: int  # events that were pushed out of the ring before they were asked for


class Trace(QueueEvents):
    """The latest events of one queue."""

    def __init__(self, state: DispatchState, clock: Clock, size_max: int) -> None:
        self.last = 0
        self.asked_at = 0.0
        self._ring: deque[Event] = deque(maxlen=size_max)
        self._clock = clock
        self._state = state
        self._log: QueueEvents | None = None
        self.watch(state)

    def record(self, kind: int, group: str, consumer: int, seq: int) -> None:
        """Keep an event, and pass it on."""
        self.last += 1
        # The queue's own time is that of its last pump, which may be long ago.
        self._ring.append((self.last, self._clock.wall_ms, kind, seq, group, consumer))
        if self._log is not None:
            self._log.record(kind, group, consumer, seq)

    def arrive(
        self, kind: int, group: str, seq: int, size: int, persistent: bool, message: Message | None
    ) -> None:
        """Keep the arrival of a message, and pass it on with its size and persistence."""
        self.last += 1
        self._ring.append((self.last, self._clock.wall_ms, kind, seq, group, 0))
        if self._log is not None:
            self._log.arrive(kind, group, seq, size, persistent, message)

    def stored(self, seq: int) -> None:
        """Pass on that the disk has a message."""
        if self._log is not None:
            self._log.stored(seq)

    def watch(self, state: DispatchState) -> None:
        """Stand between a queue and its event log, unless the trace does so already."""
        if state.events is not self:
            self.stop()
            self._log = state.events
            state.report_to(self)
            self._state = state

    def resume(self) -> None:
        """Called when the queue was given another event log: stand between them again."""
        self.watch(self._state)

    def stop(self) -> None:
        """Let the queue report to its event log directly again."""
        if self._state.events is self:
            self._state.report_to(self._log)

    def after(self, number: int) -> TracePage:
        """Return the first events after this number; all that are kept if the trace has no such."""
        gone = self.last - len(self._ring)
        if number == 0 or number > self.last:
            number = gone
        start = max(number, gone)
        events = list(islice(self._ring, start - gone, start - gone + EVENTS_PER_ANSWER))
        return TracePage(events, start + len(events), start - number)


class Traces:
    """The queues that are traced at present."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._traces: dict[tuple[str, str], Trace] = {}

    def ask(
        self, host: VirtualHost, name: str, after: int, limits: BrokerSettings, now: float
    ) -> TracePage:
        """Return a queue's events after number `after`; the first request starts the trace."""
        key = (host.id, name)
        queue = _find(host, name)
        trace = self._traces.get(key)
        if queue is None and (trace is None or trace.last == after):
            raise RefusedError(f"there is no queue {name}", "not-found")
        if trace is None:
            assert queue is not None
            if len(self._traces) >= limits.traces_max:
                raise RefusedError(f"{limits.traces_max} queues are traced already", "limit")
            trace = Trace(queue.state, self._clock, limits.trace_events_max)
            self._traces[key] = trace
        elif queue is not None:
            trace.watch(queue.state)
        trace.asked_at = now
        return trace.after(after)

    def resume(self) -> None:
        """Called when all queues were given another event log."""
        for trace in self._traces.values():
            trace.resume()

    def sweep(self, idle_s: float, now: float) -> None:
        """End the traces that nobody has asked for for `idle_s` seconds."""
        for key, trace in list(self._traces.items()):
            if now - trace.asked_at >= idle_s:
                trace.stop()
                del self._traces[key]


def _find(host: VirtualHost, name: str) -> Queue | None:
    """Return a queue by name; `dsub:NAME` is the queue of a durable subscription."""
    if name.startswith(DURABLE_PREFIX):
        durable = host.durables.get(name.removeprefix(DURABLE_PREFIX))
        return None if durable is None else durable.queue
    return host.queues.get(name)
