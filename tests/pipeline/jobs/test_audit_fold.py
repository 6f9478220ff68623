"""Each broken promise is found once, and a queue that keeps them all is found innocent."""

from __future__ import annotations

import json

import pytest

from covey.core.events.event import EventKind, QueueEvents
from covey.groups import STRATEGIES
from covey.pipeline.jobs.audit_fold import Fold
from covey.pipeline.jobs.audit_rules import (
    CUT,
    DELETED,
    GAP,
    MESSAGE_KINDS,
    NEVER,
    RESTART,
    UNKNOWN,
    Mark,
    Surroundings,
)
from tests.properties.driver import Driver

WORDS = {
    "in": EventKind.ENQUEUE,
    "out": EventKind.DELIVER,
    "ack": EventKind.ACK,
    "release": EventKind.RELEASE,
    "fail": EventKind.FAIL,
    "reject": EventKind.REJECT,
    "dead": EventKind.DEAD_LETTER,
    "expire": EventKind.EXPIRE,
    "drop": EventKind.DROP,
    "aside": EventKind.ASIDE,
    "enlist": EventKind.ENLIST,
    "delist": EventKind.DELIST,
    "deadline": EventKind.DEADLINE,
    "back": EventKind.RECOVER,
    "own": EventKind.ASSIGN,
    "close": EventKind.GROUP_CLOSE,
    "evict": EventKind.EVICT,
}


MARKS = {"delete": DELETED, "gap": GAP, "restart": RESTART, "unknown": UNKNOWN, "cut": CUT}


def judge(
    story: str, *, grouped: bool = True, whole: bool = True, known: bool = False
) -> list[str]:
    """Fold `in 1, out 1 to 7, ack 1 by 7, leave 7, ...`; give `kind seq`, by event.

    `in 1 kept` survives a restart. The number of a `restart` is that of the last event which the
    store knew, and 0 if it knew all; `lost` ones have not told what was on the queue.
    """
    fold = folded(story, grouped=grouped, whole=whole, known=known)
    return [f"{one.kind} {one.seq} @{one.eid}" for one in fold.violations]


def folded(story: str, *, grouped: bool = True, whole: bool = True, known: bool = False) -> Fold:
    queue = Surroundings(begins_whole=whole, begins_known=known)
    queue.is_sticky = True
    steps = [step.split() for step in story.split(",")]
    restarts = [
        (eid, int(step[1]) or NEVER) for eid, step in enumerate(steps, 1) if step[0] == "restart"
    ]
    doubts = [doubt for _, doubt in restarts]
    queue.doubt_from = doubts[0] if doubts else NEVER
    for eid, (word, number, *rest) in enumerate(steps, 1):
        if word in MARKS:
            after = [doubt for at, doubt in restarts if at > eid]
            doubt = after[0] if after else NEVER
            before = int(number) or NEVER
            queue.marks.append(Mark(eid, MARKS[word], doubt, rest != ["lost"], before))
        if word in ("rebalance", "join") or word in MARKS:
            queue.stirs.append(eid)
        if word in ("join", "leave"):
            queue.changes.setdefault(int(number), []).append((eid, word == "join"))
    fold = Fold(queue, is_grouped=grouped)
    for eid, (word, number, *rest) in enumerate(steps, 1):
        if word in WORDS:
            consumer = int(rest[1]) if len(rest) == 2 else 0
            fold.take(eid, WORDS[word], consumer, int(number), rest == ["kept"])
    fold.finish()
    return fold


