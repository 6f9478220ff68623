# Compiled by mypyc: see setup.py.
"""Events: what happened in the core, as records for whoever listens.

The core writes no log. It reports here, and the composition root decides who listens: nobody, an
event log for the data pipeline, a trace of one queue, metrics. A queue that nobody listens to pays
one `is None` test per event.

Kinds are numbers of one byte, so that a record packs into a fixed layout. They are part of the
event log's format, and never re-used. `SCHEMA_VERSION` rises when a kind or a field is added. Kinds
from `START` on are about the log itself and what a restart found, not about traffic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from covey.core.model.message import Message

SCHEMA_VERSION: Final = 3
"""1 knew no transactions. 2 knew nothing of restarts: neither what was recovered nor which run came
before, no size, persistence or virtual host of a message, and no deadlines."""


class EventKind(IntEnum):
    """What happened. The order in time is the order of recording."""

    ENQUEUE = 1
    ASSIGN = 2  # a consumer became the owner of a group
    REVOKE = 3  # a consumer is no longer the owner of a group
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
    JOIN = 18  # `group` says what may move groups to or from it: selector, priority, exclusive
    LEAVE = 19
    PARK = 20
    UNPARK = 21
    GROUPS_OVER_SIZE = 22  # a bounded map had to grow: nothing was safe to evict
    ASIDE = 23  # a group's next message, which no present selector admits, was stepped over
    DELETE = 24  # the queue went away with all it held
    ENLIST = 25  # the message was settled in a transaction, which holds it until it ends
    DELIST = 26  # that transaction was aborted: the consumer holds the message again
    DEADLINE = 27  # the consumer held the message for too long; FAIL or DEAD_LETTER follows
    LATE = 28  # a consumer settled a message that was taken from it: without effect
    MOVE = 29  # an operator has put the message into another queue
    SPILL = 30  # a group left an owner that had no credit; `consumer` is the new owner
    PAUSE = 31  # an operator has paused the queue; `seq`: 1 in, 2 out, 3 both
    RESUME = 32  # an operator lets the queue go on
    START = 64  # a virtual host begins to be logged; see `EventSink.of_host`
    RECOVER = 65  # a message that was there when the log began; number 0 comes before all of them
    POLICY = 66  # the queue's policy from now on; `group` is its strategy
    RETIRE = 67  # a consumer gets no new groups, and keeps its own until they are empty


KIND_NAMES: Final = {int(kind): kind.name.lower().replace("_", "-") for kind in EventKind}

# Kinds recorded for each message, as plain numbers: looking up an Enum member, and arithmetic with
# one, are slow.
ENQUEUE: Final = int(EventKind.ENQUEUE)
ASSIGN: Final = int(EventKind.ASSIGN)
REVOKE: Final = int(EventKind.REVOKE)
DELIVER: Final = int(EventKind.DELIVER)
ACK: Final = int(EventKind.ACK)
START: Final = int(EventKind.START)
RECOVER: Final = int(EventKind.RECOVER)

RECOVERED_AT_ONCE: Final = 20_000  # messages recorded at a start before the log must catch up


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueEvents(ABC):
    """Where one queue's events go."""

    @abstractmethod
    def record(self, kind: int, group: str, consumer: int, seq: int) -> None:
        """Take one event; 0 and "" where a field does not apply. Must not fail or wait."""

    def arrive(
        self, kind: int, group: str, seq: int, size: int, persistent: bool, message: Message | None
    ) -> None:
        """Take the arrival of a message; `persistent` if the message survives a restart.

        `message` is None if its body is in the store only.
        """
        self.record(kind, group, 0, seq)

    def stored(self, seq: int) -> None:  # noqa: B027 - a log does not ask for it
        """Take that the disk has a message; only called if the sink asks (`hears_of_disk`)."""

    def catch_up(self) -> bool:
        """Wait for room for many more events; False: never; only called while a broker starts."""
        return True


@mypyc_attr(allow_interpreted_subclasses=True)
class EventSink(ABC):
    """Where the events of all queues go."""

    @abstractmethod
    def of_queue(self, name: str) -> QueueEvents | None:
        """Return the listener for one queue's events; None if nobody wants them."""

    @abstractmethod
    def of_host(self, host: str, before: str = "", position: int = 0) -> EventSink:
        """Return the sink for a virtual host, which begins to be logged now.

        `before` is the run that last had the host's store. `position` is the last event of that
        run before its last change of the store. Later events of that run are in doubt.
        """

    def hand_over(self) -> int:
        """Hand all events so far to another process, in case this one ends; return the last id."""
        return 0

    def is_log(self) -> bool:
        """Return True if the events are kept, so that a later run's events follow them."""
        return True

    def hears_of_disk(self) -> bool:
        """Return True if the queues' listeners are to be told what the disk has (`stored`)."""
        return False
