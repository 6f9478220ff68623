"""skew: which groups are hot, which consumers carry them, and who waits because of that.

| figure      | what it says                                                                    |
|-------------|---------------------------------------------------------------------------------|
| share       | a group's part of its queue's messages                                          |
| Gini        | 0: all are equal, near 1: one has everything; for groups and for consumers      |
| Zipf        | the slope s of messages ~ rank^-s over the groups, with the fit's R2            |
| wait        | from enqueue to first delivery, also over a restart; of delivered messages      |
| waiting     | messages that were not delivered when the log ended                             |
| behind      | the part of the wait behind an earlier message of the same group                |
| blocked     | how long a group was draining or parked                                         |

Hot groups make `behind` grow. Too few or too busy consumers make the rest of the wait grow.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from math import ceil
from typing import Final

import numpy as np
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from covey.core.events.event import EventKind
from covey.pipeline.event_log.messages import messages, with_service
from covey.pipeline.event_log.reader import (
    add_log_options,
    check_input,
    kind_is,
    lasting,
    read_log,
)
from covey.pipeline.job import Job, Task
from covey.pipeline.places import url_of
from covey.pipeline.report import BARS_MAX, Report, Span, bars, holdings, ranked

GROUPS_SHOWN: Final = 20
GROUPS_FOLLOWED: Final = 10  # groups in the picture of who held them when
SPANS_SHOWN: Final = 1000  # changes of hands in one picture
QUEUES_SHOWN: Final = 20
RANKS_FITTED: Final = 10_000  # beyond it groups have few messages and say nothing about the slope
UNEVEN: Final = 1.5  # times an even part: a consumer that had more is told
ROUNDING: Final = 1e-9
FIT_MIN: Final = 3  # a line through fewer groups means nothing

BLOCKS: Final = (EventKind.DRAIN_START, EventKind.PARK)
UNBLOCKS: Final = (EventKind.DRAIN_END, EventKind.UNPARK)


def group_table(served: DataFrame, events: DataFrame) -> DataFrame:
    """Return one row for each group: its messages, how long they waited, and why."""
    earlier = F.max("delivered").over(
        Window.partitionBy("origin", "queue", "group_id")
        .orderBy("seq")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    # `greatest` and `least` ignore nulls, so an unknown time must be kept null explicitly.
    wait = F.col("delivered") - F.col("enqueued")
    behind = F.when(earlier.isNotNull(), F.least("delivered", earlier) - F.col("enqueued"))
    # A message without a group is behind no other. So they are not sorted, which one task would do.
    is_ordered = (F.col("group_id") != "") & F.col("delivered").isNotNull()
    ordered = served.where(is_ordered).withColumn("behind", _not_negative(behind))
    others = served.where(~is_ordered).withColumn("behind", F.lit(None).cast("double"))
    timed = ordered.unionByName(others).withColumn("wait", _not_negative(wait))
    groups = timed.groupBy("queue", "group_id").agg(
        F.count("*").alias("messages"),
        F.sum("service").alias("work_s"),
        F.percentile_approx("wait", [0.5, 0.95, 0.99]).alias("waits"),
        F.sum("wait").alias("wait_s"),
        F.sum("behind").alias("behind_s"),
        F.sum(F.greatest(F.lit(0), F.col("deliveries") - 1)).alias("redeliveries"),
        F.count_if(F.col("delivered").isNull()).alias("waiting"),
    )
    share = F.col("messages") / F.sum("messages").over(Window.partitionBy("queue"))
    return (
        groups.withColumn("share", share)
        .join(_blocked(events), ["queue", "group_id"], "left")
        .na.fill(0.0, ["blocked_s", "behind_s", "wait_s"])
        .select(
            "queue",
            "group_id",
            "messages",
            "share",
            "work_s",
            F.col("waits")[0].alias("wait_p50_s"),
            F.col("waits")[1].alias("wait_p95_s"),
            F.col("waits")[2].alias("wait_p99_s"),
            "wait_s",
            "behind_s",
            "blocked_s",
            "redeliveries",
            "waiting",
        )
    )


def _not_negative(seconds: Column) -> Column:
    """Return the seconds, but 0 if they are negative because a clock was set back."""
    return F.when(seconds < 0, 0.0).otherwise(seconds)


def _blocked(events: DataFrame) -> DataFrame:
    """Return how long each group was draining or parked; a block without an end does not count."""
    following = Window.partitionBy("run", "queue", "group_id").orderBy("eid")
    marks = events.where(kind_is(*BLOCKS, *UNBLOCKS)).select(
        "queue",
        "group_id",
        "kind",
        F.lead("kind").over(following).alias("next_kind"),
        ((F.unix_micros(F.lead("ts").over(following)) - F.unix_micros("ts")) / 1e6).alias("lasted"),
    )
    ended = marks.where(kind_is(*BLOCKS) & F.col("next_kind").isin(*map(int, UNBLOCKS)))
    return ended.groupBy("queue", "group_id").agg(F.sum("lasted").alias("blocked_s"))


def consumer_table(served: DataFrame) -> DataFrame:
    """Return one row for each consumer: what it settled and how long it worked on it."""
    settled = served.where("consumer is not null")
    return settled.groupBy("run", "queue", "consumer").agg(
        F.count("*").alias("messages"),
        F.countDistinct("group_id").alias("groups"),
        F.sum("service").alias("work_s"),
    )


def spans_of(served: DataFrame, queue: str, groups: list[str]) -> list[Span]:
    """Return who held each of these groups from when to when, in seconds since the first event."""
    by_time = Window.partitionBy("origin", "group_id").orderBy("delivered", "seq")
    who = F.struct("run", "consumer")
    is_other = F.coalesce(F.lag(who).over(by_time) != who, F.lit(True))
    of_groups = served.where(
        (F.col("queue") == queue) & F.col("group_id").isin(groups) & F.col("consumer").isNotNull()
    )
    turns = of_groups.withColumn("is_other", is_other).withColumn(
        "turn", F.sum(F.col("is_other").cast("int")).over(by_time)
    )
    held = turns.groupBy("origin", "run", "group_id", "turn", "consumer").agg(
        F.min("delivered").alias("start"), F.max("settled").alias("end")
    )
    rows = held.where("start is not null").orderBy("start").limit(SPANS_SHOWN).collect()
    first = min((row.start for row in rows), default=0.0)
    names = consumer_names(rows)
    found = [
        Span(row.group_id, names[row.run, row.consumer], row.start - first, row.end - first)
        for row in rows
    ]
    return sorted(found, key=lambda span: groups.index(span.row))


def consumer_names(rows: Sequence[Row]) -> dict[tuple[str, int], int | str]:
    """Name the consumers of each run; the same number in two runs means two consumers."""
    runs = list(dict.fromkeys(row.run for row in rows))
    if len(runs) < 2:
        return {(row.run, row.consumer): row.consumer for row in rows}
    return {
        (row.run, row.consumer): f"{row.consumer} of run {runs.index(row.run) + 1}" for row in rows
    }


def gini(values: Sequence[float]) -> float:
    """Return how unequal values are, from 0 to 1."""
    ordered = np.sort(np.asarray(values, dtype=float))
    total = ordered.sum()
    if len(ordered) == 0 or total == 0:
        return 0.0
    ranks = np.arange(1, len(ordered) + 1)
    return float((2 * ranks - len(ordered) - 1).dot(ordered) / (len(ordered) * total))


def load_of(loads: Sequence[int]) -> str:
    """Say how evenly consumers were loaded."""
    if len(loads) < 2:
        return "one consumer" if loads else "nobody read it"
    return f"load of {len(loads)} consumers: Gini {gini(loads):.2f}"


def spread_of(counts: Sequence[int]) -> str:
    """Say how unevenly messages are spread over groups, if there are enough groups to tell."""
    if len(counts) < 2:
        return f"groups: {len(counts) or 'none'}"
    spread = f"groups: Gini {gini(counts):.2f}"
    if len(counts) < FIT_MIN:
        return spread
    slope, _, fit = zipf(counts)
    return f"{spread}, Zipf s {-slope:.2f} (R2 {fit:.2f})"


def zipf(counts: Sequence[float]) -> tuple[float, float, float]:
    """Fit log10(count) over log10(rank), largest first; return slope, intercept and R2."""
    if len(counts) < FIT_MIN:
        return 0.0, 0.0, 0.0
    logs = np.log10(np.asarray(counts, dtype=float))
    ranks = np.log10(np.arange(1, len(counts) + 1))
    slope, intercept = np.polyfit(ranks, logs, 1)
    spread = float(((logs - logs.mean()) ** 2).sum())
    off = float(((logs - intercept - slope * ranks) ** 2).sum())
    return float(slope), float(intercept), 1 - off / spread if spread else 1.0


def run(task: Task) -> int:
    """Measure a log's skew."""
    out = task.options.out
    task.progress.step("reading the log")
    events = lasting(read_log(task.spark, task.options))
    served = with_service(messages(events), is_kept=True).cache()
    task.progress.step("measuring groups")
    groups = group_table(served, events).cache()
    groups.write.mode("overwrite").parquet(url_of(out / "groups"))
    task.progress.step("measuring consumers")
    consumers = consumer_table(served).cache()
    consumers.coalesce(1).write.mode("overwrite").parquet(url_of(out / "consumers"))
    report = Report("Skew: who has the work, and who waits for it")
    queues = groups.groupBy("queue").agg(
        F.sum("messages").alias("messages"),
        F.count_if(F.col("group_id") != "").alias("groups"),
        F.sum("work_s").alias("work_s"),
    )
    for queue in queues.orderBy(F.desc("messages"), "queue").limit(QUEUES_SHOWN).collect():
        of_queue = F.col("queue") == queue.queue
        rows = groups.where(of_queue & (F.col("group_id") != ""))
        hot = rows.orderBy(F.desc("messages"), "group_id").limit(RANKS_FITTED).collect()
        at_work = consumers.where(of_queue).orderBy(F.desc("messages")).collect()
        followed = [row.group_id for row in hot[:GROUPS_FOLLOWED]]
        is_followed = bool(followed and at_work)
        spans = spans_of(served, queue.queue, followed) if is_followed else []
        task.progress.answer(_show(report, queue, hot, at_work, spans))
    report.heading("Words")
    report.terms(TERMS)
    report.text(f"Input: {task.options.table or task.options.input}")
    report.write(out, "skew")
    return 0


