"""Rows: how many messages a second Spark reads from a queue and writes to one.

    python -m scripts.benchmark.workloads.rows ROOMY USUAL ROWS REPETITIONS

One Spark session on two cores writes and reads queues of 1 KiB messages again and again. It prints
a line of JSON for each measurement: its name, and the seconds of each repetition. The first
repetition warms Spark up and is left out. ROOMY is a broker that has room for all rows in memory.
USUAL is one with the default window. It keeps most rows in its scratch file, or in its store.

Rows to write are in Spark's memory before the clock starts, and rows that were read are only
counted. So the figures are those of the data source and the broker. Spark needs some time to plan
any query. The read of an empty queue shows how long.
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
from covey.pipeline.datasource.client import connected
from covey.pipeline.datasource.options import read_options
from covey.pipeline.spark import open_session

MASTER: Final = "local[2]"
BODY_BYTES: Final = 1024
GROUPS: Final = 1000
PARTITIONS: Final = (1, 2, 8)
WARM_UPS: Final = 1
QUEUE: Final = "bench.rows"
EMPTY: Final = "bench.rows.none"
NOTHING: Final = "source, no rows"


class Rows:
    """Measures writes and reads with one Spark session and one broker."""

    def __init__(self, spark: SparkSession, broker: str, made_up: DataFrame) -> None:
        self.spark = spark
        self.broker = broker
        self.made_up = made_up

    def write(self, *, is_persistent: bool) -> float:
        """Send all rows to an empty queue; return the seconds that took."""
        self._empty()
        persistent = str(is_persistent).lower()
        writer = self.made_up.write.format("covey").option("brokers", self.broker)
        writer = writer.option("queue", QUEUE).option("persistent", persistent)
        began = time.monotonic()
        writer.mode("append").save()
        return time.monotonic() - began

    def read(self, queue: str, partitions: int, rows: int) -> float:
        """Read a queue that has `rows` rows; return the seconds that took."""
        reader = self.spark.read.format("covey").option("brokers", self.broker)
        found = reader.option("subscribe", queue).option("minPartitions", partitions).load()
        began = time.monotonic()
        ((count, size),) = found.agg(F.count("*"), F.sum(F.length("value"))).collect()
        seconds = time.monotonic() - began
        assert (count, size or 0) == (rows, rows * BODY_BYTES), (count, size)
        return seconds

    def _empty(self) -> None:
        options = read_options({"brokers": self.broker, "subscribe": QUEUE}, is_stream=False)
        with connected(options.places, "subscribe", QUEUE) as client:
            client.trim(QUEUE, client.figures(QUEUE).end)


def rows_to_send(spark: SparkSession, count: int) -> DataFrame:
    """Return rows that are in Spark's memory."""
    made_up = spark.range(0, count, 1, 2).select(
        F.lit(bytes(range(1, 129)) * (BODY_BYTES // 128)).alias("value"),
        F.concat(F.lit("group-"), F.col("id") % GROUPS).alias("group_id"),
        F.concat(F.lit("message-"), F.col("id")).alias("message_id"),
    )
    made_up.cache().count()
    return made_up


def main(arguments: list[str]) -> None:
    """Run all measurements, each several times."""
    roomy, usual, count, repetitions = *arguments[:2], int(arguments[2]), int(arguments[3])
    spark = open_session("bench", MASTER)
    spark.dataSource.register(CoveyDataSource)

    def measure(name: str, act: Callable[[], float]) -> None:
        seconds = [act() for _ in range(WARM_UPS + repetitions)][WARM_UPS:]
        sys.stdout.write(json.dumps([name, seconds]) + "\n")
        sys.stdout.flush()

    made_up = rows_to_send(spark, count)
    rows = Rows(spark, roomy, made_up)
    measure("sink, in memory", lambda: rows.write(is_persistent=False))
    for partitions in PARTITIONS:
        name = f"source, in memory, {partitions} partitions"
        measure(name, lambda: rows.read(QUEUE, partitions, count))  # noqa: B023  # called at once
    rows = Rows(spark, usual, made_up)
    measure("sink, beyond memory", lambda: rows.write(is_persistent=False))
    measure("source, beyond memory, 2 partitions", lambda: rows.read(QUEUE, 2, count))
    measure("sink, persistent", lambda: rows.write(is_persistent=True))
    measure("source, persistent, 2 partitions", lambda: rows.read(QUEUE, 2, count))
    measure(NOTHING, lambda: rows.read(EMPTY, 2, 0))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
