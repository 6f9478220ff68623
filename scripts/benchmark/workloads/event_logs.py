"""Event logs of any length in which every promise is kept, written by the event log's own writer.

Messages of several queues come one after the other. Each is delivered after `wait_s` to the
consumer that has its group, and acknowledged `work_s` later. So at any time some messages are
waiting, and some are held. The first delivery of a group is preceded by the event that names its
owner. The log begins as a broker's does, so that `audit` judges everything: owners and joins, too.

What is in memory is one chunk of messages, however long the log is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from covey.core.events.event import EventKind
from covey.core.events.event_log import GROUP_SHIFT, LENGTH, LINE, PERSISTENT, QUEUE_SHIFT
from covey.pipeline.event_log.writer import Events, Writer

HOST: Final = "default"
START: Final = f"{HOST}{LINE}{LINE}"
STRATEGY: Final = "simple"
BEGIN: Final = 1.7e9  # seconds since the epoch
BODY_BYTES: Final = 1024
MESSAGES_PER_CHUNK: Final = 1 << 18

Column = np.ndarray[Any, np.dtype[Any]]
Rows = tuple[Column, Column, Column, Column]  # what, consumer, seq, time


@dataclass(frozen=True)
class Traffic:
    """What a log tells of."""

    messages: int
    queues: int = 8
    groups: int = 100_000
    hot_share: float = 0.0  # of the messages that are in one group; the others are spread evenly
    consumers: int = 4  # of each queue
    messages_per_s: float = 20_000.0
    wait_s: float = 0.010
    work_s: float = 0.005
    rotate_bytes: int = 64 << 20
    rotate_age_s: float = 60.0


def write_event_log(directory: Path, traffic: Traffic, run: str = "bench") -> int:
    """Write a log; return the number of its events."""
    log = GrowingLog(directory, traffic, run)
    log.grow(traffic.messages)
    return log.end()


class GrowingLog:
    """A log that is written part by part; after each part all of its files are finished."""

    def __init__(self, directory: Path, traffic: Traffic, run: str = "bench") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._writer = Writer(directory, run, traffic.rotate_bytes, traffic.rotate_age_s)
        self._maker = _Maker(traffic)
        self._per_chunk = min(
            MESSAGES_PER_CHUNK, max(1, int(traffic.messages_per_s * traffic.rotate_age_s))
        )
        self._events = 0
        self._write(_beginning(traffic), _names(traffic))

    def grow(self, messages: int) -> int:
        """Write the events of some more messages; return the number of all events."""
        for first in range(0, messages, self._per_chunk):
            self._write(self._maker.make(min(self._per_chunk, messages - first)))
        self._writer.finish()
        return self._events

    def end(self) -> int:
        """Write what was still to happen; return the number of all events."""
        rest = self._maker.rest()
        if len(rest[0]):
            self._write(rest)
        self._writer.finish()
        return self._events

    def _write(self, rows: Rows, names: bytes = b"") -> None:
        now = float(rows[3][0])
        self._writer.finish_if_old(now)
        self._writer.take(1 + self._events, 0, names, Events(*rows), now)
        self._events += len(rows[0])


def _names(traffic: Traffic) -> bytes:
    names = [START, "**", STRATEGY]
    names += [f"{START}queue-{number}" for number in range(traffic.queues)]
    names += [f"group-{number}" for number in range(traffic.groups)]
    return b"".join(LENGTH.pack(len(name.encode())) + name.encode() for name in names)


def _beginning(traffic: Traffic) -> Rows:
    """Return what a broker logs before the first message."""
    rows = [(_what(EventKind.START, 1, 2), 0, 0)]
    for queue in range(traffic.queues):
        name = _queue_name(queue)
        rows.append((_what(EventKind.POLICY, name, 3), 0, 0))
        joins = _what(EventKind.JOIN, name, 0)
        rows += [(joins, consumer, 0) for consumer in range(1, traffic.consumers + 1)]
    what, consumer, seq = (np.array(column, "u8") for column in zip(*rows, strict=True))
    return what, consumer.astype("u4"), seq, np.full(len(rows), BEGIN)


def _what(kind: int, queue: int, group: int) -> int:
    return int(kind) | queue << QUEUE_SHIFT | group << GROUP_SHIFT


def _queue_name(number: int) -> int:
    """Return the place of a queue's name among all names; the first name is empty."""
    return 4 + number


class _Maker:
    """Makes messages and their events, and keeps those events whose time has not come."""

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self._chance = np.random.default_rng(traffic.messages)
        self._now = BEGIN
        self._given = np.zeros(traffic.queues, "u8")  # the highest number of each queue
        self._has_owner = np.zeros(traffic.groups, bool)
        nothing = np.zeros(0, "u8")
        self._later: Rows = (nothing, nothing.astype("u4"), nothing, np.zeros(0))

    def make(self, count: int) -> Rows:
        """Return the next messages' events, and those kept before, up to the last arrival."""
        traffic = self.traffic
        group = self._chance.integers(0, traffic.groups, count)
        if traffic.hot_share:
            group[self._chance.random(count) < traffic.hot_share] = 0
        queue = group % traffic.queues
        came = self._now + np.cumsum(self._chance.exponential(1 / traffic.messages_per_s, count))
        self._now = float(came[-1])
        name = (4 + queue).astype("u8") << QUEUE_SHIFT
        name |= (4 + traffic.queues + group).astype("u8") << GROUP_SHIFT
        consumer = (1 + group // traffic.queues % traffic.consumers).astype("u4")
        seq = self._numbers(queue)
        taken = came + traffic.wait_s
        first = self._first_of_groups(group)
        body = np.full(count, PERSISTENT | BODY_BYTES, "u4")
        parts: list[Rows] = [
            self._later,
            (name | int(EventKind.ENQUEUE), body, seq, came),
            (name[first] | int(EventKind.ASSIGN), consumer[first], 0 * seq[first], taken[first]),
            (name | int(EventKind.DELIVER), consumer, seq, taken),
            (name | int(EventKind.ACK), consumer, seq, taken + traffic.work_s),
        ]
        rows = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.argsort(rows[3], kind="stable")
        end = int(np.searchsorted(rows[3][order], self._now, "right"))
        what, consumer, seq, time = (column[order[end:]] for column in rows)
        self._later = what, consumer, seq, time
        what, consumer, seq, time = (column[order[:end]] for column in rows)
        return what, consumer, seq, time

    def rest(self) -> Rows:
        """Return the events whose time had not come yet."""
        return self._later

    def _numbers(self, queue: Column) -> Column:
        seq = np.zeros(len(queue), "u8")
        for number in range(self.traffic.queues):
            is_here = queue == number
            count = int(is_here.sum())
            seq[is_here] = self._given[number] + np.arange(1, count + 1, dtype="u8")
            self._given[number] += np.uint64(count)
        return seq

    def _first_of_groups(self, group: Column) -> Column:
        """Return where groups come for the first time."""
        new, first = np.unique(group, return_index=True)
        first = first[~self._has_owner[new]]
        self._has_owner[new] = True
        return np.sort(first)