TERMS: Final = {
    "group": "messages that must be done in their order, such as those of one customer",
    "share": "the group's part of the queue's messages",
    "work s": "seconds that consumers worked on the group's messages",
    "wait p50 s": "half of its messages waited longer than this for their first delivery",
    "wait p95 s": "one in twenty waited longer than this",
    "wait p99 s": "one in a hundred waited longer than this",
    "behind": "the part of the waiting that was behind an earlier message of the same group: more"
    " consumers cannot shorten it",
    "blocked s": "seconds in which the group had to drain or was parked",
    "waiting": "messages that were not delivered yet when the log ended",
    "Gini": "0: all groups, or consumers, are alike; towards 1: one has nearly everything",
    "Zipf s": "how fast the groups get smaller by their rank: 0 not at all, 1 the second has half"
    " of the first, the third a third; R2 says how well that fits, 1 is exactly",
}


def lesson_of(queue: Row, hot: list[Row], consumers: list[Row]) -> str:
    """Return advice that follows from a queue's figures, for people who decide about it."""
    if not consumers:
        return f"Nobody has consumed this queue: {queue.messages:,} messages came, and all wait."
    if not hot:
        return "No message has a group: any consumer may take any of them, so more would help."
    return _lesson_of_groups(queue, hot, len(consumers)) + _lesson_of_load(consumers)


