"""What a page shows of a violation."""

from __future__ import annotations

from datetime import UTC, datetime

from covey.core.events.event import EventKind
from covey.pipeline.jobs.audit_judge import Event, held_spans
from covey.pipeline.report import Span

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def event(eid: int, kind: EventKind, consumer: int, seq: int) -> Event:
    return Event(eid, int(kind), consumer, seq, NOON)


def test_who_held_what_is_read_from_the_events_around() -> None:
    events = [
        event(4, EventKind.ACK, 7, 1),  # held since before
        event(5, EventKind.DELIVER, 7, 2),
        event(6, EventKind.DELIVER, 8, 3),
        event(9, EventKind.RELEASE, 7, 2),
    ]
    assert held_spans(events) == [
        Span("message 1", 7, 4, 4),
        Span("message 2", 7, 5, 9),
        Span("message 3", 8, 6, 10),  # and still then
    ]
