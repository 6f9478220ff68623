"""EventLog: the sink that keeps every event for the data pipeline.

The loop notes each event in four numbers and hands many at a time to a child process
(`core.event_writer`), which makes Parquet files of them. Nothing here waits or fails: if the
child cannot keep up beyond its backlog, a whole chunk is left out, and the gap in the event ids
says so to whoever reads the log.

    chunk    HEADER, new names, columns
    HEADER   magic, flags, id of the first event, bytes of names, number of events
    name     LENGTH, UTF-8
    columns  what happened, 64 bits each: kind, queue << QUEUE_SHIFT, group << GROUP_SHIFT
             the consumer, 32 bits; the sequence number, 64 bits; the time, a double

Four lists that become columns when a chunk is full cost half of packing each event by itself.
Queue and group names are sent once and are numbers from then on: 0 is "", then 1, 2, ... in the
order sent. The dictionary starts over when it is full (flag FORGET), so that neither side grows
with the number of names ever used. Event ids count 1, 2, ... without a gap and are not packed:
a chunk's first id tells all.

Queues of the first virtual host have their own names, those of another are `host/name`: no queue's
name has a slash in it, so two hosts' queues of one name are never taken for one. Patterns mean
the name without the host.

Times are the wall clock's, read here: a queue only knows the time of its last turn, which is
long past for a message that wakes an idle queue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable
from struct import Struct
from typing import Final

from mypy_extensions import mypyc_attr

from covey.core.destination import Syntax
from covey.core.events import EventKind, EventSink
from covey.core.wildcard import Pattern

HEADER: Final = Struct("<4sIQII")
LENGTH: Final = Struct("<I")
MAGIC: Final = b"CVEV"
FORGET: Final = 1  # flag: the names sent before are void

QUEUE_SHIFT: Final = 8
GROUP_SHIFT: Final = 32
CODES: Final = ("Q", "I", "Q", "d")  # of the columns, for `array`
EVENT_BYTES: Final = 28

EVENTS_PER_CHUNK: Final = 2048  # 57 kB: one write into the pipe, every few milliseconds at most
NAMES_MAX: Final = 65_536  # some 10 MB of dictionary with long names, on either side

HOST_MARK: Final = "/"

EXCLUDED: Final = -1  # the number of a queue that no pattern asks for


@mypyc_attr(allow_interpreted_subclasses=True)
class ChunkTaker(ABC):
    """Who turns chunks into a log."""

    failure = ""  # why nothing is taken any more, for people

    @abstractmethod
    def take(self, chunk: bytes) -> bool:
        """Take a chunk without waiting; False if there is no room for it."""

    @abstractmethod
    def close(self) -> None:
        """Finish with what was taken; the only call that may wait."""


class EventLog(EventSink):
    """Notes the events of the queues that one of the patterns means."""

    def __init__(
        self, taker: ChunkTaker, patterns: tuple[str, ...], clock: Callable[[], float]
    ) -> None:
        self.taker = taker
        self.dropped = 0  # events in chunks that found no room
        self.names_max = NAMES_MAX
        self._patterns = [_pattern(text) for text in patterns]
        self._clock = clock
        self._queues: dict[str, int] = {}
        self._names: dict[str, int] = {"": 0}
        self._new_names: list[bytes] = []
        self._flags = 0
        self._first = 1  # id of the buffer's first event
        self._whats: list[int] = []
        self._consumers: list[int] = []
        self._seqs: list[int] = []
        self._times: list[float] = []

    def record(
        self, kind: EventKind, now: float, queue: str, group: str, consumer: int, seq: int
    ) -> None:
        """Note one event."""
        queue_number = self._queues.get(queue)
        if queue_number is None:
            queue_number = self._enter_queue(queue)
        if queue_number == EXCLUDED:
            return
        group_number = self._names.get(group)
        if group_number is None:
            group_number = self._enter(group)
        self._whats.append(kind | queue_number << QUEUE_SHIFT | group_number << GROUP_SHIFT)
        self._consumers.append(consumer)
        self._seqs.append(seq)
        self._times.append(self._clock())
        if len(self._seqs) == EVENTS_PER_CHUNK:
            self.flush()

    def of_host(self, host: str) -> EventSink:
        """Give the sink for the queues of a virtual host other than the first."""
        return HostLog(self, host)

    def flush(self) -> None:
        """Hand over what has gathered; the server calls it every second or so."""
        count = len(self._seqs)
        if count == 0:
            return
        names = b"".join(self._new_names)
        header = HEADER.pack(MAGIC, self._flags, self._first, len(names), count)
        is_taken = self.taker.take(header + names + self._columns())
        self._first += count
        self._flags = 0
        self._new_names.clear()
        if not is_taken:
            self.dropped += count
        if not is_taken or len(self._names) + len(self._queues) > self.names_max:
            self._forget_names()

    def _columns(self) -> bytes:
        """Take the noted events out, column by column."""
        columns = (
            array(CODES[0], self._whats).tobytes(),
            array(CODES[1], self._consumers).tobytes(),
            array(CODES[2], self._seqs).tobytes(),
            array(CODES[3], self._times).tobytes(),
        )
        self._whats.clear()
        self._consumers.clear()
        self._seqs.clear()
        self._times.clear()
        return b"".join(columns)

    def close(self) -> None:
        """Hand over the rest and wait until it is on disk."""
        self.flush()
        self.taker.close()

    def _enter_queue(self, queue: str) -> int:
        number = EXCLUDED
        name = queue.rpartition(HOST_MARK)[2]
        if any(pattern.matches(name) for pattern in self._patterns):
            known = self._names.get(queue)
            number = self._enter(queue) if known is None else known
        self._queues[queue] = number
        return number

    def _enter(self, name: str) -> int:
        number = len(self._names)
        self._names[name] = number
        # A lone surrogate has no UTF-8; Parquet would refuse the whole column for it.
        encoded = name.encode("utf-8", "backslashreplace")
        self._new_names.append(LENGTH.pack(len(encoded)) + encoded)
        return number

    def _forget_names(self) -> None:
        self._names = {"": 0}
        self._queues.clear()
        self._flags = FORGET


class HostLog(EventSink):
    """One virtual host's way into the log, which puts the host before its queues' names."""

    def __init__(self, log: EventLog, host: str) -> None:
        self._log = log
        self._prefix = host + HOST_MARK
        self._names: dict[str, str] = {}

    def record(
        self, kind: EventKind, now: float, queue: str, group: str, consumer: int, seq: int
    ) -> None:
        """Pass an event on under the queue's full name."""
        name = self._names.get(queue)
        if name is None:
            if len(self._names) >= NAMES_MAX:
                self._names.clear()
            name = self._prefix + queue
            self._names[queue] = name
        self._log.record(kind, now, name, group, consumer, seq)


def _pattern(text: str) -> Pattern:
    (destination,) = Syntax().parse(f"/queue/{text}", allow_patterns=True)
    return Pattern(destination)