@pytest.mark.parametrize(
    "story",
    [
        "in 1, out 1 to 7, in 2, out 2 to 7, ack 1 by 7, ack 2 by 7, in 3, out 3 to 8",
        "in 1, in 2, out 1 to 7, out 2 to 7, release 2 by 7, release 1 by 7, out 1 to 8",
        "in 1, in 2, out 1 to 7, fail 1 by 7, dead 1, out 2 to 7, reject 2 by 7, dead 2",
        "in 1, in 2, expire 1, out 2 to 7, in 3, drop 3",
        "in 1, out 1 to 7, deadline 1 by 7, fail 1 by 7, late 1 by 7, out 1 to 8, ack 1 by 8",
        "in 1, in 2, aside 1, out 2 to 7, ack 2 by 7, out 1 to 7",
        "aside 1, in 1, in 2, out 2 to 7, ack 2 by 7",
        "in 1, in 2, aside 1, out 2 to 7, delete 0, in 3, out 3 to 8",
        "in 1, out 1 to 7, leave 7, release 1 by 7, out 1 to 8, ack 1 by 8",
        "join 7, leave 7, join 7, in 1, out 1 to 7, ack 1 by 7",
        "out 1 to 7, ack 1 by 7, in 5, out 3 to 7, out 5 to 7",
        "in 1, in 2, in 3, out 1 to 7, delete 0, in 4, out 4 to 8",
        "in 1, out 1 to 7, enlist 1 by 7, leave 7, ack 1 by 7, in 2, out 2 to 8",
        "in 1, out 1 to 7, enlist 1 by 7, leave 7, fail 1 by 7, out 1 to 8",
        "in 1, out 1 to 7, enlist 1 by 7, leave 7",
        "in 1, in 2",
    ],
)
def test_what_is_allowed_is_no_violation(story: str) -> None:
    assert judge(story) == []


@pytest.mark.parametrize(
    ("story", "found"),
    [
        ("in 1, in 2, out 1 to 7, out 2 to 8, ack 1 by 7, ack 2 by 8", "two-holders 2 @4"),
        ("in 1, in 2, out 2 to 7, out 1 to 7", "order 1 @3"),
        ("in 1, in 2, out 2 to 7, expire 1", "order 1 @3"),
        ("in 1, in 2, out 1 to 7, release 1 by 7, out 2 to 7, out 1 to 7", "order 1 @5"),
        ("in 1, in 2, out 2 to 7, ack 2 by 7, in 3, out 3 to 7", "lost 1 @3"),
        ("in 1, out 1 to 7, leave 7, in 2", "lost 1 @3"),
        ("in 1, out 1 to 7, drop 1", "lost 1 @3"),
        ("in 1, out 1 to 7, ack 1 by 7, out 1 to 7, ack 1 by 7", "duplicate 1 @4"),
        ("in 1, out 1 to 7, out 1 to 8, ack 1 by 8, ack 1 by 7", "duplicate 1 @3"),
        ("in 1, in 2, in 1", "duplicate 1 @3"),
        ("in 1, in 2, in 3, aside 1, out 3 to 7, out 2 to 7", "order 2 @5"),
        ("in 1, delete 0, in 2, in 3, out 3 to 7", "lost 2 @5"),
        (
            "in 1, out 1 to 7, leave 7, release 1 by 7, out 1 to 8, ack 1 by 7, ack 1 by 8",
            "zombie 1 @6",
        ),
        ("in 1, out 1 to 7, leave 7, ack 1 by 7", "zombie 1 @4"),
        ("in 1, out 1 to 7, enlist 1 by 7, delist 1 by 7, leave 7, ack 1 by 7", "zombie 1 @6"),
        ("in 1, out 1 to 7, enlist 1 by 7, delist 1 by 7, leave 7, in 2", "lost 1 @5"),
        ("in 1, out 1 to 7, deadline 1 by 8", "zombie 1 @3"),
        ("in 1, out 1 to 7, deadline 1 by 7, fail 1 by 7, ack 1 by 7", "zombie 1 @5"),
        ("in 1, ack 1 by 7", "zombie 1 @2"),
        ("ack 1 by 7", "zombie 1 @1"),
        ("in 1, out 9 to 7", "phantom 9 @2"),
    ],
)
def test_a_broken_promise_is_found_once(story: str, found: str) -> None:
    assert judge(story) == [found]


