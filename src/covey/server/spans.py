"""Spans: how long traced messages were received, queued and delivered, made of the core's events.

A message is followed if its sender's trace is sampled (`traceparent`, W3C). A message without a
trace begins one of its own, for a share of them (`sample`). A message whose sender has decided
against sampling is not followed. Each followed message has these spans:

    receive   from the read that brought it until it is in its queue, and on disk if it is kept
    queue     from then until it is delivered; once more after each return
    deliver   from its delivery until it is settled; `covey.outcome` says how

`receive` is a child of the sender's span, the others are children of `receive`. The message itself
never changes, so its consumer continues the sender's span.

A queue that no pattern of `queues` matches has no listener here. At most `open_max` messages are
followed at a time. One more takes the place of the oldest, whose last span is then never told. So
messages that nobody fetches do not keep new ones from being followed. The last span of a message
that is deleted with its queue is not told either. If the event log is on, it gets every event
through this sink.
"""

from __future__ import annotations

import random
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from covey.config.settings import TelemetrySettings
from covey.core.clock import Clock
from covey.core.events.event import ACK, DELIVER, ENQUEUE, EventKind, EventSink, QueueEvents
from covey.core.model.message import Message
from covey.core.naming.destination import Syntax
from covey.core.naming.pattern import Pattern

NS_PER_S: Final = 1_000_000_000
TRACE_BITS: Final = 128
SPAN_BITS: Final = 64
SEQ_BITS: Final = 64
SAMPLED: Final = 1  # of the flags

# Version, trace, span, flags; a later version may have more behind them.
PARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")

# What ends a delivery, and whether the message is still in its queue then.
OUTCOMES: Final = {
    ACK: ("accepted", False),
    int(EventKind.RELEASE): ("released", True),
    int(EventKind.FAIL): ("failed", True),
    int(EventKind.REJECT): ("rejected", False),
    int(EventKind.EXPIRE): ("expired", False),
    int(EventKind.DEAD_LETTER): ("dead-lettered", False),
    int(EventKind.DROP): ("dropped", False),
    int(EventKind.MOVE): ("moved", False),
}


@dataclass(frozen=True, slots=True)
class Span:
    """One finished span; `parent` is 0 for the first of a trace."""

    name: str  # receive, queue or deliver
    trace: int
    id: int
    parent: int
    is_parent_remote: bool
    start_ns: int
    end_ns: int
    attributes: dict[str, str | int]


@dataclass(slots=True)
class Journey:
    """A message that is followed through one queue."""

    trace: int
    parent: int  # the sender's span
    id: int  # the span `receive`
    attributes: dict[str, str | int]
    start_ns: int  # of what it is in at present
    is_stored: bool = True  # the disk has it, or need not
    consumer: int = 0  # who has it; 0: it waits


@dataclass(slots=True)
class Follower:
    """What all queues share: whom to follow, how many are followed, and where spans go."""

    settings: TelemetrySettings
    clock: Clock
    take: Callable[[Span], None]
    patterns: Sequence[Pattern]
    journeys: OrderedDict[int, Journey] = field(default_factory=OrderedDict)
    chance: random.Random = field(default_factory=random.Random)
    numbers: Iterator[int] = field(default_factory=count)  # of listeners

    def begin(self, message: Message) -> Journey | None:
        """Return the journey of a message that has come, None if it is not to be followed."""
        trace, parent = self._context(message.trace_parent())
        if not trace:
            return None
        read_ns = int((self.clock.now + self.clock.offset) * NS_PER_S)
        attributes: dict[str, str | int] = {"messaging.message.body.size": message.size}
        name = message.message_id()
        if name:
            attributes["messaging.message.id"] = name
        return Journey(trace, parent, self.new_id(SPAN_BITS), attributes, read_ns)

    def _context(self, text: str) -> tuple[int, int]:
        """Return the trace and the span to go on from; a trace of 0: not to be followed."""
        found = PARENT.fullmatch(text) if text else None
        trace, parent = (int(found[1], 16), int(found[2], 16)) if found else (0, 0)
        if found is not None and trace and parent:
            return (trace, parent) if int(found[3], 16) & SAMPLED else (0, 0)
        sample = self.settings.sample
        if sample and self.chance.random() < sample:
            return self.new_id(TRACE_BITS), 0
        return 0, 0

    def follow(self, key: int, journey: Journey) -> None:
        """Follow one more message, if need be instead of the oldest."""
        if len(self.journeys) >= self.settings.open_max:
            self.journeys.popitem(last=False)
        self.journeys[key] = journey

    def new_id(self, bits: int) -> int:
        """Return an id; ids are never 0."""
        return self.chance.getrandbits(bits) or 1


