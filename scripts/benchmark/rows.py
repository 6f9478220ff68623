"""Rows: how many messages a second Spark reads from a queue and writes to one.

    python -m scripts.benchmark.rows BROKER ROWS REPETITIONS

One Spark session on two cores writes and reads a queue of 1 KiB messages again and again, and
prints one line of JSON: the seconds of each repetition, by what was done. The first time of each
warms Spark up and is left out. Rows to write are in Spark's memory before the clock starts, and
rows that were read are only counted, so the figures are the data source's and the broker's.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from covey.pipeline import CoveyDataSource
from covey.pipeline.session import open_session

MASTER: Final = "local[2]"
BODY_BYTES: Final = 1024
GROUPS: Final = 1000
PARTITIONS: Final = (1, 2, 8)
WARM_UPS: Final = 1


class Rows:
    """A session, a broker, and what to do with both."""

    def __init__(self, spark: SparkSession, broker: str, count: int) -> None:
        self.spark = spark
        self.broker = broker
        self.count = count
        self.queues = 0

    def made_up(self) -> DataFrame:
        """Return rows to send, in memory."""
        rows = self.spark.range(0, self.count, 1, 2).select(
            F.lit(bytes(range(1, 129)) * (BODY_BYTES // 128)).alias("value"),
            F.concat(F.lit("group-"), F.col("id") % GROUPS).alias("group_id"),
            F.concat(F.lit("message-"), F.col("id")).alias("message_id"),
        )
        kept = rows.cache()
        kept.count()
        return kept

    def write(self, rows: DataFrame, *, is_persistent: bool) -> float:
        """Send all rows to a new queue; return the seconds that took."""
        self.queues += 1
        persistent = str(is_persistent).lower()
        writer = rows.write.format("covey").option("brokers", self.broker)
        writer = writer.option("queue", self.queue()).option("persistent", persistent)
        began = time.monotonic()
        writer.mode("append").save()
        return time.monotonic() - began

    def read(self, partitions: int) -> float:
        """Read the last queue that was written; return the seconds that took."""
        reader = self.spark.read.format("covey").option("brokers", self.broker)
        rows = reader.option("subscribe", self.queue()).option("minPartitions", partitions).load()
        began = time.monotonic()
        found = rows.agg(F.count("*"), F.sum(F.length("value"))).collect()
        seconds = time.monotonic() - began
        assert tuple(found[0]) == (self.count, self.count * BODY_BYTES), found
        return seconds

    def queue(self) -> str:
        """Name the queue that was written last."""
        return f"bench.rows.{self.queues}"


def main(arguments: list[str]) -> None:
    """Do everything, again and again."""
    broker, count, repetitions = arguments[0], int(arguments[1]), int(arguments[2])
    spark = open_session("bench", MASTER)
    spark.dataSource.register(CoveyDataSource)
    rows = Rows(spark, broker, count)
    sent = rows.made_up()
    found: dict[str, list[float]] = {}

    def repeat(name: str, act: Callable[[], float]) -> None:
        found[name] = [act() for _ in range(WARM_UPS + repetitions)][WARM_UPS:]

    repeat("sink, persistent", lambda: rows.write(sent, is_persistent=True))
    repeat("sink", lambda: rows.write(sent, is_persistent=False))
    for partitions in PARTITIONS:
        repeat(f"source, {partitions} partitions", lambda: rows.read(partitions))  # noqa: B023
    spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
