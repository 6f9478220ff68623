"""Messages: an event log turned from events into one row a message, and into a queue's load.

    messages    run, queue, group_id, seq, enqueued, delivered (first), settled, consumer,
                deliveries; times in seconds since the epoch, null where it did not happen
    service     how long a consumer worked on it: from its delivery, or from the end of the
                consumer's message before if that was later, to its own end

A message from before the log's beginning has no `enqueued`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from covey.core.events.event import EventKind
from covey.pipeline.event_log.reader import kind_is

ENDS: Final = (EventKind.ACK, EventKind.REJECT)
SERVICE_UNKNOWN_S: Final = 0.001  # for a queue of whose messages none was ever settled


def messages(events: DataFrame) -> DataFrame:
    """Return one row for each message the log knows."""
    about = events.where(
        kind_is(EventKind.ENQUEUE, EventKind.DELIVER, *ENDS, EventKind.EXPIRE, EventKind.DROP)
    )
    return about.groupBy("run", "queue", "group_id", "seq").agg(
        F.min(_time_of(EventKind.ENQUEUE)).alias("enqueued"),
        F.min(_time_of(EventKind.DELIVER)).alias("delivered"),
        F.max(_time_of(*ENDS)).alias("settled"),
        F.max(F.when(kind_is(*ENDS), F.col("consumer"))).alias("consumer"),
        F.count(F.when(kind_is(EventKind.DELIVER), 1)).alias("deliveries"),
    )


def with_service(messages: DataFrame) -> DataFrame:
    """Add how long each message was worked on; a queue's median where the log does not say."""
    before = F.max("settled").over(
        Window.partitionBy("run", "queue", "consumer")
        .orderBy("settled", "seq")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    known = F.greatest(F.lit(0.0), F.col("settled") - F.greatest("delivered", before))
    measured = messages.withColumn("known", F.when(F.col("settled").isNotNull(), known))
    medians = measured.groupBy("queue").agg(F.percentile_approx("known", 0.5).alias("median"))
    service = F.coalesce("known", "median", F.lit(SERVICE_UNKNOWN_S)).alias("service")
    joined = measured.join(F.broadcast(medians), "queue", "left")
    return joined.select(*messages.columns, service)


def _time_of(*kinds: int) -> Column:
    return F.when(kind_is(*kinds), F.unix_micros("ts") / 1e6)
