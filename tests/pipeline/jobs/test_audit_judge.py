"""The sieve never lets a guilty group pass, and holds no plainly innocent one."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import numpy as np
import pytest

from covey.core.events.event import EventKind
from covey.pipeline.jobs.audit_fold import Fold
from covey.pipeline.jobs.audit_page import Event, held_spans
from covey.pipeline.jobs.audit_rules import Surroundings
from covey.pipeline.jobs.audit_sieve import Sorted, suspects
from covey.pipeline.report import Span

E, D, A = int(EventKind.ENQUEUE), int(EventKind.DELIVER), int(EventKind.ACK)
R, X = int(EventKind.RELEASE), int(EventKind.EXPIRE)

Story = list[tuple[int, int, int]]  # kind, consumer, seq


def sift(stories: list[Story], *, grouped: bool = True) -> list[bool]:
    """Say which of the stories, each of one group, are suspect."""
    rows = [(number, *event) for number, story in enumerate(stories) for event in story]
    columns = np.array(rows, "i8").reshape(-1, 4).T
    is_grouped = np.full(len(stories), grouped)
    is_doubtful = np.zeros(len(rows), bool)
    found: list[bool] = suspects(Sorted(*columns), is_grouped, is_doubtful).tolist()
    return found


def is_guilty(story: Story, *, grouped: bool) -> bool:
    fold = Fold(Surroundings(begins_whole=True), is_grouped=grouped)
    for eid, event in enumerate(story, 1):
        fold.take(eid, *event)
    fold.finish()
    return bool(fold.violations)


def good_story(random: Random) -> Story:
    """Three messages, in order, to one consumer, and another once nothing is unsettled."""
    if random.random() < 0.5:
        return [(E, 0, 1), (D, 7, 1), (E, 0, 2), (D, 7, 2), (A, 7, 2), (A, 7, 1), (E, 0, 3)]
    return [(E, 0, 1), (E, 0, 2), (D, 7, 1), (A, 7, 1), (D, 8, 2), (A, 8, 2), (E, 0, 3), (D, 8, 3)]


def spoilt(story: Story, random: Random) -> Story:
    """Change, drop, repeat or move one event."""
    story = list(story)
    at = random.randrange(len(story))
    kind, consumer, seq = story.pop(at)
    change = random.randrange(4)
    if change == 0:
        story.insert(at, (random.choice((E, D, A, R, X)), consumer, seq))
    elif change == 1:
        story.insert(at, (kind, random.choice((0, 7, 8)), random.choice((1, 2, 3, 4))))
    elif change == 2:
        story.insert(random.randrange(len(story) + 1), (kind, consumer, seq))
        story.insert(at, (kind, consumer, seq))
    return story


def test_what_is_plainly_right_passes() -> None:
    random = Random(1)
    assert sift([good_story(random) for _ in range(20)]) == [False] * 20


@pytest.mark.parametrize("grouped", [True, False])
def test_no_guilty_group_passes(grouped: bool) -> None:
    random = Random(2)
    stories = [good_story(random) for _ in range(4000)]
    for _ in range(2):
        stories = [spoilt(story, random) if random.random() < 0.7 else story for story in stories]
    guilty = [is_guilty(story, grouped=grouped) for story in stories]
    suspect = sift(stories, grouped=grouped)
    assert sum(guilty) > 1000
    assert [
        story for story, g, s in zip(stories, guilty, suspect, strict=True) if g and not s
    ] == []
    assert not all(suspect)


def test_messages_without_a_group_may_overtake_each_other() -> None:
    story = [(E, 0, 1), (E, 0, 2), (D, 7, 2), (D, 8, 1), (A, 7, 2), (A, 8, 1)]
    assert sift([story], grouped=False) == [False]
    assert sift([story]) == [True]


def test_groups_without_any_enqueue_are_suspect() -> None:
    assert sift([[(D, 7, 1)], [(A, 7, 1)]]) == [True, True]


# What a page shows of a violation.

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def event(eid: int, kind: EventKind, consumer: int, seq: int) -> Event:
    return Event(eid, int(kind), consumer, seq, NOON)


def test_who_held_what_is_read_from_the_events_around() -> None:
    events = [
        event(4, EventKind.ACK, 7, 1),  # held since before: since when is not known
        event(5, EventKind.DELIVER, 7, 2),
        event(6, EventKind.DELIVER, 8, 3),
        event(9, EventKind.RELEASE, 7, 2),
    ]
    assert held_spans(events) == [
        Span("message 2", 7, 5, 9),
        Span("message 3", 8, 6, 10),  # and still then
    ]
