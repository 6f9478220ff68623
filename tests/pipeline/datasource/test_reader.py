"""The readers without Spark: offsets, limits, losses, against the real broker."""

from __future__ import annotations

from pathlib import Path
from time import sleep

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from covey.pipeline.datasource.offsets import Range, split
from covey.pipeline.datasource.options import read_options
from covey.pipeline.datasource.reader import BatchReader, StreamReader
from covey.pipeline.errors import PipelineError
from tests.e2e.support import BrokerProcess, running_broker
from tests.e2e.support import broker as broker
from tests.pipeline.queues import at, client_of, figures_of, fill, take

ALL = ReadAllAvailable()


def stream(broker: BrokerProcess, queue: str, **options: str) -> StreamReader:
    given = {"brokers": at(broker), "subscribe": queue, "startingOffsets": "earliest"}
    return StreamReader(read_options(given | options, is_stream=True))


def read(reader: StreamReader, start: dict[str, int], end: dict[str, int]) -> list[int]:
    return [
        seq
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for seq in batch.column("seq").to_pylist()
    ]


def test_a_new_query_does_not_change_its_mind_where_it_begins(broker: BrokerProcess) -> None:
    fill(broker, "mind", 3)
    reader = stream(broker, "mind", startingOffsets="latest")
    assert reader.initialOffset() == {"mind": 4}
    fill(broker, "mind", 3)
    assert reader.initialOffset() == {"mind": 4}
    assert reader.latestOffset({"mind": 4}, ALL) == {"mind": 7}
    assert read(reader, {"mind": 4}, {"mind": 7}) == [4, 5, 6]


def test_what_is_available_now_ends_though_more_comes(broker: BrokerProcess) -> None:
    fill(broker, "now", 3)
    reader = stream(broker, "now")
    reader.prepareForTriggerAvailableNow()
    fill(broker, "now", 3)
    assert reader.latestOffset({"now": 1}, ALL) == {"now": 4}
    assert reader.latestOffset({"now": 4}, ALL) == {"now": 4}
    assert reader.reportLatestOffset() == {"now": 7}


def test_a_batch_is_as_large_as_the_limit(broker: BrokerProcess) -> None:
    fill(broker, "limit", 9)
    reader = stream(broker, "limit", maxOffsetsPerTrigger="4")
    assert reader.getDefaultReadLimit() == ReadMaxRows(4)
    assert reader.latestOffset({"limit": 1}, ReadMaxRows(4)) == {"limit": 5}
    assert reader.latestOffset({"limit": 1}, ReadMaxBytes(3)) == {"limit": 4}
    assert stream(broker, "limit", maxBytesPerTrigger="7").getDefaultReadLimit() == ReadMaxBytes(7)


def test_trim_forgets_exactly_what_is_processed(broker: BrokerProcess) -> None:
    fill(broker, "processed", 6)
    reader = stream(broker, "processed", commit="trim")
    assert reader.latestOffset(reader.initialOffset(), ALL) == {"processed": 7}
    assert figures_of(broker, "processed").first == 1
    assert reader.latestOffset({"processed": 5}, ALL) == {"processed": 7}
    assert figures_of(broker, "processed").first == 5
    assert read(reader, {"processed": 5}, {"processed": 7}) == [5, 6]


def test_a_pattern_finds_queues_that_come_later(broker: BrokerProcess) -> None:
    fill(broker, "orders.a", 1)
    reader = stream(broker, "", subscribePattern=r"orders\..*")
    start = reader.initialOffset()
    fill(broker, "orders.b", 2)
    fill(broker, "other", 2)
    end = reader.latestOffset(start, ALL)
    assert (start, end) == ({"orders.a": 1}, {"orders.a": 2, "orders.b": 3})
    assert read(reader, start, end) == [1, 1, 2]


def test_messages_that_are_gone_unread_are_an_error_or_a_warning(broker: BrokerProcess) -> None:
    fill(broker, "gone", 9)
    with client_of(broker) as client:
        client.trim("gone", 5)
    start, end = {"gone": 2}, {"gone": 10}
    with pytest.raises(PipelineError, match=r"^failOnDataLoss=true: queue gone .* from 2 to 4\."):
        stream(broker, "gone").partitions(start, end)
    careless = stream(broker, "gone", failOnDataLoss="false")
    with pytest.warns(UserWarning, match="queue gone no longer has all messages from 2 to 4"):
        assert read(careless, start, end) == [5, 6, 7, 8, 9]