def test_messages_without_a_group_promise_no_order_and_no_single_holder() -> None:
    assert judge("in 1, in 2, out 2 to 7, out 1 to 8, ack 2 by 7", grouped=False) == []
    assert judge("in 1, out 1 to 7, out 1 to 8", grouped=False) == ["duplicate 1 @3"]


def test_a_log_that_begins_late_excuses_what_it_cannot_know() -> None:
    assert judge("ack 1 by 7, in 5, out 5 to 7", whole=False) == []
    assert judge("ack 1 by 7, in 5, out 1 to 7", whole=False) == ["duplicate 1 @3"]
    assert judge("in 1, ack 1 by 7", whole=False) == ["zombie 1 @2"]


def test_a_second_holder_is_found_when_it_comes_in_and_not_again_with_each_message() -> None:
    story = "in 1, in 2, in 3, in 4, out 1 to 7, out 2 to 8, out 3 to 7, out 4 to 7"
    assert judge(story) == ["two-holders 2 @6"]
    again = "in 1, in 2, in 3, out 1 to 7, out 2 to 8, ack 1 by 7, out 3 to 7"
    assert judge(again) == ["two-holders 2 @5", "two-holders 3 @7"]


def test_all_the_holders_between_are_counted() -> None:
    story = "in 1, in 2, in 3, out 1 to 7, out 2 to 8, ack 2 by 8, out 3 to 7"
    assert judge(story) == ["two-holders 2 @5"]


class Tee(QueueEvents):
    """Passes events on and keeps them."""

    def __init__(self, other: QueueEvents) -> None:
        self.other = other
        self.events: list[tuple[int, str, int, int]] = []

    def record(self, kind: int, group: str, consumer: int, seq: int) -> None:
        self.events.append((kind, group, consumer, seq))
        self.other.record(kind, group, consumer, seq)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_real_queue_under_churn_keeps_every_promise(strategy: str) -> None:
    judged = 0
    for seed in range(12):
        driver = Driver(seed, strategy)
        tee = Tee(driver.referee)
        driver.queue.state.report_to(tee)
        driver.play(400)
        queue = Surroundings(begins_whole=True)
        for eid, (kind, _, consumer, _) in enumerate(tee.events, 1):
            if kind in (EventKind.JOIN, EventKind.LEAVE):
                there = kind == EventKind.JOIN
                queue.changes.setdefault(consumer, []).append((eid, there))
        folds: dict[str, Fold] = {}
        for eid, (kind, group, consumer, seq) in enumerate(tee.events, 1):
            if kind in MESSAGE_KINDS:
                fold = folds.setdefault(group, Fold(queue, is_grouped=group != ""))
                fold.take(eid, kind, consumer, seq)
                judged += 1
        for fold in folds.values():
            fold.finish()
            assert fold.violations == []
    assert judged > 1000


# Over restarts: persistent messages are `kept`, those that are recovered come `back`.
KEPT = "in 1 kept, in 2 kept, out 1 to 7, ack 1 by 7, restart 0, "


@pytest.mark.parametrize(
    "story",
    [
        KEPT + "back 2 kept, out 2 to 1, ack 2 by 1, in 9, out 9 to 1",
        "in 1, out 1 to 7, restart 0, in 9, out 9 to 1",  # what is not persistent may end
        "in 1 kept, out 1 to 7, restart 0, back 1 kept, out 1 to 7",  # it was held, and comes again
        "in 1 kept, in 2 kept, restart 1, back 1 kept, out 1 to 1",  # 2 was not in the store yet
        "in 1 kept, out 1 to 7, ack 1 by 7, restart 2, back 1 kept, out 1 to 1",  # nor its ack
        "in 1 kept, restart 0, back 1 kept, restart 0, back 1 kept, out 1 to 1",
        "in 1 kept, unknown 0, back 1 kept, back 5 kept, out 1 to 1, out 5 to 1",
        "in 1 kept, out 1 to 7, cut 0, back 1 kept, out 1 to 1",  # its end is missing
        "in 1, out 1 to 7, gap 0, ack 1 by 7, out 5 to 7, ack 5 by 7",
        "in 1, in 2, out 2 to 7, gap 0, in 9, out 9 to 7",
    ],
)
def test_what_is_allowed_over_restarts_and_gaps(story: str) -> None:
    assert judge(story, known=True) == []


