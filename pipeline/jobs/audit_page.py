"""The page of an audit: the verdict, what it rests on, and each violation with its evidence.

The evidence of a violation is the events of its group around it. It is looked up in the log after
the audit, for the shown violations only. So no task has to keep evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from covey.core.events.event import KIND_NAMES, EventKind
from covey.pipeline.event_log.histories import History, LogFigures, Run, unlogged
from covey.pipeline.jobs.audit_rules import PROMISES
from covey.pipeline.report import Report, Span, holdings

GAP: Final = "gap"
JUDGED: Final = {**PROMISES, GAP: "the log itself is whole"}
SHOWN_MAX: Final = 100
PICTURES_MAX: Final = 10
UNJUDGED_SHOWN: Final = 20
EVIDENCE_EACH_SIDE: Final = 3  # events of the group before and after
EVIDENCE_WITHIN: Final = 20_000  # how far from the violation to look, in events of the run
SETTLING: Final = (EventKind.ACK, EventKind.RELEASE, EventKind.FAIL, EventKind.REJECT)
RUNS_SHOWN: Final = 50


class Event(NamedTuple):
    """One event of a group."""

    eid: int
    kind: int
    consumer: int
    seq: int
    ts: datetime


EVENT_SCHEMA: Final = "array<struct<eid:long,kind:long,consumer:long,seq:long,ts:timestamp>>"


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


def proven_of(events: DataFrame, rows: Sequence[Row]) -> list[Proven]:
    """Look up the events around each of these violations."""
    wanted = [
        (at, row.run, row.queue, row.group_id, row.eid, row.seq) for at, row in enumerate(rows)
    ]
    evidence: dict[int, list[Event]] = {}
    looked_up = [one for one in wanted if one[2]]
    if looked_up:
        for row in _around(events, looked_up).collect():
            event = Event(row.eid, row.kind, row.consumer, row.seq, row.ts)
            evidence.setdefault(row.number, []).append(event)
    return [
        Proven(**{**row.asDict(), "evidence": sorted(evidence.get(at, []))})
        for at, row in enumerate(rows)
    ]


def _around(events: DataFrame, wanted: list[tuple[int, str, str, str, int, int]]) -> DataFrame:
    # Asked for by ranges of ids, so that Spark reads only the row groups that hold them.
    ranges = [
        (F.col("run") == run) & F.col("eid").between(eid - EVIDENCE_WITHIN, eid + EVIDENCE_WITHIN)
        for _, run, _, _, eid, _ in wanted
    ]
    near = events.where(reduce(lambda one, other: one | other, ranges)).where(F.col("seq") > 0)
    schema = "number int, run string, queue string, group_id string, centre long, message long"
    centres = F.broadcast(events.sparkSession.createDataFrame(wanted, schema))
    joined = near.join(centres, ["run", "queue", "group_id"]).where(
        (F.col("group_id") != "") | (F.col("seq") == F.col("message"))
    )
    is_later = F.col("eid") > F.col("centre")
    by_distance = Window.partitionBy("number", is_later).orderBy(
        F.abs(F.col("eid") - F.col("centre"))
    )
    kept = F.row_number().over(by_distance) <= F.when(is_later, EVIDENCE_EACH_SIDE).otherwise(
        EVIDENCE_EACH_SIDE + 1
    )
    return joined.withColumn("is_kept", kept).where("is_kept")


def sentence_of(runs: Sequence[Run], counts: dict[str, int]) -> str:
    """Return the verdict in one line."""
    judged = f"{sum(run.events for run in runs):,} events of {len(runs)} run{'s' * (len(runs) > 1)}"
    if not counts:
        return f"audit: {judged}: every promise was kept"
    found = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    return f"audit: {judged}: BROKEN: {found}"


def notes_of(figures: LogFigures, histories: Iterable[History], unjudged: int) -> list[str]:
    """Return notes on how far the log could be judged."""
    notes = []
    late = [run.run for run in figures.runs if run.first_eid > 1]
    if late:
        notes.append(
            f"The log does not have the beginning of {_few(late)}: what was on the queues then is"
            " judged from its first event on."
        )
    old = {chapter.run for one in histories for chapter in one.chapters if not chapter.is_told}
    old -= set(late)
    if old:
        notes.append(
            f"{_few(sorted(old))} does not tell what it recovered, as logs of an older Covey: each"
            " such run is judged by itself, and nothing over its restart."
        )
    missing = unlogged(figures)
    if missing:
        notes.append(
            f"{_few(missing)} is not in the log, but another run went on with its store: what it"
            " did cannot be judged, and accuses nobody."
        )
    cut = [chapter.run for one in histories for chapter in one.chapters if chapter.is_cut]
    if cut:
        notes.append(
            f"The end of the run before {_few(cut)} is missing, as when a machine dies: what was"
            " under way then cannot be judged."
        )
    if figures.doubled:
        notes.append(f"{figures.doubled:,} event ids are there twice, with different events.")
    if figures.unknown:
        kinds = sorted(kind for kind in figures.kinds if kind not in KIND_NAMES)
        notes.append(
            f"{figures.unknown:,} events are of kinds that this Covey does not know"
            f" ({', '.join(map(str, kinds))}); they were passed over."
        )
    if unjudged:
        notes.append(
            f"Of {unjudged:,} messages it cannot be judged what became of them: see the end."
        )
    return notes


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def page_of(
    place: str,
    figures: LogFigures,
    counts: dict[str, int],
    shown: list[Proven],
    notes: list[str],
    unjudged: Sequence[Row],
) -> Report:
    """Return the page."""
    runs = figures.runs
    report = Report("Audit of an event log")
    report.verdict(sentence_of(runs, counts).removeprefix("audit: "), is_good=not counts)
    report.text(_what_follows(counts))
    for note in notes:
        report.text(note)
    report.text(f"Input: {place}")
    report.heading("Promises")
    promises = [(text, kind, counts.get(kind, 0)) for kind, text in JUDGED.items()]
    report.table(("what was promised", "violation", "found"), promises)
    report.heading("Runs")
    report.table(
        ("run", "first event", "last event", "events", "from", "to"),
        [
            (run.run, run.first_eid, run.last_eid, run.events, str(run.began), str(run.ended))
            for run in runs[:RUNS_SHOWN]
        ],
    )
    if len(runs) > RUNS_SHOWN:
        report.text(f"and {len(runs) - RUNS_SHOWN} more runs")
    if shown:
        report.heading(f"Violations (the first {len(shown)} of {sum(counts.values())})")
    for number, proven in enumerate(shown):
        show(report, proven)
        if number < PICTURES_MAX:
            draw(report, proven)
    if unjudged:
        report.heading("Cannot be judged")
        report.table(
            ("run", "queue", "group", "message", "why"),
            [(row.run, row.queue, row.group_id, row.seq, row.detail) for row in unjudged],
        )
    return report


def _what_follows(counts: dict[str, int]) -> str:
    if not counts:
        return (
            "No message was lost, doubled, or delivered out of its group's order, as far as this"
            " log reaches."
        )
    if set(counts) == {GAP}:
        return (
            "Events are missing from the log itself: nothing was found wrong with what is there,"
            " and what is missing cannot be judged."
        )
    return (
        "Messages were not handled as promised. Each violation below names the queue, the group and"
        " the message, with the events of the group before and after."
    )


def show(report: Report, proven: Proven) -> None:
    """Put a violation and the events around it on the page."""
    group = f" group {proven.group_id}" if proven.group_id else ""
    message = f" message {proven.seq}" if proven.seq else ""
    place = f"queue {proven.queue}{group}{message}" if proven.queue else "log"
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
    """Return who held which message from which event to which.

    A message whose delivery is not among the events is left out: nobody knows since when it was
    held.
    """
    since: dict[tuple[int, int], int] = {}
    spans = []
    for event in events:
        if event.kind == EventKind.DELIVER:
            since[event.seq, event.consumer] = event.eid
        elif event.kind in SETTLING:
            start = since.pop((event.seq, event.consumer), None)
            if start is not None:
                spans.append(Span(f"message {event.seq}", event.consumer, start, event.eid))
    for (seq, consumer), start in since.items():
        spans.append(Span(f"message {seq}", consumer, start, events[-1].eid + 1))
    return sorted(spans)
