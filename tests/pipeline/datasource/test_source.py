"""The data source `covey` in Spark, against the real broker: tables and streams, both ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from covey.pipeline import register
from covey.pipeline.datasource.offsets import Offsets, lag_of
from covey.pipeline.datasource.sink import in_groups
from covey.pipeline.errors import one_line
from tests.e2e.support import BrokerProcess, running_broker
from tests.e2e.support import broker as broker
from tests.pipeline.queues import at, bodies_of, client_of, figures_of, fill

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> Iterator[None]:
    register(spark)
    partitions = spark.conf.get("spark.sql.shuffle.partitions") or ""
    spark.conf.set("spark.sql.shuffle.partitions", "2")  # each is a task with a Python of its own
    yield
    spark.conf.set("spark.sql.shuffle.partitions", partitions)


def table(spark: SparkSession, broker: BrokerProcess, queue: str, **options: str) -> DataFrame:
    options |= {"brokers": at(broker), "subscribe": queue}
    return spark.read.format("covey").options(**options).load()


def copy(frame: DataFrame, broker: BrokerProcess, queue: str, checkpoint: Path) -> Offsets:
    """Write a stream to a queue, up to what is there; return what is then left to read."""
    writer = in_groups(frame).writeStream.format("covey")
    writer = writer.options(brokers=at(broker), queue=queue, checkpointLocation=str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.lastProgress is not None
    return lag_of(query.lastProgress)


def test_a_queue_is_a_table_and_filters_reach_the_broker(
    spark: SparkSession, broker: BrokerProcess
) -> None:
    assert table(spark, broker, "table").collect() == []
    fill(broker, "table", 30)
    frame = table(spark, broker, "table", minPartitions="3")
    rows = frame.orderBy("seq").collect()
    assert [int(row.value) for row in rows] == list(range(1, 31))
    assert (rows[1].queue, rows[1].seq, rows[1].group_id) == ("table", 2, "g2")
    assert rows[1].headers == {"message_group": "g2", "persistent": "true"}
    spark.conf.set(PUSHDOWN, "true")
    try:
        pushing = table(spark, broker, "table", pushFilters="true", includeHeaders="false")
        found = pushing.where("group_id = 'g1' and seq > 3 and seq <= 10").collect()
    finally:
        spark.conf.set(PUSHDOWN, "false")
    assert sorted(row.seq for row in found) == [4, 7, 10]


def test_a_stream_copied_to_a_queue_keeps_groups_in_order_and_its_replay_adds_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    with running_broker(tmp_path / "broker") as broker:
        fill(broker, "original", 90)
        options = {"brokers": at(broker), "subscribe": "original", "startingOffsets": "earliest"}
        frame = spark.readStream.format("covey").options(**options, minPartitions="3").load()
        assert copy(frame, broker, "copy", tmp_path / "first") == {"original": 0}
        assert figures_of(broker, "copy").messages == 90
        for file in (tmp_path / "first/commits").glob("*0*"):
            file.unlink()  # as after a crash before the commit
        copy(frame, broker, "copy", tmp_path / "first")
        assert figures_of(broker, "copy").messages == 90  # without a window of the queue's
        bodies = [int(body) for body in bodies_of(broker, "copy")]
    assert sorted(bodies) == list(range(1, 91))
    for group in range(3):
        lane = [number for number in bodies if number % 3 == group]
        assert lane == sorted(lane)


def test_what_goes_wrong_is_one_line_that_names_its_option(
    spark: SparkSession, broker: BrokerProcess
) -> None:
    fill(broker, "lost", 5)
    with client_of(broker) as client:
        client.trim("lost", 4)
    wrong = [
        ({"password": "wrong"}, "user=admin: "),
        ({"startingOffsets": '{"lost": 2}'}, "failOnDataLoss=true: queue lost "),
        ({"selector": "a ="}, "subscribe=lost: "),
        ({"arrowBatchRows": "many"}, "arrowBatchRows=many: "),
    ]
    for options, said in wrong:
        with pytest.raises(PySparkException) as raised:
            table(spark, broker, "lost", **options).count()
        assert one_line(raised.value).startswith(said)
    reader = spark.read.format("covey").schema("value string")
    with pytest.raises(PySparkException) as raised:
        reader.options(brokers=at(broker), subscribe="lost").load().count()
    assert one_line(raised.value).startswith("schema: the columns are value, queue, seq, ")


def test_a_queue_is_never_overwritten(spark: SparkSession, broker: BrokerProcess) -> None:
    rows = spark.sql("select 'x' as value")
    writer = rows.write.format("covey").options(brokers=at(broker), queue="appended")
    with pytest.raises(PySparkException) as raised:
        writer.mode("overwrite").save()
    assert one_line(raised.value).startswith("mode: ")
    writer.mode("append").save()
    assert bodies_of(broker, "appended") == [b"x"]