class Spans(EventSink):
    """Follows messages in the queues of a virtual host, and passes all events on to the log."""

    def __init__(self, follower: Follower, log: EventSink | None, host: str = "") -> None:
        self._follower = follower
        self._log = log
        self._host = host

    def of_queue(self, name: str) -> QueueEvents | None:
        """Return the listener of a queue; the log's own if the queue is not followed."""
        log = None if self._log is None else self._log.of_queue(name)
        if not any(pattern.matches(name) for pattern in self._follower.patterns):
            return log
        return QueueSpans(self._follower, log, self._host, name)

    def of_host(self, host: str, before: str = "", position: int = 0) -> EventSink:
        """Return the sink of a virtual host."""
        log = None if self._log is None else self._log.of_host(host, before, position)
        return Spans(self._follower, log, host)

    def hand_over(self) -> int:
        """Let the log hand over what it has."""
        return 0 if self._log is None else self._log.hand_over()

    def is_log(self) -> bool:
        """Return True if there is a log behind."""
        return self._log is not None

    def hears_of_disk(self) -> bool:
        """Return True: `receive` ends when the disk has a message."""
        return True


class QueueSpans(QueueEvents):
    """Follows the messages of one queue."""

    def __init__(self, follower: Follower, log: QueueEvents | None, host: str, queue: str) -> None:
        self._follower = follower
        self._log = log
        self._common = {
            "messaging.system": "covey",
            "messaging.destination.name": queue,
            "covey.virtual_host": host,
        }
        self._journeys = follower.journeys
        self._base = next(follower.numbers) << SEQ_BITS  # sequence numbers are below it

    def arrive(
        self, kind: int, group: str, seq: int, size: int, persistent: bool, message: Message | None
    ) -> None:
        """Begin to follow a message, if it is to be followed."""
        if self._log is not None:
            self._log.arrive(kind, group, seq, size, persistent, message)
        journey = None
        if kind == ENQUEUE and message is not None:
            journey = self._follower.begin(message)
        if journey is None:
            return
        journey.attributes |= {**self._common, "covey.seq": seq}
        if group:
            journey.attributes["covey.group"] = group
        self._follower.follow(self._base | seq, journey)
        journey.is_stored = not persistent
        if not persistent:
            self._close("receive", journey, {})

    def stored(self, seq: int) -> None:
        """End `receive` of a message that the disk has."""
        journey = self._journeys.get(self._base | seq)
        if journey is not None and not journey.is_stored:
            journey.is_stored = True
            self._close("receive", journey, {})

    def record(self, kind: int, group: str, consumer: int, seq: int) -> None:
        """End a span, and begin the next."""
        if self._log is not None:
            self._log.record(kind, group, consumer, seq)
        journey = self._journeys.get(self._base | seq)
        if journey is None:
            return
        if kind == DELIVER:
            self.stored(seq)  # long commits show their messages without a word of the disk
            self._close("queue", journey, {})
            journey.consumer = consumer
        elif kind in OUTCOMES:
            outcome, stays = OUTCOMES[kind]
            self._end(seq, journey, outcome, stays=stays)

    def _end(self, seq: int, journey: Journey, outcome: str, *, stays: bool) -> None:
        """End a delivery, or the wait of a message that goes undelivered."""
        self.stored(seq)  # a message may go before the disk has it
        told: dict[str, str | int] = {"covey.outcome": outcome}
        if journey.consumer:
            told["covey.consumer"] = journey.consumer
        self._close("deliver" if journey.consumer else "queue", journey, told)
        journey.consumer = 0
        if not stays:
            del self._journeys[self._base | seq]

    def _close(self, name: str, journey: Journey, told: dict[str, str | int]) -> None:
        """Hand over the span that ends now; the next one begins now."""
        now_ns = max(time.time_ns(), journey.start_ns)
        is_first = name == "receive"
        span = Span(
            name,
            journey.trace,
            journey.id if is_first else self._follower.new_id(SPAN_BITS),
            journey.parent if is_first else journey.id,
            is_first,
            journey.start_ns,
            now_ns,
            {**journey.attributes, **told},
        )
        journey.start_ns = now_ns
        self._follower.take(span)


def follower(settings: TelemetrySettings, clock: Clock, take: Callable[[Span], None]) -> Follower:
    """Return what follows messages as the settings say."""
    patterns = [_pattern(text) for text in settings.queues]
    return Follower(settings, clock, take, patterns)


def _pattern(text: str) -> Pattern:
    (destination,) = Syntax().parse(f"/queue/{text}", allow_patterns=True)
    return Pattern(destination)