@pytest.mark.parametrize(
    ("story", "found"),
    [
        (KEPT + "back 1 kept, back 2 kept", "duplicate 1 @6"),  # it was acknowledged
        (KEPT + "in 9, out 9 to 1", "lost 2 @6"),
        (KEPT + "back 2 kept, in 9, out 9 to 1", "lost 2 @8"),
        (KEPT + "back 2 kept, out 1 to 1", "duplicate 1 @7"),
        ("in 1 kept, restart 0 lost", "lost 1 @3"),  # the queue itself is gone
        (KEPT + "back 2 kept, back 5 kept, out 2 to 1, out 5 to 1", "phantom 5 @7"),
        (KEPT + "back 2 kept, out 2 to 1, out 50 to 1", "phantom 50 @8"),
        (KEPT + "back 2 kept, in 2", "duplicate 2 @7"),  # the number is given again
        ("in 1 kept, in 2 kept, restart 0, back 1 kept, back 2 kept, out 2 to 1, out 1 to 1",
         "order 1 @6"),
        ("out 5 to 1", "phantom 5 @1"),  # all that was on the queue is known
    ],
)  # fmt: skip
def test_what_goes_wrong_over_a_restart_is_found_once(story: str, found: str) -> None:
    assert judge(story, known=True) == [found]


def test_what_only_a_gap_explains_is_told_and_accuses_nobody() -> None:
    fold = folded("in 1, in 2, in 3, out 2 to 7, out 3 to 7, ack 3 by 7, gap 0, in 9", known=True)
    assert fold.violations == []
    told = sorted((one.seq, one.detail) for one in fold.unjudged)
    assert told == [
        (1, "a later message of its group was delivered before it, then events are missing"),
        (2, "it was held, then events are missing"),
    ]


@pytest.mark.parametrize(
    ("story", "found"),
    [
        (
            "join 7, own 0 by 7, in 1, out 1 to 7, ack 1 by 7, own 0 by 8, in 2, out 2 to 8",
            ["moved 0 @6"],
        ),
        ("own 0 by 7, in 1, out 1 to 7, ack 1 by 7, own 0 by 8", []),  # 7 may have left before
        ("join 7, own 0 by 7, in 1, out 1 to 7, ack 1 by 7, leave 7, own 0 by 8", []),
        ("join 7, own 0 by 7, close 0, own 0 by 8", []),
        ("join 7, own 0 by 7, evict 0, own 0 by 8", []),
        ("join 7, own 0 by 7, rebalance 0, own 0 by 8", []),
        ("join 7, own 0 by 7, restart 0, own 0 by 1", []),
        ("join 7, own 0 by 7, gap 0, own 0 by 8", []),
        ("join 7, own 0 by 7, in 1, out 1 to 7, fail 1 by 7, own 0 by 8, out 1 to 8", []),
        ("own 0 by 7, own 0 by 7", []),
        ("in 1, out 1 to 7, ack 1 by 7, in 2, out 2 to 8", []),  # nobody was said to own it
    ],
)
def test_a_group_leaves_a_living_owner_only_for_a_cause(story: str, found: list[str]) -> None:
    assert judge(story) == found


def test_a_delivery_to_one_who_never_joined_is_found() -> None:
    queue = Surroundings(begins_whole=True, begins_known=True)
    queue.joins_known_from = 0
    queue.changes = {7: [(1, True)]}
    fold = Fold(queue, is_grouped=True)
    fold.take(2, EventKind.ENQUEUE, 0, 1)
    fold.take(3, EventKind.DELIVER, 8, 1)
    assert [(one.kind, one.consumer) for one in fold.violations] == [("stranger", 8)]


