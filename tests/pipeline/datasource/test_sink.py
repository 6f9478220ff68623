"""The sink without Spark: rows become messages, in order, with ids that do not change."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructType

from covey.client.stomp import VERSION
from covey.pipeline.datasource.options import write_options
from covey.pipeline.datasource.sink import send_partition, sink_options, warn_of_spread
from covey.pipeline.errors import PipelineError
from covey.protocols.stomp.frame import parse_block
from tests.e2e.support import BrokerProcess
from tests.e2e.support import broker as broker
from tests.pipeline.queues import at, bodies_of, client_of


def test_rows_are_sent_in_their_order_with_id_group_and_headers(broker: BrokerProcess) -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "value": [b"second", b"first", None],
            "seq": [2, 1, 3],
            "message_id": ["b", "a", None],
            "group_id": ["g", "g", None],
            "headers": [{"colour": "red", "receipt": "r", "destination": "/queue/x"}, {}, None],
        },
        pa.schema(
            [
                ("value", pa.binary()),
                ("seq", pa.int64()),
                ("message_id", pa.string()),
                ("group_id", pa.string()),
                ("headers", pa.map_(pa.string(), pa.string())),
            ]
        ),
    )
    options = write_options({"brokers": at(broker), "queue": "sent"}, batch.schema.names)
    assert send_partition(options, iter([batch])).rows == 3
    with client_of(broker) as client:
        (rows,) = [rows for rows in client.browse("sent", 0) if rows.seqs]
    ours = [parse_block(lines.partition(b"MESSAGE\n")[2], VERSION) for lines in rows.ours]
    _, second, third = [parse_block(lines, VERSION) for lines in rows.theirs]
    assert bodies_of(broker, "sent") == [b"first", b"second", b""]
    assert [lines["message-id"] for lines in ours[:2]] == ["a", "b"]
    assert (second["message_group"], second["colour"]) == ("g", "red")
    assert second["destination"] == "/queue/sent"
    assert "message_group" not in third and rows.seqs == [1, 2, 3]


def test_a_column_says_where_each_row_goes(broker: BrokerProcess) -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["x", "y"], "queue": ["to.x", "/queue/to.y"]})
    send_partition(write_options({"brokers": at(broker)}, batch.schema.names), iter([batch]))
    assert bodies_of(broker, "to.x") == [b"x"]
    assert bodies_of(broker, "to.y") == [b"y"]


def test_a_group_that_two_tasks_have_sent_is_warned_of(broker: BrokerProcess) -> None:
    given = {"brokers": at(broker)}
    rows = {"value": ["x", "y"], "queue": ["spread", "spread"], "group_id": ["g", "h"]}
    options = write_options(given, list(rows))
    sent = [
        send_partition(options, iter([pa.RecordBatch.from_pydict(rows | {"group_id": names})]))
        for names in (["g", None], ["h", "i"], ["g", "k"])
    ]
    warn_of_spread([*sent[:2], None])
    with pytest.warns(UserWarning, match="order is not kept: g of spread"):
        warn_of_spread(sent)


def test_nothing_to_send_is_no_trouble(broker: BrokerProcess) -> None:
    options = write_options({"brokers": at(broker), "queue": "none"}, ["value", "seq"])
    assert send_partition(options, iter([])).rows == 0


def test_a_value_that_is_no_body_is_refused() -> None:
    schema = StructType().add("value", LongType())
    with pytest.raises(PipelineError, match="value is bigint"):
        sink_options({"queue": "q"}, schema, overwrite=False)