def _lesson_of_groups(queue: Row, hot: list[Row], at_work: int) -> str:
    """Say whether more consumers would help, or what would."""
    total = queue.work_s or 0.0
    largest = max(hot, key=lambda row: row.work_s or 0.0)
    part = (largest.work_s or 0.0) / total if total else 0.0
    if part > 1 / (at_work + 1):
        useful = ceil(1 / part - ROUNDING)
        rest = "more than one consumer" if useful == 1 else f"more than {useful} consumers"
        return (
            f"{largest.group_id} is {part:.0%} of the work. A group is done by one consumer at a"
            f" time, so all of it never takes less than {_seconds(largest.work_s)}:"
            f" {rest} will not help, splitting this group would."
        )
    behind = sum(row.behind_s for row in hot)
    waited = sum(row.wait_s for row in hot)
    if waited and behind > waited / 2:
        return (
            f"{behind / waited:.0%} of the waiting was behind a message of the same group: faster"
            " work on a message helps, or smaller groups; more consumers do not. No group is too"
            f" large for {at_work} consumers: {largest.group_id} is {part:.0%} of the work."
        )
    more = f"More than the {at_work} consumers" if at_work > 1 else "A second consumer"
    return (
        f"No group is too large: {largest.group_id}, the largest, is {part:.0%} of the work."
        f" {more} would shorten the waiting."
    )


