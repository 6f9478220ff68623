# Compiled by mypyc: see setup.py.
"""Events: what happened in the core, as records for whoever listens.

The core writes no log. It reports here, and the composition root decides what becomes of it:
nothing, an event log for the data pipeline, a trace of one queue, metrics. A queue that nobody
listens to pays one `is None` test per event.

Kinds are numbers of one byte, so that a record packs into a fixed layout. They are part of the
event log's format, and never re-used. `SCHEMA_VERSION` rises when a kind or a field is added.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum
from typing import Final

from mypy_extensions import mypyc_attr

SCHEMA_VERSION: Final = 2  # 1 knew no transactions


class EventKind(IntEnum):
    """What happened. The order in time is the order of recording."""

    ENQUEUE = 1
    ASSIGN = 2  # a consumer became the owner of a group
    REVOKE = 3  # it is no longer
    DELIVER = 4
    ACK = 5
    RELEASE = 6  # came back, uncounted
    FAIL = 7  # came back, counted as a failed delivery
    REJECT = 8
    EXPIRE = 9
    DEAD_LETTER = 10
    DROP = 11  # a limit's drop policy, or a purge
    GROUP_CLOSE = 12
    EVICT = 13
    DRAIN_START = 14
    DRAIN_END = 15
    DRAIN_OVERDUE = 16
    REBALANCE = 17
    JOIN = 18
    LEAVE = 19
    PARK = 20
    UNPARK = 21
    GROUPS_OVER_SIZE = 22  # a bounded map had to grow: nothing was safe to evict
    ASIDE = 23  # a group's next message, which no present selector admits, was stepped over
    DELETE = 24  # the queue went away with all it held
    ENLIST = 25  # its consumer has settled it in a transaction, which keeps it until its end
    DELIST = 26  # that transaction was given up: it is its consumer's again


KIND_NAMES: Final = {int(kind): kind.name.lower().replace("_", "-") for kind in EventKind}

# Told of each message: a look-up in an Enum is a search, and arithmetic with one is slow.
ENQUEUE: Final = int(EventKind.ENQUEUE)
ASSIGN: Final = int(EventKind.ASSIGN)
REVOKE: Final = int(EventKind.REVOKE)
DELIVER: Final = int(EventKind.DELIVER)
ACK: Final = int(EventKind.ACK)


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueEvents(ABC):
    """Where one queue's events go."""

    @abstractmethod
    def record(self, kind: int, group: str, consumer: int, seq: int) -> None:
        """Take one event; 0 and "" where a field does not apply. Must not fail or wait."""


@mypyc_attr(allow_interpreted_subclasses=True)
class EventSink(ABC):
    """Where the events of all queues go."""

    @abstractmethod
    def of_queue(self, name: str) -> QueueEvents | None:
        """Give the place for one queue's events; None if nobody wants them."""

    @abstractmethod
    def of_host(self, host: str) -> EventSink:
        """Give the sink for a virtual host other than the first."""
