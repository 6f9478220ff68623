"""Views: an event log for people who ask in SQL.

    from covey.pipeline.event_log.views import create_views
    create_views(spark, "events")
    spark.sql("select kind_name, count(*) from events_named group by all").show()

    events_named    the log's columns, and `kind_name`: enqueue, deliver, ack, ...
    messages        one row a message: queue, group_id, seq, enqueued, delivered, settled as
                    timestamps, consumer, deliveries, wait_s, service_s; null where it did not
                    happen. One that lives over a restart is one row
    ownerships      who owned a group from when to when: run, queue, group_id, consumer, since,
                    until; `until` is null where the log does not say

A view reads the files that were there when it was created. Temporary queues are not in `messages`
and `ownerships`.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from covey.core.events.event import KIND_NAMES, EventKind
from covey.pipeline.event_log.messages import messages, with_service
from covey.pipeline.event_log.reader import check_input, kind_is, lasting, read_log

NAMES: Final = ("events_named", "messages", "ownerships")
# After an event of these kinds a group has no owner, or another one.
CHANGES: Final = (
    EventKind.ASSIGN,
    EventKind.REVOKE,
    EventKind.GROUP_CLOSE,
    EventKind.EVICT,
)


def create_views(
    spark: SparkSession,
    place: str = "",
    *,
    table: str = "",
    since: str = "",
    until: str = "",
) -> None:
    """Make the views of a log in files or in a table; raises PipelineError if it is no log."""
    options = Namespace(input=place, table=table, since=since, until=until)
    check_input(options)
    events = read_log(spark, options)
    frames = (named(events), message_rows(events), ownerships(events))
    for name, frame in zip(NAMES, frames, strict=True):
        frame.createOrReplaceTempView(name)


def named(events: DataFrame) -> DataFrame:
    """Add the name of each event's kind; null for a kind that this version does not know."""
    pairs = [F.lit(item) for pair in KIND_NAMES.items() for item in (int(pair[0]), pair[1])]
    names = F.create_map(*pairs)
    return events.withColumn("kind_name", names[F.col("kind").cast("int")])


def message_rows(events: DataFrame) -> DataFrame:
    """Return one row for each message, with its times as timestamps."""
    rows = with_service(messages(lasting(events)))
    return rows.select(
        "queue",
        F.nullif("group_id", F.lit("")).alias("group_id"),
        "seq",
        _at("enqueued"),
        _at("delivered"),
        _at("settled"),
        "run",
        "consumer",
        "deliveries",
        (F.col("delivered") - F.col("enqueued")).alias("wait_s"),
        F.when(F.col("settled").isNotNull(), F.col("service")).alias("service_s"),
    )


def _at(name: str) -> Column:
    return F.timestamp_micros((F.col(name) * 1e6).cast("long")).alias(name)


def ownerships(events: DataFrame) -> DataFrame:
    """Return who owned which group from when to when, within a run."""
    group = Window.partitionBy("run", "queue", "group_id").orderBy("eid")
    changes = lasting(events).where(kind_is(*CHANGES) & (F.col("group_id") != ""))
    owners = changes.withColumn("until", F.lead("ts").over(group))
    return owners.where(kind_is(EventKind.ASSIGN)).select(
        "run", "virtual_host", "queue", "group_id", "consumer", F.col("ts").alias("since"), "until"
    )
