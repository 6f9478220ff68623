"""Fold: one group's events in their order, judged by the broker's promises.

`PROMISES` lists what was promised, by the name of the violation. A message that was passed by is
one violation: `order` if it was seen again, else `lost`. Messages without a group promise no order,
and any number of consumers may have them. All else holds for them, too.

    (none) --enqueue--> waiting --deliver--> held --ack, reject--> (none)
                          ^ |                |
                          | +-- expire, drop, dead-letter --> (none)
                          +-- release, fail -+

A consumer may settle a message in a transaction. The message then stays with that transaction until
its end, also when the consumer leaves. A message set aside is waiting, but later ones may go first:
no selector admitted it.

Only messages that are waiting or held are kept. Any other message is finished if its number is one
that the log has seen enqueued. A number below the first one enqueued is from before the log began.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush
from typing import Final, NamedTuple

from covey.core.events.event import EventKind

TWO_HOLDERS: Final = "two-holders"
ORDER: Final = "order"
LOST: Final = "lost"
DUPLICATE: Final = "duplicate"
ZOMBIE: Final = "zombie"
PHANTOM: Final = "phantom"

PROMISES: Final = {
    TWO_HOLDERS: "unsettled messages of a group are with one consumer",
    ORDER: "of a group's waiting messages the one with the smallest number goes next",
    LOST: "a message that was passed by, or held by one who left, is delivered again",
    DUPLICATE: "a message is delivered again only after it came back",
    ZOMBIE: "only the consumer that holds a message settles it, while it is there",
    PHANTOM: "what is delivered was enqueued",
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

MESSAGE_KINDS: Final = (
    *(ENQUEUE, DELIVER, ACK, RELEASE, FAIL, REJECT, DEAD_LETTER, ASIDE, ENLIST, DELIST),
    *(int(EventKind.EXPIRE), int(EventKind.DROP)),
)
"""The kinds a fold must see; others are not about one message."""

SETTLES: Final = frozenset({ACK, REJECT, FAIL, RELEASE})

NEVER: Final = 1 << 62  # an event id beyond all others

# The state of a message nobody holds; a held one has its holders, who are positive numbers.
IS_WAITING: Final[tuple[int, ...]] = ()
IS_ASIDE: Final[tuple[int, ...]] = (0,)


class Violation(NamedTuple):
    """One broken promise: the event that shows it, the message, and why."""

    kind: str
    eid: int
    seq: int
    consumer: int
    detail: str


class Surroundings:
    """What a group's fold must know of its queue in that run."""

    def __init__(self, *, begins_whole: bool) -> None:
        self.begins_whole = begins_whole  # the log has the run's first event
        self.changes: dict[int, list[tuple[int, bool]]] = {}  # consumer: (event id, is there)
        self.deletes: list[int] = []  # event ids at which the queue went away

    def is_gone(self, consumer: int, eid: int) -> bool:
        """Say whether the consumer had left when the event happened."""
        changes = self.changes.get(consumer)
        if changes is None:
            return False
        before = bisect_left(changes, (eid, False))
        return before > 0 and not changes[before - 1][1]


