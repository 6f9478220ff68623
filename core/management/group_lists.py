"""GroupLists: pages of the groups of one queue or of all queues.

    all_groups       in the order of the queues, and within a queue in the order in which they came
    waiting_groups   only those that wait, the most urgent first (`core.management.waiting`)
    parked_groups    only those that are parked

Each is a walk (`core.management.pages`), because there may be a million groups. A step looks at
some of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import islice
from typing import Final

from covey.core.dispatch.lane import Lane
from covey.core.jobs.job import Steps
from covey.core.management import describe
from covey.core.management.describe import Attributes
from covey.core.management.pages import Page, Walk
from covey.core.management.waiting import longest_waits, urgency
from covey.core.queue.queue import Queue

QUEUES_AT_ONCE: Final = 16  # queues without groups count as one item of a job
LANES_AT_ONCE: Final = 128
SHOWN_AT_ONCE: Final = 32  # groups that are described in one step


def all_groups(
    queues: Sequence[Queue], now: float, start: int = 0, count: int | None = None
) -> Walk:
    """Return a walk through a page of all groups of these queues."""

    def walk(page: Page) -> Steps:
        for number, queue in enumerate(queues):
            lanes = queue.state.lanes.values()
            first = max(0, start - page.total)
            stop = None if count is None else first + count - len(page.rows)
            page.total += len(lanes)
            shown = list(islice(lanes, first, stop)) if stop is None or first < stop else []
            for place in range(0, len(shown), SHOWN_AT_ONCE):
                some = _present(queue, shown[place : place + SHOWN_AT_ONCE])
                page.rows += describe.groups(queue, some, now)
                yield SHOWN_AT_ONCE
            if number % QUEUES_AT_ONCE == 0:
                yield 1

    return walk


def waiting_groups(
    queues: Sequence[Queue], now: float, start: int = 0, count: int | None = None
) -> Walk:
    """Return a walk through a page of the groups that wait, the most urgent first."""

    def walk(page: Page) -> Steps:
        most = None if count is None else start + count
        found: list[tuple[tuple[float, Lane], Queue]] = []
        for queue, lanes in _some_of(queues):
            longest, waiting = longest_waits(queue, lanes, now, most or len(lanes))
            page.total += waiting
            found += [(wait, queue) for wait in longest]
            if most is not None and len(found) > most + LANES_AT_ONCE:
                found = _most_urgent(found, most)
            yield max(1, len(lanes) // QUEUES_AT_ONCE)
        shown = _most_urgent(found, len(found) if most is None else most)[start:]
        yield from _describing(page, [(queue, lane) for (_, lane), queue in shown], now)

    return walk


def parked_groups(
    queues: Sequence[Queue], now: float, start: int = 0, count: int | None = None
) -> Walk:
    """Return a walk through a page of the groups that are parked."""

    def walk(page: Page) -> Steps:
        stop = None if count is None else start + count
        shown: list[tuple[Queue, Lane]] = []
        for queue, lanes in _some_of(queues):
            parked = [(queue, lane) for lane in lanes if lane.is_parked]
            first = max(0, start - page.total)
            page.total += len(parked)
            shown += parked[first : None if stop is None else first + stop - start - len(shown)]
            yield max(1, len(lanes) // QUEUES_AT_ONCE)
        yield from _describing(page, shown, now)

    return walk


def _some_of(queues: Sequence[Queue]) -> Iterator[tuple[Queue, list[Lane]]]:
    """Give the groups of all queues, some of one queue at a time; those that are gone are not."""
    for number, queue in enumerate(queues):
        lanes = list(queue.state.lanes.values())
        for place in range(0, len(lanes), LANES_AT_ONCE):
            yield queue, _present(queue, lanes[place : place + LANES_AT_ONCE])
        if not lanes and number % QUEUES_AT_ONCE == 0:
            yield queue, []


def _present(queue: Queue, lanes: Iterable[Lane]) -> list[Lane]:
    """Return those of the groups that are still there."""
    known: dict[str, Lane] = {} if queue.is_ended else queue.state.lanes
    return [lane for lane in lanes if known.get(lane.name) is lane]


def _most_urgent(
    found: list[tuple[tuple[float, Lane], Queue]], most: int
) -> list[tuple[tuple[float, Lane], Queue]]:
    return nlargest(most, found, key=lambda each: urgency(each[0]))


def _describing(page: Page, shown: Sequence[tuple[Queue, Lane]], now: float) -> Steps:
    for place in range(0, len(shown), SHOWN_AT_ONCE):
        page.rows += _described(shown[place : place + SHOWN_AT_ONCE], now)
        yield SHOWN_AT_ONCE


def _described(shown: Sequence[tuple[Queue, Lane]], now: float) -> list[Attributes]:
    """Describe groups of several queues, in this order; those of one queue in one call."""
    lanes: dict[Queue, list[Lane]] = {}
    for queue, lane in shown:
        lanes.setdefault(queue, []).append(lane)
    rows: dict[Lane, Attributes] = {}
    for queue, own in lanes.items():
        present = _present(queue, own)
        rows.update(zip(present, describe.groups(queue, present, now), strict=True))
    return [rows[lane] for _, lane in shown if lane in rows]
