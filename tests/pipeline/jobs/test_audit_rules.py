"""Each broken promise is found once, and a queue that keeps them all is found innocent."""

from __future__ import annotations

import pytest

from covey.core.events.event import EventKind, QueueEvents
from covey.groups import STRATEGIES
from covey.pipeline.jobs.audit_rules import MESSAGE_KINDS, Fold, Surroundings
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
}


def judge(story: str, *, grouped: bool = True, whole: bool = True) -> list[str]:
    """Fold `in 1, out 1 to 7, ack 1 by 7, leave 7, ...`; give `kind seq`, by event."""
    queue = Surroundings(begins_whole=whole)
    steps = [step.split() for step in story.split(",")]
    for eid, (word, number, *_) in enumerate(steps, 1):
        if word in ("join", "leave"):
            queue.changes.setdefault(int(number), []).append((eid, word == "join"))
        elif word == "delete":
            queue.deletes.append(eid)
    fold = Fold(queue, is_grouped=grouped)
    for eid, (word, number, *rest) in enumerate(steps, 1):
        if word in WORDS:
            fold.take(eid, WORDS[word], int(rest[1]) if rest else 0, int(number))
    fold.finish()
    return [f"{one.kind} {one.seq} @{one.eid}" for one in fold.violations]


@pytest.mark.parametrize(
    "story",
    [
        "in 1, out 1 to 7, in 2, out 2 to 7, ack 1 by 7, ack 2 by 7, in 3, out 3 to 8",
        "in 1, in 2, out 1 to 7, out 2 to 7, release 2 by 7, release 1 by 7, out 1 to 8",
        "in 1, in 2, out 1 to 7, fail 1 by 7, dead 1, out 2 to 7, reject 2 by 7, dead 2",
        "in 1, in 2, expire 1, out 2 to 7, in 3, drop 3",
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
        driver.queue.state.events = tee
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