class Fold:
    """One group's messages, from event to event."""

    __slots__ = (
        "_deletes",
        "_early_done",
        "_enlisted",
        "_excused",
        "_first",
        "_holding",
        "_is_grouped",
        "_last",
        "_next_aside",
        "_passed",
        "_queue",
        "_states",
        "_waiting",
        "violations",
    )

    def __init__(self, queue: Surroundings, *, is_grouped: bool) -> None:
        self.violations: list[Violation] = []
        self._queue = queue
        self._is_grouped = is_grouped
        self._states: dict[int, tuple[int, ...]] = {}
        self._holding: dict[int, int] = {}  # consumer: how many it holds
        self._waiting: list[int] = []  # heap; those that do not wait any more die at the top
        self._passed: dict[int, int] = {}  # messages passed by: the event that did
        self._excused: set[tuple[int, int]] = set()  # (seq, consumer): wronged once already
        self._early_done: set[int] = set()  # from before the log, and finished
        self._enlisted: set[int] = set()  # held by a transaction
        self._first = 0
        self._last = 0
        self._next_aside = 0
        self._deletes = [*queue.deletes, NEVER]

    def take(self, eid: int, kind: int, consumer: int, seq: int) -> None:
        """Judge the next event of the group."""
        if eid > self._deletes[0]:
            self._forget(eid)
        if kind == ENQUEUE:
            self._enqueue(eid, seq)
        elif kind == DELIVER:
            self._deliver(eid, consumer, seq)
        elif kind in SETTLES:
            self._settle(eid, kind, consumer, seq)
        elif kind == ASIDE:
            self._set_aside(seq)
        elif kind == ENLIST:
            self._enlisted.add(seq)
        elif kind == DELIST:
            self._enlisted.discard(seq)
        else:
            self._remove(eid, kind, seq)

    def finish(self) -> None:
        """Judge what is left when the log ends."""
        for seq, eid in self._passed.items():
            text = "a later message of its group was delivered, and it never was"
            self._accuse(LOST, eid, seq, 0, text)
        for seq, holders in self._states.items():
            is_held = bool(holders and holders[0]) and seq not in self._enlisted
            if is_held and self._queue.is_gone(holders[0], NEVER):
                text = "its consumer left with it, and it never came back"
                self._accuse(LOST, self._queue.changes[holders[0]][-1][0], seq, holders[0], text)

    def _enqueue(self, eid: int, seq: int) -> None:
        if seq <= self._last:
            self._accuse(DUPLICATE, eid, seq, 0, "the number was given before")
            return
        self._first = self._first or seq
        self._last = seq
        self._states[seq] = IS_ASIDE if seq == self._next_aside else IS_WAITING
        if self._is_grouped:
            heappush(self._waiting, seq)

    def _set_aside(self, seq: int) -> None:
        state = self._states.get(seq)
        if state is None:
            self._next_aside = seq  # a queue steps over a message before it reports its coming
        elif state == IS_WAITING:
            self._states[seq] = IS_ASIDE

    def _deliver(self, eid: int, consumer: int, seq: int) -> None:
        holders = self._states.get(seq)
        if holders is None:
            holders = self._unexpected(eid, consumer, seq)
        elif holders and holders[0]:
            self._accuse(DUPLICATE, eid, seq, consumer, f"consumer {holders[0]} still held it")
        elif self._is_grouped:
            self._pass_by(eid, seq)
        if holders == IS_ASIDE:
            holders = IS_WAITING
        if self._is_grouped and not holders:
            self._check_holders(eid, consumer, seq)
        if consumer not in holders:
            self._states[seq] = (*holders, consumer)
            self._holding[consumer] = self._holding.get(consumer, 0) + 1

    def _unexpected(self, eid: int, consumer: int, seq: int) -> tuple[int, ...]:
        """Judge the delivery of a message that is not here."""
        if self._first and seq > self._last:
            self._accuse(PHANTOM, eid, seq, consumer, "it was never enqueued")
        elif (self._first and seq >= self._first) or seq in self._early_done:
            self._accuse(DUPLICATE, eid, seq, consumer, "it was settled or dropped before")
        return IS_WAITING

    def _check_holders(self, eid: int, consumer: int, seq: int) -> None:
        if consumer in self._holding:
            return  # if that is wrong, it was so when the second holder came in
        others = list(self._holding)
        if others:
            text = f"consumer {others[0]} still held {self._holding[others[0]]} of its group"
            self._accuse(TWO_HOLDERS, eid, seq, consumer, text)

    def _pass_by(self, eid: int, seq: int) -> None:
        """Note the waiting messages that should have gone first."""
        overtaker = self._passed.pop(seq, 0)
        if overtaker:
            text = "a later message of its group was delivered before it"
            self._accuse(ORDER, overtaker, seq, 0, text)
        waiting = self._waiting
        while waiting and waiting[0] <= seq:
            first = heappop(waiting)
            if first < seq and self._states.get(first) == IS_WAITING:
                self._passed[first] = eid

    def _settle(self, eid: int, kind: int, consumer: int, seq: int) -> None:
        holders = self._states.get(seq, IS_WAITING)
        if not consumer or consumer not in holders:
            self._settle_unheld(eid, kind, consumer, seq)
            return
        if kind != RELEASE and self._is_zombie(eid, consumer, seq):
            self._accuse(ZOMBIE, eid, seq, consumer, "the consumer had left")
        self._enlisted.discard(seq)
        for holder in holders:
            self._let_go(holder)
            if holder != consumer:
                self._excused.add((seq, holder))
        if kind == ACK or kind == REJECT:
            self._forget_message(seq)
            return
        self._states[seq] = IS_WAITING
        if self._is_grouped:
            heappush(self._waiting, seq)

    def _is_zombie(self, eid: int, consumer: int, seq: int) -> bool:
        if not self._queue.changes or seq in self._enlisted:
            return False
        return self._queue.is_gone(consumer, eid)

    def _settle_unheld(self, eid: int, kind: int, consumer: int, seq: int) -> None:
        if (seq, consumer) in self._excused:
            self._excused.discard((seq, consumer))
            return
        is_early = seq not in self._states and (not self._first or seq < self._first)
        if is_early and not self._queue.begins_whole:
            if kind == ACK or kind == REJECT:
                self._early_done.add(seq)
            return
        self._accuse(ZOMBIE, eid, seq, consumer, "the consumer did not hold it")

    def _remove(self, eid: int, kind: int, seq: int) -> None:
        """Take a message that expired, was dropped or was dead-lettered."""
        holders = self._states.get(seq)
        if holders is None:
            return  # a rejected one is dead-lettered next
        if holders and holders[0]:
            if kind != DEAD_LETTER:
                self._accuse(LOST, eid, seq, holders[0], "it was dropped while it was held")
            for holder in holders:
                self._let_go(holder)
        overtaker = self._passed.pop(seq, 0)
        if overtaker:
            text = "a later message of its group was delivered before it ended"
            self._accuse(ORDER, overtaker, seq, 0, text)
        self._forget_message(seq)

    def _forget_message(self, seq: int) -> None:
        del self._states[seq]
        self._enlisted.discard(seq)
        if seq < self._first or not self._first:
            self._early_done.add(seq)

    def _let_go(self, holder: int) -> None:
        count = self._holding[holder] - 1
        if count:
            self._holding[holder] = count
        else:
            del self._holding[holder]

    def _forget(self, eid: int) -> None:
        """Forget what a deleted queue held."""
        while self._deletes[0] < eid:
            del self._deletes[0]
        self._states.clear()
        self._holding.clear()
        self._waiting.clear()
        self._passed.clear()
        self._enlisted.clear()

    def _accuse(self, kind: str, eid: int, seq: int, consumer: int, detail: str) -> None:
        self.violations.append(Violation(kind, eid, seq, consumer, detail))
