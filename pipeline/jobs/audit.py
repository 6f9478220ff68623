"""audit: was every promise kept? Exit code 0 if so, 1 if not.

    figures     one pass over the log: its runs, missing events, which runs continue the same store
    judging     each group's events come together in one task, in their order (`audit_judge`)
    violations  a table of all violations; the page shows the first ones with their evidence

Spark sorts the events, and spills to disk what does not fit into memory. So a task needs the same
memory for a group of any length. Events of a whole queue go to every task, because each of the
queue's groups must know them. The broker promises no order between messages without a group. So
they are spread over `PLAIN_PARTS`.

With `--state` only new files are read, and the state is kept for the next call. With `--follow` the
job repeats that until it is interrupted, or until the first violation if an option says so.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from covey.core.events.event import KIND_NAMES, EventKind
from covey.core.events.event_log import HOST_MARK
from covey.pipeline.errors import PipelineError
from covey.pipeline.event_log.histories import History, LogFigures, figures_of, histories_of, placed
from covey.pipeline.event_log.reader import (
    add_log_options,
    check_input,
    find_files,
    kind_is,
    period_of,
    read_files,
    read_log,
    read_table,
)
from covey.pipeline.job import Job, Task
from covey.pipeline.jobs import audit_state
from covey.pipeline.jobs.audit_judge import (
    FOUND_SCHEMA,
    ROW_NAMES,
    SAVED,
    STATE_KIND,
    UNJUDGED,
    Book,
    judge_rows,
)
from covey.pipeline.jobs.audit_page import (
    EVENT_SCHEMA,
    GAP,
    SHOWN_MAX,
    UNJUDGED_SHOWN,
    Proven,
    notes_of,
    page_of,
    proven_of,
    sentence_of,
)
from covey.pipeline.jobs.audit_rules import MESSAGE_KINDS, QUEUE_KINDS, STICKY
from covey.pipeline.jobs.audit_sieve import QUEUE_PART
from covey.pipeline.jobs.audit_state import State
from covey.pipeline.places import place_of, put_text, url_of
from covey.pipeline.spark import parallelism

SHARES_PER_CORE: Final = 4
EVENTS_PER_SHARE: Final = 20_000_000  # not less: each share gets a copy of all queue events
PLAIN_PARTS: Final = 64  # more than a machine has cores, few enough to be cheap
FIRST_SLOT: Final = -(1 << 63)
LEFT_OUT: Final = (EventKind.REVOKE, EventKind.START)
FOLLOW_S: Final = 15.0
TABLE: Final = ("violation", "run", "queue", "group_id", "eid", "seq", "consumer", "detail")


class Audited(NamedTuple):
    """The result of an audit."""

    figures: LogFigures
    histories: list[History]
    found: DataFrame  # violations, unjudged cases and saved states, in no order
    queue_rows: DataFrame


def audited(
    spark: SparkSession, events: DataFrame, state: State | None = None, kept: str = ""
) -> Audited:
    """Judge events; a state holds the result of earlier events."""
    known = state or State()
    new = figures_of(events)
    figures = known.merged(new)
    every_gap = sorted({*known.gaps, *figures.gaps})
    histories = histories_of(figures._replace(gaps=every_gap), known.numbers)
    sticky = [name for name, texts in figures.policies.items() if texts <= set(STICKY)]
    bucketed = [name for name in sticky if "hash-buckets" in figures.policies[name]]
    rows = placed(events, histories).withColumn("name", F.substring_index("queue", HOST_MARK, -1))
    queue_rows = rows.where(_is_about_queue(sticky, bucketed)).select(*_columns())
    group_rows = rows.where(_is_about_group(sticky)).select(*_columns())
    if state is not None:
        place = place_of(kept)
        known_rows = audit_state.queues_of(spark, place, state)
        queue_rows = queue_rows.unionByName(known_rows, allowMissingColumns=True)
    book = Book(
        histories,
        state is not None,
        audit_state.settled(histories, known),
        known.given,
    )
    shares = shares_of(spark, new)
    dealt = _dealt(group_rows, queue_rows, shares)
    if state is not None:
        saved = audit_state.groups_of(spark, place_of(kept), state)
        dealt = dealt.unionByName(_saved_rows(saved, shares), allowMissingColumns=True)
    ordered = (
        dealt.repartitionById(shares, "share")
        .sortWithinPartitions(*ROW_NAMES[:6])
        .select(*ROW_NAMES)
    )
    found = ordered.mapInArrow(partial(_judge, book), FOUND_SCHEMA)
    return Audited(figures, histories, found, queue_rows)


def _judge(book: Book, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return judge_rows(batches, book)


def shares_of(spark: SparkSession, figures: LogFigures) -> int:
    """Return the number of tasks among which the groups are divided."""
    events = sum(figures.kinds.values())
    return max(SHARES_PER_CORE * parallelism(spark), -(-events // EVENTS_PER_SHARE))


def _is_about_queue(sticky: list[str], bucketed: list[str]) -> Column:
    is_about = kind_is(*QUEUE_KINDS) & ~kind_is(EventKind.START)
    is_about |= kind_is(EventKind.RECOVER) & (F.col("seq") == 0)
    # When one group ends, its bucket becomes free, and with it the bucket's other groups.
    frees_bucket = kind_is(EventKind.GROUP_CLOSE, EventKind.SPILL)
    is_about |= frees_bucket & F.col("name").isin(bucketed)
    # A consumer that has held one message for too long loses all its groups.
    return is_about | kind_is(EventKind.DEADLINE) & F.col("name").isin(sticky)


def _is_about_group(sticky: list[str]) -> Column:
    others = [kind for kind in KIND_NAMES if kind not in (*MESSAGE_KINDS, *QUEUE_KINDS, *LEFT_OUT)]
    is_message = kind_is(*MESSAGE_KINDS) & (F.col("seq") > 0)
    return is_message | kind_is(*others) & F.col("name").isin(sticky)


def _columns() -> list[Column | str]:
    names = ["history", "name", "group_id", "pos", "consumer", "seq", "persistent"]
    return [*names, F.col("kind").cast("int").alias("kind")]


def _dealt(group_rows: DataFrame, queue_rows: DataFrame, shares: int) -> DataFrame:
    """Add to each row the number of the task that gets it."""
    is_plain = F.col("group_id") == ""
    part = F.when(is_plain, F.pmod("seq", F.lit(PLAIN_PARTS))).otherwise(0).cast("int")
    parted = group_rows.withColumn("part", part).withColumn("slot", _slot())
    mine = parted.withColumn("share", F.pmod("slot", F.lit(shares)).cast("int"))
    every = F.explode(F.sequence(F.lit(0), F.lit(shares - 1))).alias("share")
    # Their text moves to another column, so that these rows are sorted by their position alone.
    for_all = (
        queue_rows.withColumn("state", F.col("group_id"))
        .withColumn("group_id", F.lit(""))
        .select("*", F.lit(QUEUE_PART).alias("part"), F.lit(FIRST_SLOT).alias("slot"), every)
    )
    return mine.unionByName(for_all, allowMissingColumns=True)


def _slot() -> Column:
    hashed = F.xxhash64("history", "name", "group_id", "part")
    return F.greatest(hashed, F.lit(FIRST_SLOT + 1))


def _saved_rows(saved: DataFrame, shares: int) -> DataFrame:
    return (
        saved.withColumn("slot", _slot())
        .withColumn("share", F.pmod("slot", F.lit(shares)).cast("int"))
        .withColumn("pos", F.lit(-1).cast("long"))
        .withColumns({name: F.lit(0).cast("long") for name in ("consumer", "seq")})
        .withColumn("kind", F.lit(STATE_KIND))
    )


def run(task: Task) -> int:
    """Audit a log; return 0 if all promises were kept, 1 if not."""
    if task.options.follow:
        return follow(task)
    if task.options.state:
        return advance(task)
    task.progress.step("reading the log")
    events = read_log(task.spark, task.options)
    return conclude(task, events, audited(task.spark, events))


def advance(task: Task, *, is_quiet: bool = False) -> int:
    """Audit the new events of a log, and save the state."""
    options = task.options
    place = place_of(options.state)
    state = audit_state.load(place)
    events = new_events(task.spark, options, state)
    if events is None:
        if not is_quiet:
            task.progress.answer(f"audit: nothing new in {options.input}")
        return 0
    task.progress.step("reading what is new")
    result = audited(task.spark, events, state, options.state)
    code = conclude(task, events, result, is_quiet=is_quiet, before=state)
    saved = result.found.where(F.col("violation") == SAVED).select(
        F.col("run").cast("int").alias("history"),
        F.col("queue").alias("name"),
        "group_id",
        "part",
        F.col("detail").alias("state"),
    )
    given = placed(events, result.histories).where(kind_is(EventKind.ENQUEUE, EventKind.RECOVER))
    highest = given.groupBy("history", F.substring_index("queue", HOST_MARK, -1)).agg(F.max("seq"))
    known = {f"{row[0]}/{row[1]}": row[2] + 1 for row in highest.collect()}
    settled = audit_state.settled(result.histories, state)
    state.remember(result.figures.gaps)
    state.figures = result.figures
    state.is_cut = period_of(options).until is not None
    state.given |= {name: max(at, state.given.get(name, 0)) for name, at in known.items()}
    state.forget(audit_state.vanished(result.queue_rows))
    audit_state.save(place, state, saved, audit_state.still_there(result.queue_rows, settled))
    result.found.unpersist()
    return code


def new_events(spark: SparkSession, options: Namespace, state: State) -> DataFrame | None:
    """Return the events that no earlier call has read; None if there are none."""
    period = period_of(options)
    if options.table:
        events = state.unread(period.cut(read_table(spark, options.table)))
        return None if events.isEmpty() else events
    files = state.new_of(find_files(spark, options.input, period))
    if not files:
        return None
    events = period.cut(state.unread(read_files(spark, [file.path for file in files])))
    may_be_empty = state.is_cut or not all(file.run for file in files)
    return None if may_be_empty and events.isEmpty() else events


def conclude(
    task: Task,
    events: DataFrame,
    result: Audited,
    *,
    is_quiet: bool = False,
    before: State | None = None,
) -> int:
    """Write the table and the page; return the exit code."""
    spark, out = task.spark, task.options.out
    figures = result.figures
    judged = sum(run.events for run in figures.runs)
    task.progress.step(f"judging {judged:,} events")
    found = result.found.persist(StorageLevel.MEMORY_AND_DISK)
    counted = found.groupBy("violation").count().collect()
    counts = {row.violation: row["count"] for row in counted}
    counts.pop(SAVED, None)
    unjudged = counts.pop(UNJUDGED, 0)
    if figures.gaps:
        counts[GAP] = len(figures.gaps)
    violations = found.where(~F.col("violation").isin(SAVED, UNJUDGED)).select(*TABLE)
    if figures.gaps:
        violations = violations.unionByName(gap_rows(spark, figures))
    first = violations.orderBy("run", "eid").limit(SHOWN_MAX).collect() if counts else []
    shown = proven_of(events, first)
    task.progress.step("writing")
    with_evidence(spark, violations, shown).write.mode("overwrite").parquet(
        url_of(out / "violations")
    )
    strange = found.where(F.col("violation") == UNJUDGED).select(*TABLE) if unjudged else None
    told = strange.orderBy("run", "eid").limit(UNJUDGED_SHOWN).collect() if strange else []
    notes = notes_of(figures, result.histories, unjudged)
    page = page_of(input_of(task.options), figures, counts, shown, notes, told)
    page.write(out, "audit")
    if before is None:
        found.unpersist()
    if not is_quiet or counts:
        task.progress.answer(sentence_of(figures.runs, counts))
        for note in notes:
            task.progress.note(note)
    return 1 if counts else 0


def input_of(options: Namespace) -> str:
    """Return a name of the audited log, for people."""
    return f"table {options.table}" if options.table else str(options.input)


def gap_rows(spark: SparkSession, figures: LogFigures) -> DataFrame:
    """Return the first places where events are missing, as violations."""
    rows = [
        (GAP, gap.run, "", "", gap.last + 1, 0, 0, f"events {gap.first} to {gap.last} are missing")
        for gap in figures.gaps
    ]
    schema = ", ".join(part for part in FOUND_SCHEMA.split(",") if "part int" not in part)
    return spark.createDataFrame(rows, schema)


def with_evidence(spark: SparkSession, violations: DataFrame, shown: list[Proven]) -> DataFrame:
    """Return the violations, with the evidence of those that are shown."""
    keys = ["violation", "run", "queue", "group_id", "eid", "seq", "consumer"]
    rows = {proven[:7]: (*proven[:7], proven.evidence) for proven in shown if proven.evidence}
    schema = (
        "violation string, run string, queue string, group_id string, eid long, seq long,"
        f" consumer long, evidence {EVENT_SCHEMA}"
    )
    known = F.broadcast(spark.createDataFrame(list(rows.values()), schema))
    joined = violations.join(known, keys, "left")
    empty = F.array().cast(EVENT_SCHEMA)
    return joined.select(*TABLE, F.coalesce("evidence", empty).alias("evidence"))


def follow(task: Task) -> int:
    """Audit the new events again and again; report each violation at once."""
    options = task.options
    code = 0
    for number in count(1):
        began = time.monotonic()
        code = advance(task, is_quiet=True) or code
        _tell_metrics(task, code)
        if (code and options.stop_at_first) or number == options.rounds:
            break
        task.progress.step("waiting for new files")
        time.sleep(max(0.0, options.follow - (time.monotonic() - began)))
    return code


def _tell_metrics(task: Task, code: int) -> None:
    """Write a file for the text collector of a Prometheus node exporter."""
    state = audit_state.load(place_of(task.options.state))
    events = sum(run.events for run in state.figures.runs)
    ended = max((run.ended for run in state.figures.runs), default=None)
    behind = (datetime.now(UTC) - ended.astimezone(UTC)).total_seconds() if ended else 0.0
    text = (
        "# TYPE covey_audit_events_total counter\n"
        f"covey_audit_events_total {events}\n"
        "# TYPE covey_audit_broken gauge\n"
        f"covey_audit_broken {code}\n"
        "# TYPE covey_audit_behind_seconds gauge\n"
        f"covey_audit_behind_seconds {behind:.0f}\n"
    )
    put_text(task.options.out / "audit.prom", text)


def check(options: Namespace) -> None:
    """Check the input and the options before Spark is started."""
    check_input(options)
    if options.follow < 0:
        raise PipelineError(f"--follow {options.follow}: seconds above 0 are meant")
    if options.follow and not options.state:
        raise PipelineError("--follow: name a --state, in which it keeps how far it is")
    if options.stop_at_first and not options.follow:
        raise PipelineError("--stop-at-first: it goes with --follow")


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this job."""
    add_log_options(parser)
    parser.add_argument(
        "--state", default="", metavar="DIR", help="read new files only; keep here what is known"
    )
    parser.add_argument(
        "--follow",
        type=float,
        nargs="?",
        const=FOLLOW_S,
        default=0.0,
        metavar="S",
        help=f"go on, and look every S seconds (default {FOLLOW_S:.0f}) until interrupted",
    )
    parser.add_argument(
        "--stop-at-first", action="store_true", help="end with exit code 1 at a violation"
    )
    parser.add_argument("--rounds", type=int, default=0, metavar="N", help="end after N looks")


JOB: Final = Job(
    "prove from an event log that order held; exit code 1 if it did not",
    add_options,
    check,
    run,
)
