"""Rows: how many messages a second Spark reads from a queue and writes to one.

    python -m scripts.benchmark.rows BROKER ROWS REPETITIONS

One Spark session on two cores writes and reads queues of 1 KiB messages again and again, and prints
one line of JSON: the seconds of each repetition, by what was done. The first of each warms Spark up
and is left out. Rows to write are in Spark's memory before the clock starts, and rows that were
read are only counted, so the figures are the data source's and the broker's. Whatever it does, a
query takes Spark a second or so to plan; the read of an empty queue shows how long.
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
from covey.pipeline.client import connected
from covey.pipeline.options import read_options
from covey.pipeline.session import open_session

MASTER: Final = "local[2]"
BODY_BYTES: Final = 1024
GROUPS: Final = 1000
PARTITIONS: Final = (1, 2, 8)
WARM_UPS: Final = 1
QUEUE: Final = "bench.rows"
EMPTY: Final = "bench.rows.none"


class Rows:
    """A session, a broker, and what to do with both."""

    def __init__(self, spark: SparkSession, broker: str, count: int) -> None:
        self.spark = spark
        self.broker = broker
        self.made_up = made_up(spark, count).cache()
        self.made_up.count()

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
        """Read a queue that has so many rows; return the seconds that took."""
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


def made_up(spark: SparkSession, count: int) -> DataFrame:
    """Return rows to send."""
    return spark.range(0, count, 1, 2).select(
        F.lit(bytes(range(1, 129)) * (BODY_BYTES // 128)).alias("value"),
        F.concat(F.lit("group-"), F.col("id") % GROUPS).alias("group_id"),
        F.concat(F.lit("message-"), F.col("id")).alias("message_id"),
    )


def main(arguments: list[str]) -> None:
    """Do everything, again and again."""
    broker, count, repetitions = arguments[0], int(arguments[1]), int(arguments[2])
    spark = open_session("bench", MASTER)
    spark.dataSource.register(CoveyDataSource)
    rows = Rows(spark, broker, count)

    def times(act: Callable[[], float]) -> list[float]:
        return [act() for _ in range(WARM_UPS + repetitions)][WARM_UPS:]

    found = {"sink, persistent": times(lambda: rows.write(is_persistent=True))}
    found["source, persistent, 2 partitions"] = times(lambda: rows.read(QUEUE, 2, count))
    found["sink"] = times(lambda: rows.write(is_persistent=False))
    for partitions in PARTITIONS:
        name = f"source, {partitions} partitions"
        found[name] = times(lambda: rows.read(QUEUE, partitions, count))  # noqa: B023  # called now
    found["nothing"] = times(lambda: rows.read(EMPTY, 2, 0))
    spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
