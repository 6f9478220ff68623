"""Rules: what the broker promises, the kinds of events that matter for it, and a queue's own story.

`PROMISES` lists what was promised, by the name of the violation. `Surroundings` hold what the folds
of a queue's groups (`audit_fold`) must know of the queue: which consumers joined and left, when it
was deleted, where the log has gaps, and where another run of the broker went on with the store.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from covey.core.events.event import EventKind

TWO_HOLDERS: Final = "two-holders"
ORDER: Final = "order"
LOST: Final = "lost"
DUPLICATE: Final = "duplicate"
ZOMBIE: Final = "zombie"
PHANTOM: Final = "phantom"
MOVED: Final = "moved"
STRANGER: Final = "stranger"

PROMISES: Final = {
    TWO_HOLDERS: "unsettled messages of a group are with one consumer",
    ORDER: "of a group's waiting messages the one with the smallest number goes next",
    LOST: "a message that was passed by, held by one who left, or persistent comes again",
    DUPLICATE: "a message is delivered again only after it came back, and a number is given once",
    ZOMBIE: "only the consumer that holds a message settles it, while it is there",
    PHANTOM: "what is delivered or recovered was enqueued",
    MOVED: "a group stays with its owner, where the queue's strategy says so",
    STRANGER: "messages go to consumers that have joined",
}

ENQUEUE: Final = int(EventKind.ENQUEUE)
DELIVER: Final = int(EventKind.DELIVER)
ACK: Final = int(EventKind.ACK)
RELEASE: Final = int(EventKind.RELEASE)
FAIL: Final = int(EventKind.FAIL)
REJECT: Final = int(EventKind.REJECT)
DEAD_LETTER: Final = int(EventKind.DEAD_LETTER)
ASIDE: Final = int(EventKind.ASIDE)
ENLIST: Final = int(EventKind.ENLIST)
DELIST: Final = int(EventKind.DELIST)
DEADLINE: Final = int(EventKind.DEADLINE)
LATE: Final = int(EventKind.LATE)
ASSIGN: Final = int(EventKind.ASSIGN)
REVOKE: Final = int(EventKind.REVOKE)
RECOVER: Final = int(EventKind.RECOVER)

MESSAGE_KINDS: Final = (
    *(ENQUEUE, DELIVER, ACK, RELEASE, FAIL, REJECT, DEAD_LETTER, ASIDE, ENLIST, DELIST),
    *(int(EventKind.EXPIRE), int(EventKind.DROP), int(EventKind.MOVE), RECOVER, DEADLINE),
)
"""The kinds that are about one message."""

QUEUE_KINDS: Final = tuple(
    int(kind)
    for kind in (
        *(EventKind.JOIN, EventKind.LEAVE, EventKind.DELETE, EventKind.REBALANCE),
        *(EventKind.POLICY, EventKind.RETIRE, EventKind.START),
    )
)
"""The kinds that are about a whole queue; so is a RECOVER without a number."""

STICKY: Final = ("simple", "lru", "hash-buckets", "consistent-hash")
"""The strategies that promise an owner its groups, as a queue's POLICY names them."""

# After these kinds the group must still have its owner. The kinds taken out end a delivery without
# success: after them the message may go to another consumer, and its group with it.
EXCUSES_NOTHING: Final = frozenset((*MESSAGE_KINDS, ASSIGN, REVOKE, LATE)) - {
    RELEASE,
    FAIL,
    ASIDE,
    DEADLINE,
}

SETTLES: Final = frozenset({ACK, REJECT, FAIL, RELEASE})

NEVER: Final = 1 << 62  # an event id beyond all others

# The states of a message that nobody holds. A held one has its holders' numbers, all above 0.
IS_WAITING: Final[tuple[int, ...]] = ()
IS_ASIDE: Final[tuple[int, ...]] = (0,)


class Violation(NamedTuple):
    """One broken promise: the event that shows it, the message, and why."""

    kind: str
    eid: int
    seq: int
    consumer: int
    detail: str


class Mark(NamedTuple):
    """A place in the order of events where all groups of a queue change at once."""

    eid: int  # the last event before the mark
    what: str
    doubt_from: int = NEVER  # of the run that begins: later changes may be in doubt
    is_recovered: bool = True  # the run has logged which messages were on the queue
    doubt_before: int = 0  # of the run that ended: later changes are in doubt


DELETED: Final = "deleted"  # the queue was deleted with all its messages
GAP: Final = "gap"  # events are missing
RESTART: Final = "restart"  # another run goes on with the store
UNKNOWN: Final = "unknown"  # another run; nobody knows what happened before it
CUT: Final = "cut"  # another run goes on, but the end of the one before is missing


class Surroundings:
    """What the folds of a queue's groups must know of the queue."""

    def __init__(self, *, begins_whole: bool, begins_known: bool = False) -> None:
        self.begins_whole = begins_whole  # the log has the run's first event
        self.begins_known = begins_known  # and tells which messages were on the queue then
        self.doubt_from = NEVER  # of the first run
        self.joins_known_from = NEVER  # behind it every consumer's JOIN is in the log
        self.first_known = 0  # above all numbers given before the log; 0 if unknown
        self.changes: dict[int, list[tuple[int, bool]]] = {}  # consumer: (event id, has joined)
        self.marks: list[Mark] = []  # in their order
        self.stirs: list[int] = []  # events that may move any group
        self.overdue: dict[int, list[int]] = {}  # consumer: events that may move its groups
        self.is_ring = False  # who takes part again after a deadline gets groups from others
        self.is_sticky = False  # the strategy promises groups to their owners

    def is_gone(self, consumer: int, eid: int) -> bool:
        """Return True if the consumer had left when the event happened."""
        changes = self.changes.get(consumer)
        if changes is None:
            return False
        before = bisect_left(changes, (eid, False))
        return before > 0 and not changes[before - 1][1]

    def is_there(self, consumer: int, eid: int) -> bool:
        """Return True if the consumer is known to have joined, and not to have left.

        A group may be kept for one who has left and is awaited. The state of earlier audits does
        not tell of it, as it has only those who are there.
        """
        return consumer in self.changes and not self.is_gone(consumer, eid)

    def is_stranger(self, consumer: int, eid: int, since: int) -> bool:
        """Return True if the consumer had not joined between the restart and the event."""
        if eid <= self.joins_known_from:
            return False
        changes = self.changes.get(consumer, [])
        return not any(since < at < eid for at, _ in changes)

    def was_stirred(self, since: int, eid: int) -> bool:
        """Return True if between two events something happened that may move any group."""
        return _has_between(self.stirs, since, eid)

    def was_overdue(self, consumer: int, since: int, eid: int) -> bool:
        """Return True if between two events the consumer had held a message for too long.

        Then it loses its other groups, too. It gets new ones when it settles something.
        """
        return _has_between(self.overdue.get(consumer, []), since, eid)

    def may_leave(self, owner: int, since: int, eid: int, to: int = 0) -> bool:
        """Return True if the queue's events explain that a group left a living owner."""
        is_excused = self.was_stirred(since, eid) or self.was_overdue(owner, since, eid)
        return is_excused or (self.is_ring and to in self.overdue)


def _has_between(positions: list[int], since: int, eid: int) -> bool:
    return bisect_right(positions, since) < bisect_left(positions, eid)