def test_messages_that_others_consumed_are_no_loss(broker: BrokerProcess) -> None:
    fill(broker, "shared", 5)
    take(broker, "shared", 3)
    assert read(stream(broker, "shared"), {"shared": 1}, {"shared": 6}) == [4, 5]


def test_a_batch_reads_between_two_offsets_in_the_partitions_asked_for(
    broker: BrokerProcess,
) -> None:
    fill(broker, "part", 9)
    given = {
        "brokers": at(broker),
        "subscribe": "part",
        "startingOffsets": '{"part": 3}',
        "endingOffsets": '{"part": 8}',
        "minPartitions": "2",
        "arrowBatchRows": "2",
    }
    reader = BatchReader(read_options(given, is_stream=False))
    found = [list(reader.read(partition)) for partition in reader.partitions()]
    seqs = [[seq for batch in part for seq in batch.column("seq").to_pylist()] for part in found]
    assert seqs == [[3, 4], [5, 6, 7]]
    assert [len(part) for part in found] == [1, 2]


def test_a_queue_that_is_not_there_is_named(tmp_path: Path) -> None:
    with running_broker(tmp_path, config="[broker]\nauto_create = false\n") as strict:
        with pytest.raises(PipelineError, match=r"^subscribe=vanished: there is no queue vanished"):
            stream(strict, "vanished").initialOffset()


def test_numbers_left_out_by_a_restart_of_the_broker_are_no_loss(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        fill(broker, "restarted", 3)
        reader = stream(broker, "restarted", commit="trim")
        assert reader.latestOffset({"restarted": 3}, ALL) == {"restarted": 4}
    with running_broker(tmp_path) as broker:
        reader = stream(broker, "restarted", commit="trim")
        assert read(reader, {"restarted": 3}, {"restarted": 4}) == [3]
        assert figures_of(broker, "restarted").first == 3
        fill(broker, "restarted", 2)
        end = reader.latestOffset({"restarted": 4}, ALL)
        assert end["restarted"] > 6  # a block of numbers was left out
        assert len(read(reader, {"restarted": 4}, end)) == 2


def test_a_stream_begins_at_a_time(broker: BrokerProcess) -> None:
    with client_of(broker) as client:
        for number in range(1, 8):
            stamp = [("timestamp", str(1000 * number))] if number != 4 else []
            client.post("/queue/timed", stamp, b"x")
            client.post("/queue/untimed", [], b"x")
        client.confirm()

    def begin(queue: str, time_ms: int) -> dict[str, int]:
        given = {"brokers": at(broker), "subscribe": queue, "startingTimestamp": str(time_ms)}
        return StreamReader(read_options(given, is_stream=True)).initialOffset()

    times = (1, 1000, 1001, 3500, 7000, 7001)
    assert [begin("timed", time_ms)["timed"] for time_ms in times] == [1, 1, 2, 4, 7, 8]
    assert begin("nothing", 1000) == {"nothing": 1}
    with pytest.raises(PipelineError, match="startingTimestamp: no message of queue untimed"):
        begin("untimed", 1000)


def test_a_batch_waits_for_enough_messages_but_not_for_ever(broker: BrokerProcess) -> None:
    fill(broker, "few", 3)
    reader = stream(broker, "few", minOffsetsPerTrigger="5", maxTriggerDelay="50ms")
    assert reader.latestOffset({"few": 1}, ALL) == {"few": 1}
    sleep(0.06)
    assert reader.latestOffset({"few": 1}, ALL) == {"few": 4}
    assert reader.latestOffset({"few": 2}, ALL) == {"few": 2}
    fill(broker, "few", 3)
    assert reader.latestOffset({"few": 1}, ALL) == {"few": 7}
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset({"few": 5}, ALL) == {"few": 7}


def test_columns_that_are_not_wanted_are_left_out_and_tasks_are_as_many_as_cores(
    broker: BrokerProcess,
) -> None:
    fill(broker, "lean", 3)
    given = {"brokers": at(broker), "subscribe": "lean", "startingOffsets": "earliest"}
    options = read_options(
        given | {"includeValue": "false", "includeHeaders": "false"}, is_stream=True
    )
    reader = StreamReader(options, cores=3)
    (part,) = reader.partitions({"lean": 1}, {"lean": 4})
    (batch,) = reader.read(part)
    assert batch.schema.names == ["queue", "seq", "message_id", "group_id", "ts", "redelivered"]
    assert batch.column("group_id").to_pylist() == ["g1", "g2", "g0"]
    assert len(split([Range("q", 0, 60_000)], 0, reader.cores)) == 3
