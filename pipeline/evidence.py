"""Evidence: a violation on the page, with the events of its group around it."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from covey.core.events import KIND_NAMES, EventKind
from covey.pipeline.charts import Span, holdings
from covey.pipeline.report import Report

SETTLING: Final = (EventKind.ACK, EventKind.RELEASE, EventKind.FAIL, EventKind.REJECT)


class Event(NamedTuple):
    """One event of a group."""

    eid: int
    kind: int
    consumer: int
    seq: int
    ts: datetime


class Proven(NamedTuple):
    """A violation with its evidence, as the table has it."""

    violation: str
    run: str
    queue: str
    group_id: str
    eid: int
    seq: int
    consumer: int
    detail: str
    evidence: list[Event]


def show(report: Report, proven: Proven) -> None:
    """Put a violation and the events around it on the page."""
    group = f" group {proven.group_id}" if proven.group_id else ""
    place = f"queue {proven.queue}{group} message {proven.seq}" if proven.queue else "log"
    report.verdict(f"{proven.violation}: {place}: {proven.detail}", is_good=False)
    if not proven.evidence:
        return
    report.table(
        ("", "event", "time", "what", "message", "consumer"),
        [
            (
                "->" if event.eid == proven.eid else "",
                event.eid,
                str(event.ts),
                KIND_NAMES.get(event.kind, str(event.kind)),
                event.seq or None,
                event.consumer or None,
            )
            for event in proven.evidence
        ],
    )


def draw(report: Report, proven: Proven) -> None:
    """Draw who held what around a violation, if more than one message was held."""
    spans = held_spans(proven.evidence)
    if len(spans) > 1:
        report.figure(holdings(spans, "event id"), "who held which message, by event id")


def held_spans(events: list[Event]) -> list[Span]:
    """Return who held which message from which event to which."""
    since: dict[tuple[int, int], int] = {}
    spans = []
    for event in events:
        if event.kind == EventKind.DELIVER:
            since[event.seq, event.consumer] = event.eid
        elif event.kind in SETTLING:
            start = since.pop((event.seq, event.consumer), events[0].eid)
            spans.append(Span(f"message {event.seq}", event.consumer, start, event.eid))
    for (seq, consumer), start in since.items():
        spans.append(Span(f"message {seq}", consumer, start, events[-1].eid + 1))
    return sorted(spans)
