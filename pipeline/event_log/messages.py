"""Messages: an event log turned from events into one row a message, and into a queue's load.

    messages    origin, run, queue, group_id, seq, enqueued, delivered (first), settled, consumer,
                deliveries; times in seconds since the epoch, null where it did not happen
    service     how long a consumer worked on the message: from its delivery, or from the end of
                the consumer's message before if that was later, until it was settled

A message from before the log's beginning has no `enqueued`. A message that lives over restarts is
one row. Its `origin` is the first run in the chain of runs that had its store. Its `run` is the one
in which it was settled, or seen last. A consumer's number is only valid within that run.
"""

from __future__ import annotations

from typing import Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from covey.core.events.event import EventKind
from covey.pipeline.event_log.reader import kind_is

ENDS: Final = (EventKind.ACK, EventKind.REJECT)
SERVICE_UNKNOWN_S: Final = 0.001  # for a queue that never had a message settled


def with_origin(events: DataFrame) -> DataFrame:
    """Add the first run in the chain that had the store; the run itself if the log has no chain."""
    links = events.select("run", "virtual_host", "predecessor").distinct().collect()
    before = {(row.run, row.virtual_host): row.predecessor for row in links}
    rows = [(*key, _origin(before, *key)) for key in before]
    schema = "run string, virtual_host string, origin string"
    known = F.broadcast(events.sparkSession.createDataFrame(rows, schema))
    is_same = (events.run == known.run) & events.virtual_host.eqNullSafe(known.virtual_host)
    return events.join(known, is_same).select(events["*"], known.origin)


def _origin(before: dict[tuple[str, str | None], str | None], run: str, host: str | None) -> str:
    seen = {run}
    while True:
        earlier = before.get((run, host))
        if not earlier or earlier in seen or (earlier, host) not in before:
            return run
        run = earlier
        seen.add(run)


def messages(events: DataFrame) -> DataFrame:
    """Return one row for each message in the log."""
    about = events.where(
        kind_is(EventKind.ENQUEUE, EventKind.DELIVER, *ENDS, EventKind.EXPIRE, EventKind.DROP)
    )
    return (
        with_origin(about)
        .groupBy("origin", "queue", "group_id", "seq")
        .agg(
            F.max_by("run", F.struct(kind_is(*ENDS), "ts")).alias("run"),
            F.min(_time_of(EventKind.ENQUEUE)).alias("enqueued"),
            F.min(_time_of(EventKind.DELIVER)).alias("delivered"),
            F.max(_time_of(*ENDS)).alias("settled"),
            F.max(F.when(kind_is(*ENDS), F.col("consumer"))).alias("consumer"),
            F.count(F.when(kind_is(EventKind.DELIVER), 1)).alias("deliveries"),
        )
    )


def with_service(messages: DataFrame, *, is_kept: bool = False) -> DataFrame:
    """Add how long each message was worked on; the queue's median where that is unknown.

    What was measured is needed twice, for the median and for each message. A job keeps it on the
    disk of the cluster until it ends (`is_kept`); a view works it out anew.
    """
    before = F.max("settled").over(
        Window.partitionBy("run", "queue", "consumer")
        .orderBy("settled", "seq")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    known = F.greatest(F.lit(0.0), F.col("settled") - F.greatest("delivered", before))
    # Messages that nobody settled have no consumer. In one window, one task would get them all.
    settled = messages.where("settled is not null").withColumn("known", known)
    others = messages.where("settled is null").withColumn("known", F.lit(None).cast("double"))
    measured = settled.unionByName(others)
    if is_kept:
        measured = measured.persist(StorageLevel.DISK_ONLY)
    medians = measured.groupBy("queue").agg(F.percentile_approx("known", 0.5).alias("median"))
    service = F.coalesce("known", "median", F.lit(SERVICE_UNKNOWN_S)).alias("service")
    joined = measured.join(F.broadcast(medians), "queue", "left")
    return joined.select(*messages.columns, service)


def _time_of(*kinds: int) -> Column:
    return F.when(kind_is(*kinds), F.unix_micros("ts") / 1e6)
