"""audit: does an event log show that the broker kept its promises?

The log is dealt out by group (`event_log.partition`), and each share is judged where it lands
(`audit_judge`, by the rules of `audit_rules`). Event ids without a gap show that the log itself is
whole. A gap is a violation too, for what it hides cannot be judged.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from shutil import rmtree
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from covey.pipeline.event_log.partition import Dealt, Piece, Run, deal, gaps_of, pieces_of, runs_of
from covey.pipeline.event_log.reader import check_input
from covey.pipeline.job import Job, Task
from covey.pipeline.jobs.audit_judge import FOUND_ARROW, Event, Proven, draw, judge, show
from covey.pipeline.jobs.audit_rules import PROMISES
from covey.pipeline.report import Report
from covey.pipeline.spark import parallelism

GAP: Final = "gap"
JUDGED: Final = PROMISES | {GAP: "the log itself is whole"}

SHARES_PER_CORE: Final = 2  # groups are not alike, and a core that is done early takes another
EVENTS_PER_SHARE: Final = 1_000_000  # some 150 MB of a Python worker
SHOWN_MAX: Final = 100  # violations shown with their evidence; the table has them all
PICTURES_MAX: Final = 5  # of violations that also get a picture: each costs a tenth of a second


def find_violations(
    spark: SparkSession, pieces: list[Piece], runs: list[Run], directory: Path
) -> None:
    """Write every broken promise of a log's events, each share a file of its own."""
    begins_whole = {run.run: run.first_eid == 1 for run in runs}
    events = sum(run.events for run in runs)
    shares = max(SHARES_PER_CORE * parallelism(spark), -(-events // EVENTS_PER_SHARE))

    def deal_out(number: int) -> Iterator[Dealt]:
        return deal(pieces[number], shares)

    def judge_share(share: int, dealt: Iterable[Dealt]) -> Iterator[int]:
        found = judge(dealt, begins_whole)
        pq.write_table(found, directory / f"share-{share:05}.parquet")
        yield found.num_rows

    numbers = spark.sparkContext.parallelize(range(len(pieces)), min(len(pieces), shares))
    dealt = numbers.flatMap(deal_out).partitionBy(shares, int)
    dealt.mapPartitionsWithIndex(judge_share).count()


def find_gaps(pieces: list[Piece]) -> pa.Table:
    """Return the first places where events are missing, as violations."""
    rows = [
        {
            "violation": GAP,
            "run": run,
            "queue": "",
            "group_id": "",
            "eid": last + 1,
            "seq": 0,
            "consumer": 0,
            "detail": f"events {first} to {last} are missing",
            "evidence": [],
        }
        for run, first, last in islice(gaps_of(pieces), SHOWN_MAX)
    ]
    return pa.Table.from_pylist(rows, FOUND_ARROW)


def run(task: Task) -> int:
    """Audit a log: 0 if all promises were kept, 1 if not."""
    task.progress.step("reading the log")
    pieces = pieces_of(task.options.input)
    runs = runs_of(pieces)
    task.progress.step(f"judging {sum(run.events for run in runs):,} events")
    table = task.options.out / "violations"
    rmtree(table, ignore_errors=True)
    table.mkdir(parents=True)
    find_violations(task.spark, pieces, runs, table)
    gaps = find_gaps(pieces)
    if gaps.num_rows:
        pq.write_table(gaps, table / "gaps.parquet")
    counts = _counts(table)
    report = _report(task.options.input, runs, counts, _earliest(table))
    report.write(task.options.out / "audit.html")
    task.progress.answer(_sentence(runs, counts))
    return 1 if counts else 0


def _counts(table: Path) -> dict[str, int]:
    kinds = pq.read_table(table, columns=["violation"])["violation"]
    return {row["values"]: row["counts"] for row in pc.value_counts(kinds).to_pylist()}


def _earliest(table: Path) -> list[Proven]:
    ordered = pq.read_table(table).sort_by([("run", "ascending"), ("eid", "ascending")])
    rows = ordered.slice(0, SHOWN_MAX).to_pylist()
    for row in rows:
        row["evidence"] = [Event(**event) for event in row["evidence"]]
    return [Proven(**row) for row in rows]


def _sentence(runs: list[Run], counts: dict[str, int]) -> str:
    judged = f"{sum(run.events for run in runs):,} events of {len(runs)} run{'s' * (len(runs) > 1)}"
    if not counts:
        return f"audit: {judged}: every promise was kept"
    found = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    return f"audit: {judged}: BROKEN: {found}"


def _report(place: str, runs: list[Run], counts: dict[str, int], shown: list[Proven]) -> Report:
    report = Report("Audit of an event log")
    report.text(f"Input: {place}")
    report.verdict(_sentence(runs, counts), is_good=not counts)
    report.heading("Promises")
    promises = [(text, kind, counts.get(kind, 0)) for kind, text in JUDGED.items()]
    report.table(("what was promised", "violation", "found"), promises)
    report.heading("Runs")
    report.table(
        ("run", "first event", "last event", "events", "from", "to"),
        [
            (run.run, run.first_eid, run.last_eid, run.events, str(run.began), str(run.ended))
            for run in runs
        ],
    )
    late = [run.run for run in runs if run.first_eid > 1]
    if late:
        report.text(
            f"The log does not have the beginning of {', '.join(late)}: what was on the queues"
            " then is judged from its first event on."
        )
    if shown:
        report.heading(f"Violations (the first {len(shown)} of {sum(counts.values())})")
    for number, proven in enumerate(shown):
        show(report, proven)
        if number < PICTURES_MAX:
            draw(report, proven)
    return report


def add_options(parser: ArgumentParser) -> None:
    """Add nothing: an audit has no choices."""


JOB: Final = Job(
    "prove from an event log that order held; exit code 1 if it did not",
    add_options,
    check_input,
    run,
)
