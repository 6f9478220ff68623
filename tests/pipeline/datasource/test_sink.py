"""The sink without Spark: rows become messages, in order, with ids that do not change."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructType

from covey.client.stomp import VERSION
from covey.pipeline.datasource.options import write_options
from covey.pipeline.datasource.sink import (
    NAMES_MAX,
    PIECE_BYTES,
    Groups,
    complaint,
    cut,
    frames_of,
    groups_in,
    sampled,
    send_partition,
    sink_options,
    warn_of_spread,
)
from covey.pipeline.errors import PipelineError
from covey.protocols.stomp.frame import encode, parse_block
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


def test_rows_are_cut_by_number_and_by_bytes() -> None:
    small = pa.RecordBatch.from_pydict({"value": ["x"] * 7})
    assert [piece.num_rows for piece in cut([small, small], 4)] == [4, 3, 4, 3]
    heavy = pa.RecordBatch.from_pydict({"value": [b"x" * (PIECE_BYTES // 3)] * 5})
    pieces = list(cut([heavy], 100))
    assert sum(piece.num_rows for piece in pieces) == 5
    assert max(piece.nbytes for piece in pieces) <= PIECE_BYTES


def test_a_partition_that_is_sent_again_adds_nothing_whatever_its_pieces(
    broker: BrokerProcess,
) -> None:
    rows = pa.RecordBatch.from_pydict({"value": ["a", "b", "c"], "seq": [1, 2, 3]})
    given = {"brokers": at(broker), "queue": "fenced", "transactionRows": "2"}
    options = write_options(given, rows.schema.names)
    for epoch in (0, 0, 1, 0, 1):
        assert send_partition(options, iter([rows]), "query", epoch).rows == 3
    assert bodies_of(broker, "fenced") == [b"a", b"b", b"c"] * 2
    again = write_options(given | {"exactlyOnce": "false"}, rows.schema.names)
    send_partition(again, iter([rows]), "query", 1)
    assert len(bodies_of(broker, "fenced")) == 9


def test_a_sink_without_fence_and_window_says_so_before_it_sends(broker: BrokerProcess) -> None:
    schema = StructType().add("value", StringType()).add("message_id", StringType())
    given = {"brokers": at(broker), "queue": "plain", "exactlyOnce": "false"}
    with pytest.warns(UserWarning, match="queue plain has no duplicate_window"):
        sink_options(given, schema, overwrite=False)
    with pytest.warns(UserWarning, match="queue plain is sent no ids"):
        sink_options(given | {"idColumn": ""}, schema, overwrite=False)
    with pytest.raises(PipelineError, match="txnAppId: it is for a batch only"):
        sink_options(
            {"queue": "q", "txnAppId": "a", "txnVersion": "1"},
            schema,
            overwrite=False,
            is_stream=True,
        )


def test_a_value_that_is_no_body_is_refused() -> None:
    schema = StructType().add("value", LongType())
    with pytest.raises(PipelineError, match="value is bigint"):
        sink_options({"queue": "q"}, schema, overwrite=False)


# Frames written column by column are those the codec writes one by one.

PLAIN = ["a", "b", "", None]
ODD = ["a:b", "line\nbreak", "back\\slash", "\r\0"]


def batch_of(ids: list[Any], groups: list[Any]) -> pa.RecordBatch:
    rows = {"value": [b"one", b"", None, b"\0four"], "message_id": ids, "group_id": groups}
    headers = [{"colour": "r:d", "receipt": "no"}, {}, None, {"empty": "", "size": "1"}]
    columns = [pa.array(column) for column in rows.values()]
    columns.append(pa.array(headers, pa.map_(pa.string(), pa.string())))
    return pa.RecordBatch.from_arrays(columns, [*rows, "headers"])


def one_by_one(ids: list[Any], groups: list[Any]) -> list[bytes]:
    more = [[("colour", "r:d")], [], [], [("size", "1")]]
    bodies = [b"one", b"", b"", b"\0four"]
    frames = []
    for one, group, pairs, body in zip(ids, groups, more, bodies, strict=True):
        headers = [("destination", "/queue/q"), ("persistent", "true")]
        headers += [("message-id", str(one))] if one else []
        headers += [("message_group", str(group))] if group else []
        frames.append(encode("SEND", [*headers, *pairs], body, VERSION))
    return frames


@pytest.mark.parametrize("ids", [PLAIN, ODD])
@pytest.mark.parametrize("groups", [PLAIN, ODD, [1, 2, None, 40]])
def test_a_column_at_a_time_or_a_row_at_a_time_is_the_same(
    ids: list[Any], groups: list[Any]
) -> None:
    batch = batch_of(ids, groups)
    options = write_options({"brokers": "localhost:1", "queue": "q"}, batch.schema.names)
    assert list(frames_of(options, batch)) == one_by_one(ids, groups)


def test_a_column_may_say_where_to_and_text_is_a_body() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["é"], "queue": ["/topic/a:b"]})
    options = write_options({"persistent": "false"}, batch.schema.names)
    (frame,) = frames_of(options, batch)
    assert frame == b"SEND\ndestination:/topic/a\\cb\ncontent-length:2\n\n\xc3\xa9\0\n"


# Groups that two tasks have sent are noticed, also by a sample of very many.


def groups(*names: str, queue: str = "orders") -> Groups:
    return frozenset((queue, name) for name in names)


def test_groups_are_told_by_queue_and_rows_without_one_are_not() -> None:
    queues = pa.array(["a", "a", "b", "b", "b"])
    found = groups_in(queues, pa.array(["x", "x", "x", None, ""]))
    assert found == {("a", "x"), ("b", "x")}
    assert groups_in(pa.array(["a"]), pa.array([17])) == {("a", "17")}


def test_a_group_of_two_tasks_is_named() -> None:
    said = complaint([groups("a", "b"), groups("b", "c"), groups("b", queue="other")])
    assert "order is not kept: b of orders. Bring" in said
    many = groups(*"abcdef")
    assert "a of orders, b of orders, c of orders and 3 more" in complaint([many, many])


def test_groups_that_are_together_are_no_cause_for_complaint() -> None:
    assert complaint([groups("a"), groups("b"), groups("a", queue="other")]) == ""


def test_samples_of_very_many_groups_meet() -> None:
    first = groups(*[f"g{number}" for number in range(4 * NAMES_MAX)])
    second = groups(*[f"g{number}" for number in range(2 * NAMES_MAX, 6 * NAMES_MAX)])
    assert len(sampled(first)) == NAMES_MAX
    assert complaint([sampled(first), sampled(second)])
