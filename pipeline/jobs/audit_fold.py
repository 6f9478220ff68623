"""Fold: one group's events in their order, judged by the broker's promises.

`PROMISES` lists what was promised, by the name of the violation. A message is passed by if a later
message of its group is delivered before it. That is one violation: `order` if the message was seen
again, else `lost`. Messages without a group have no promised order, and several consumers may hold
them at the same time. All other promises apply to them, too.

    (none) --enqueue--> waiting --deliver--> held --ack, reject--> (none)
                          ^ |                |
                          | +-- expire, drop, dead-letter --> (none)
                          +-- release, fail -+

A consumer may settle a message in a transaction. The message then stays with that transaction until
its end, even if the consumer leaves. A message that no selector admits is set aside: it waits, but
later messages may go first.

A consumer may hold a message beyond its deadline. Then the broker takes the message back, and the
delivery counts as failed. If that consumer settles the message later, the log has an event of its
own kind for it, which changes nothing.

A fold keeps only messages that are waiting or held. Any other message is finished if its number is
in the range that the log has seen enqueued. A message with a number below that range came before
the log began. But if all messages on the queue at that time are known
(`Surroundings.begins_known`), no such message existed.

A fold goes on over restarts (`Mark`). A message that is persistent and not settled must be
recovered. A message that was settled must not. Changes that were not yet in the store when the run
ended are in doubt: the restart may undo them. A gap in the log, or a run that is not in the log,
accuses nobody. The fold begins anew behind it, and messages that were held or passed by are
`unjudged`.

A group stays with its owner if the strategy promises that. It may leave an owner that is still
there only for a cause in the log: any event of the group, or of its queue, that is not about one
message.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any, Final

from covey.pipeline.jobs.audit_rules import (
    ACK,
    ASIDE,
    ASSIGN,
    CUT,
    DEAD_LETTER,
    DEADLINE,
    DELETED,
    DELIST,
    DELIVER,
    DUPLICATE,
    ENLIST,
    ENQUEUE,
    EXCUSES_NOTHING,
    GAP,
    IS_ASIDE,
    IS_WAITING,
    LOST,
    MESSAGE_KINDS,
    MOVED,
    NEVER,
    ORDER,
    PHANTOM,
    RECOVER,
    REJECT,
    RELEASE,
    RESTART,
    SETTLES,
    STRANGER,
    TWO_HOLDERS,
    UNKNOWN,
    ZOMBIE,
    Mark,
    Surroundings,
    Violation,
)

# The attributes of a fold that are saved besides its messages.
NUMBERS: Final = ("_first", "_last", "_owner", "_owned_since", "_run_began")
FLAGS: Final = ("_is_whole", "_is_known", "_is_recovering", "_is_surprised")
SETS: Final = ("kept", "enlisted", "missing")


class Fold:
    """One group's messages, from event to event."""

    def __init__(self, queue: Surroundings, *, is_grouped: bool) -> None:
        self.violations: list[Violation] = []
        self.unjudged: list[Violation] = []
        self._queue = queue
        self._is_grouped = is_grouped
        self._states: dict[int, tuple[int, ...]] = {}
        self._kept: set[int] = set()  # the persistent ones among them
        self._holding: dict[int, int] = {}  # consumer: how many it holds
        self._waiting: list[int] = []  # heap; messages that wait no more are removed at its top
        self._passed: dict[int, int] = {}  # message passed by: the delivery that overtook it
        self._excused: set[tuple[int, int]] = set()  # (seq, consumer): its next settle is excused
        self._early_done: dict[int, int] = {}  # enqueued before the log began: its end
        self._enlisted: set[int] = set()  # held by a transaction
        self._first = 0
        self._last = max(0, queue.first_known - 1)
        self._next_aside = 0
        self._owner = 0
        self._owned_since = 0
        self._is_whole = queue.begins_whole
        self._is_known = queue.begins_known
        self._is_recovering = False
        self._is_surprised = False  # whether an unexpected recovered message is a violation
        self._missing: set[int] = set()  # must be recovered, and is not yet
        self._new_in_doubt: dict[int, int] = {}  # number: the event that changed it
        self._done_in_doubt: dict[int, int] = {}
        self._doubt_from = queue.doubt_from
        self._run_began = 0
        self._marks = 0  # how many of the queue's marks are behind us
        self._next_mark = queue.marks[0].eid if queue.marks else NEVER

    @property
    def is_idle(self) -> bool:
        """Return True if nothing of this fold needs to be saved."""
        is_settled = not (self._states or self._passed or self._missing or self._early_done)
        return is_settled and not (self._new_in_doubt or self._done_in_doubt)

    def take(self, eid: int, kind: int, consumer: int, seq: int, persistent: bool = False) -> None:
        """Judge the next event of the group."""
        if eid > self._next_mark:
            self._pass_marks(eid)
        if kind == ENQUEUE:
            self._enqueue(eid, seq, persistent)
        elif kind == DELIVER:
            self._deliver(eid, consumer, seq)
        elif kind in SETTLES:
            self._settle(eid, kind, consumer, seq)
        elif kind == RECOVER:
            self._recover(eid, seq, persistent)
        elif kind == ASSIGN:
            self._assign(eid, consumer)
        elif kind == ASIDE:
            self._set_aside(seq)
            self._owner = 0
        elif kind == ENLIST:
            self._enlisted.add(seq)
        elif kind == DELIST:
            self._enlisted.discard(seq)
        elif kind == DEADLINE:
            self._run_out(eid, consumer, seq)
        elif kind in MESSAGE_KINDS:
            self._remove(eid, kind, seq)
        if kind not in EXCUSES_NOTHING:
            self._owner = 0  # after such an event another owner is no violation

    def finish(self, before: int = NEVER) -> None:
        """Judge what is still open at the end of the log, if it was open before a given event."""
        self._pass_marks(before)
        if self._run_began < before:
            self._end_recovery()
        for seq, eid in list(self._passed.items()):
            if eid < before:
                text = "a later message of its group was delivered, and it never was"
                self._accuse(LOST, eid, seq, 0, text)
                del self._passed[seq]
        for seq, holders in list(self._states.items()):
            is_held = bool(holders and holders[0]) and seq not in self._enlisted
            if is_held and self._queue.is_gone(holders[0], NEVER):
                left = self._queue.changes[holders[0]][-1][0]
                if left < before:
                    text = "its consumer left with it, and it never came back"
                    self._accuse(LOST, left, seq, holders[0], text)
                    self._let_go_all(holders)
                    self._forget_message(left, seq)

    # Marks.

    def _pass_marks(self, eid: int) -> None:
        marks = self._queue.marks
        while self._marks < len(marks) and marks[self._marks].eid < eid:
            mark = marks[self._marks]
            self._marks += 1
            self._end_recovery()
            if mark.what == DELETED:
                self._clear()
            elif mark.what == RESTART:
                self._restart(mark)
            else:
                self._rebase(mark)
        self._next_mark = marks[self._marks].eid if self._marks < len(marks) else NEVER

    def _restart(self, mark: Mark) -> None:
        """Go on in the next run: its consumers are new, its messages are the recovered ones."""
        new = {seq for seq, eid in self._new_in_doubt.items() if eid > mark.doubt_before}
        done = {seq: eid for seq, eid in self._done_in_doubt.items() if eid > mark.doubt_before}
        self._missing = (self._kept & self._states.keys()) - new
        maybe = done | dict.fromkeys(new, 0)
        self._is_surprised = self._is_known
        passed = {seq: eid for seq, eid in self._passed.items() if seq in self._missing}
        self._clear()
        self._passed = passed
        self._begin_run(mark)
        self._done_in_doubt = maybe
        self._is_recovering = True
        self._is_whole = True
        self._is_known = mark.is_recovered
        if self._is_known:
            self._early_done.clear()

    def _rebase(self, mark: Mark) -> None:
        """Begin anew, because events before the mark are not in the log."""
        why = "events are missing" if mark.what == GAP else "what came before is not in the log"
        for seq in self._passed:
            text = f"a later message of its group was delivered before it, then {why}"
            self.unjudged.append(Violation(LOST, mark.eid + 1, seq, 0, text))
        for seq, holders in self._states.items():
            if holders and holders[0]:
                text = f"it was held, then {why}"
                self.unjudged.append(Violation(LOST, mark.eid + 1, seq, holders[0], text))
        self._clear()
        self._early_done.clear()
        self._first = 0
        self._is_whole = self._is_known = False
        if mark.what == GAP:
            return
        self._begin_run(mark)
        if mark.what == UNKNOWN:
            self._last = 0  # it may be another store with other numbers
        self._is_whole = self._is_known = mark.is_recovered

    def _begin_run(self, mark: Mark) -> None:
        self._doubt_from = mark.doubt_from
        self._run_began = mark.eid
        self._new_in_doubt = {}
        self._done_in_doubt = {}

    def _end_recovery(self) -> None:
        """Accuse the broker of messages that a restart should have recovered and has not."""
        if not self._is_recovering:
            return
        self._is_recovering = False
        for seq in sorted(self._missing):
            text = "it was persistent and not settled when the broker ended, and was not recovered"
            self._accuse(LOST, self._run_began + 1, seq, 0, text)
            self._passed.pop(seq, None)
        self._missing = set()
        began = self._run_began
        self._done_in_doubt = {seq: at for seq, at in self._done_in_doubt.items() if at > began}

    def _clear(self) -> None:
        """Forget all messages of the queue."""
        self._states.clear()
        self._kept.clear()
        self._holding.clear()
        self._waiting.clear()
        self._passed.clear()
        self._enlisted.clear()
        self._excused.clear()
        self._owner = 0

    def _recover(self, eid: int, seq: int, persistent: bool) -> None:
        if self._is_recovering:
            is_expected = seq in self._missing or seq in self._done_in_doubt
            if self._is_surprised and not is_expected:
                is_new = seq > self._last
                text = "no run has enqueued it" if is_new else "it was settled or dropped before"
                self._accuse(PHANTOM if is_new else DUPLICATE, eid, seq, 0, text)
            self._missing.discard(seq)
            self._done_in_doubt.pop(seq, None)
        self._first = min(self._first, seq) if self._first else seq
        self._last = max(self._last, seq)
        self._states[seq] = IS_WAITING
        if persistent:
            self._kept.add(seq)
        if self._is_grouped:
            heappush(self._waiting, seq)

    # Messages.

    def _enqueue(self, eid: int, seq: int, persistent: bool) -> None:
        if self._is_recovering:
            self._end_recovery()
        if seq <= self._last:
            self._accuse(DUPLICATE, eid, seq, 0, "the number was given before")
            return
        if persistent:
            self._kept.add(seq)
        if eid > self._doubt_from:
            self._new_in_doubt[seq] = eid
        self._first = self._first or seq
        self._last = seq
        self._states[seq] = IS_ASIDE if seq == self._next_aside else IS_WAITING
        if self._is_grouped:
            heappush(self._waiting, seq)

    def _set_aside(self, seq: int) -> None:
        state = self._states.get(seq)
        if state is None:
            self._next_aside = seq  # a queue may report ASIDE before the message's ENQUEUE
        elif state == IS_WAITING:
            self._states[seq] = IS_ASIDE

    def _assign(self, eid: int, consumer: int) -> None:
        """Note a group's owner; if the owner is another than before, judge whether it may be."""
        queue = self._queue
        owner = self._owner
        if (
            owner not in (0, consumer)
            and queue.is_sticky
            and queue.is_there(owner, eid)
            and not queue.may_leave(owner, self._owned_since, eid, consumer)
        ):
            text = f"consumer {owner} owned its group, and nothing has taken it away"
            self._accuse(MOVED, eid, 0, consumer, text)
        self._owner = consumer
        self._owned_since = eid

    def _deliver(self, eid: int, consumer: int, seq: int) -> None:
        if self._is_recovering:
            self._end_recovery()
        if self._queue.is_stranger(consumer, eid, self._run_began):
            self._accuse(STRANGER, eid, seq, consumer, "the consumer has not joined")
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
        """Judge the delivery of a message that is neither waiting nor held."""
        if self._is_known and (seq > self._last or (not self._first or seq < self._first)):
            given_before = seq < self._queue.first_known
            kind = DUPLICATE if given_before else PHANTOM
            text = "it was settled or dropped before" if given_before else "it was never enqueued"
            self._accuse(kind, eid, seq, consumer, text)
        elif self._first and seq > self._last:
            self._accuse(PHANTOM, eid, seq, consumer, "it was never enqueued")
        elif (self._first and seq >= self._first) or seq in self._early_done:
            self._accuse(DUPLICATE, eid, seq, consumer, "it was settled or dropped before")
        return IS_WAITING

    def _check_holders(self, eid: int, consumer: int, seq: int) -> None:
        if consumer in self._holding:
            return  # if two hold the group, the second holder was accused when it came
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
            self._doubt(eid, seq)
            self._forget_message(eid, seq)
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
        if is_early and not self._is_whole:
            self._enlisted.discard(seq)
            if kind == ACK or kind == REJECT:
                self._early_done[seq] = eid
            return
        self._accuse(ZOMBIE, eid, seq, consumer, "the consumer did not hold it")

    def _run_out(self, eid: int, consumer: int, seq: int) -> None:
        """Judge that a message was taken from a consumer; its FAIL event comes next."""
        if consumer not in self._states.get(seq, (consumer,)):
            self._accuse(ZOMBIE, eid, seq, consumer, "it was taken from one who did not hold it")

    def _remove(self, eid: int, kind: int, seq: int) -> None:
        """Remove a message that expired, was dropped or was dead-lettered."""
        holders = self._states.get(seq)
        if holders is None:
            return  # a rejected message was removed before it was dead-lettered
        if holders and holders[0]:
            if kind != DEAD_LETTER:
                self._accuse(LOST, eid, seq, holders[0], "it was dropped while it was held")
            self._let_go_all(holders)
        overtaker = self._passed.pop(seq, 0)
        if overtaker:
            text = "a later message of its group was delivered before it ended"
            self._accuse(ORDER, overtaker, seq, 0, text)
        self._doubt(eid, seq)
        self._forget_message(eid, seq)

    def _doubt(self, eid: int, seq: int) -> None:
        """Note that a restart may bring a message back, because its end may not be in the store."""
        if eid > self._doubt_from and seq in self._kept:
            self._done_in_doubt[seq] = eid

    def _forget_message(self, eid: int, seq: int) -> None:
        del self._states[seq]
        self._kept.discard(seq)
        self._enlisted.discard(seq)
        if not self._is_known and (seq < self._first or not self._first):
            self._early_done[seq] = eid

    def _let_go_all(self, holders: tuple[int, ...]) -> None:
        for holder in holders:
            self._let_go(holder)

    def _let_go(self, holder: int) -> None:
        count = self._holding[holder] - 1
        if count:
            self._holding[holder] = count
        else:
            del self._holding[holder]

    def _accuse(self, kind: str, eid: int, seq: int, consumer: int, detail: str) -> None:
        self.violations.append(Violation(kind, eid, seq, consumer, detail))

    # Between two calls of an audit.

    def saved(self) -> dict[str, object]:
        """Return what a later fold of the group must know, in types that JSON has."""
        queue = self._queue
        if not queue.is_sticky or queue.may_leave(self._owner, self._owned_since, NEVER):
            self._owner = 0  # the later fold will not know what may move the group
        return {
            "states": [[seq, *holders] for seq, holders in self._states.items()],
            "kept": sorted(self._kept),
            "passed": [list(one) for one in self._passed.items()],
            "early": [list(one) for one in self._early_done.items()],
            "enlisted": sorted(self._enlisted),
            "excused": [list(one) for one in self._excused],
            "new_in_doubt": [list(one) for one in self._new_in_doubt.items()],
            "done_in_doubt": [list(one) for one in self._done_in_doubt.items()],
            "missing": sorted(self._missing),
            "numbers": [getattr(self, name) for name in NUMBERS],
            "flags": [getattr(self, name) for name in FLAGS],
            "mark": self._queue.marks[self._marks - 1].eid if self._marks else 0,
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from the saved state of an earlier fold of the group."""
        self._states = {seq: tuple(holders) for seq, *holders in saved["states"]}
        self._passed = dict(saved["passed"])
        self._early_done = dict(saved.get("early", ()))  # an older state has none
        self._new_in_doubt = dict(saved["new_in_doubt"])
        self._done_in_doubt = dict(saved["done_in_doubt"])
        self._excused = {(seq, consumer) for seq, consumer in saved["excused"]}
        values = [*saved["numbers"], *saved["flags"]]
        for name, value in zip((*NUMBERS, *FLAGS), values, strict=True):
            setattr(self, name, value)
        for name in SETS:
            setattr(self, f"_{name}", set(saved[name]))
        marks = self._queue.marks
        self._marks = sum(mark.eid <= saved["mark"] for mark in marks)
        self._next_mark = marks[self._marks].eid if self._marks < len(marks) else NEVER
        runs = [mark for mark in marks[: self._marks] if mark.what in (RESTART, UNKNOWN, CUT)]
        self._doubt_from = runs[-1].doubt_from if runs else self._queue.doubt_from
        # What is in the store by now is in doubt no more. Early messages are forgotten then, too:
        # there may be as many of them as a queue had, and nothing else would ever remove them.
        done = {} if self._is_recovering else self._done_in_doubt
        for changes in (self._new_in_doubt, done, self._early_done):
            for seq in [seq for seq, eid in changes.items() if eid <= self._doubt_from]:
                del changes[seq]
        for holders in self._states.values():
            for holder in holders:
                if holder:
                    self._holding[holder] = self._holding.get(holder, 0) + 1
        if self._is_grouped:
            self._waiting = [seq for seq, holders in self._states.items() if not any(holders)]
            heapify(self._waiting)