def test_a_state_forgets_what_has_reached_the_store_by_now() -> None:
    queue = Surroundings(begins_whole=True, begins_known=True)
    queue.doubt_from = 0
    fold = Fold(queue, is_grouped=True)
    fold.take(1, EventKind.ENQUEUE, 0, 1, True)
    fold.take(2, EventKind.DELIVER, 7, 1)
    fold.take(3, EventKind.ACK, 7, 1)
    assert not fold.is_idle  # a restart may undo it
    queue.doubt_from = 3
    later = Fold(queue, is_grouped=True)
    later.load(json.loads(json.dumps(fold.saved())))
    assert later.is_idle


def reloaded(fold: Fold) -> Fold:
    """Return a fold that goes on from the state of another, as the next audit does."""
    later = Fold(fold._queue, is_grouped=True)
    later.load(json.loads(json.dumps(fold.saved())))
    return later


def test_a_state_forgets_what_came_before_a_gap_and_ended_long_ago() -> None:
    queue = Surroundings(begins_whole=True, begins_known=True)
    queue.marks = [Mark(2, GAP)]
    queue.doubt_from = 0
    fold = Fold(queue, is_grouped=True)
    fold.take(1, EventKind.ENQUEUE, 0, 1)
    fold.take(2, EventKind.ENQUEUE, 0, 2)
    for seq in (1, 2):
        fold.take(2 + seq, EventKind.ENLIST, 7, seq)
        fold.take(4 + seq, EventKind.ACK, 7, seq)
    again = reloaded(fold)
    again.take(9, EventKind.DELIVER, 7, 1)
    assert [(one.kind, one.seq) for one in again.violations] == [("duplicate", 1)]
    queue.doubt_from = 6
    later = reloaded(fold)
    assert later.is_idle
    assert not any(later.saved()[name] for name in ("early", "enlisted", "states"))


def test_a_restart_ends_what_a_gap_left_and_what_was_in_doubt_before_it() -> None:
    fold = folded(
        "in 1, gap 0, ack 1 by 7, in 2 kept, restart 3, in 9 kept, out 9 to 1, ack 9 by 1"
    )
    saved = fold.saved()
    assert (saved["early"], saved["done_in_doubt"]) == ([], [])
    assert fold.violations == []


def test_what_was_in_doubt_stays_so_while_a_recovery_goes_on_in_the_next_file() -> None:
    queue = Surroundings(begins_whole=True, begins_known=True)
    queue.marks = [Mark(10, RESTART, doubt_before=2)]
    queue.doubt_from = 0
    fold = Fold(queue, is_grouped=True)
    for seq in (1, 2):
        fold.take(seq, EventKind.ENQUEUE, 0, seq, True)
    for seq in (1, 2):
        fold.take(2 + 2 * seq, EventKind.DELIVER, 7, seq)
        fold.take(3 + 2 * seq, EventKind.ACK, 7, seq)  # the store has not heard of it
    fold.take(11, EventKind.RECOVER, 0, 1, True)
    queue.marks = [Mark(10, RESTART, doubt_from=10, doubt_before=2)]
    later = reloaded(fold)
    later.take(12, EventKind.RECOVER, 0, 2, True)
    assert later.violations == []


def test_a_fold_that_was_saved_goes_on_as_if_it_had_not() -> None:
    story = KEPT + "back 2 kept, in 9, in 10, out 2 to 1, out 10 to 1, ack 2 by 1"
    known = folded(story, known=True)
    other = Fold(known._queue, is_grouped=True)
    other.load(json.loads(json.dumps(known.saved())))
    for fold in (known, other):
        fold.violations = []
        fold.take(30, EventKind.DELIVER, 1, 9)
        fold.take(31, EventKind.ACK, 1, 10)
        fold.take(32, EventKind.DELIVER, 1, 2)
    assert other.violations == known.violations
    assert other.saved() == known.saved()