def _lesson_of_load(consumers: list[Row]) -> str:
    """Say who did far more than its part, if somebody did."""
    total = sum(row.messages for row in consumers)
    busiest = max(consumers, key=lambda row: row.messages)
    if busiest.messages * len(consumers) < UNEVEN * total:
        return ""
    name = consumer_names(consumers)[busiest.run, busiest.consumer]
    return (
        f" The load was uneven: consumer {name} had {busiest.messages / total:.0%} of the messages,"
        f" where an even part is {1 / len(consumers):.0%};"
        " the job plan tells whether a policy helps."
    )


def _seconds(seconds: float) -> str:
    return f"{seconds / 60:,.0f} min" if seconds >= 600 else f"{seconds:,.1f} s"


def _show(
    report: Report, queue: Row, hot: list[Row], consumers: list[Row], spans: list[Span]
) -> str:
    """Show a queue: what follows, the pictures, the table; return the sentence to print."""
    counts = [row.messages for row in hot]
    load = load_of([row.messages for row in consumers])
    sentence = f"skew: {queue.queue}: {queue.messages:,} messages; {spread_of(counts)}; {load}"
    report.heading(f"Queue {queue.queue}")
    report.lead(lesson_of(queue, hot, consumers))
    if hot:
        _draw_groups(report, queue, hot)
    if consumers:
        _draw_consumers(report, consumers)
    if spans:
        report.figure(
            holdings(spans),
            "Who had the largest groups when: each colour is a consumer, and where the colour of a"
            " line changes the group has moved.",
        )
    if hot:
        _tabulate(report, hot[:GROUPS_SHOWN], has_consumers=bool(consumers))
    report.text(sentence.removeprefix("skew: "))
    return sentence


def _draw_groups(report: Report, queue: Row, hot: list[Row]) -> None:
    counts = [row.messages for row in hot]
    shown = hot[:GROUPS_SHOWN]
    part = sum(counts[: len(shown)]) / queue.messages
    which = f"The largest {len(shown)} of {queue.groups:,} groups have" if shown[1:] else "It has"
    report.figure(
        bars([row.group_id for row in shown], counts[: len(shown)], "messages"),
        f"{which} {part:.0%} of the messages.",
    )
    if len(counts) >= FIT_MIN:
        slope, intercept, _ = zipf(counts)
        report.figure(
            ranked(counts, slope, intercept),
            "How fast groups get smaller: the steeper the line, the more work is with a few of"
            " them.",
        )


def _draw_consumers(report: Report, consumers: list[Row]) -> None:
    named = consumer_names(consumers)
    names = [f"consumer {named[row.run, row.consumer]}, {row.groups} groups" for row in consumers]
    loads = [row.messages for row in consumers]
    which = "Each consumer" if len(names) <= BARS_MAX else f"The busiest {BARS_MAX} of {len(names)}"
    even = sum(loads) / len(loads) if loads[1:] else 0
    report.figure(
        bars(names, loads, "messages", even),
        f"{which}: how many messages it had." if not even else f"{which}, and an even load.",
    )


def _tabulate(report: Report, shown: list[Row], *, has_consumers: bool) -> None:
    """Show the groups' figures; without a consumer nobody knows of work or of waits."""
    if not has_consumers:
        rows = [(row.group_id, row.messages, f"{row.share:.1%}", row.waiting) for row in shown]
        report.table(("group", "messages", "share", "waiting"), rows, TERMS)
        return
    columns = ("group", "messages", "share", "work s", "wait p50 s", "wait p95 s", "wait p99 s")
    report.table((*columns, "behind", "blocked s", "waiting"), [_row(row) for row in shown], TERMS)


def _row(row: Row) -> tuple[str | int | float | None, ...]:
    return (
        row.group_id,
        row.messages,
        f"{row.share:.1%}",
        row.work_s,
        row.wait_p50_s,
        row.wait_p95_s,
        row.wait_p99_s,
        f"{row.behind_s / row.wait_s:.0%}" if row.wait_s else "",
        row.blocked_s,
        row.waiting,
    )


def add_options(parser: ArgumentParser) -> None:
    """Add which part of the log to read; all figures are always measured."""
    add_log_options(parser)


JOB: Final = Job("find hot groups, uneven load and who waits for it", add_options, check_input, run)
