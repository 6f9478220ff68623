"""Frames written column by column are those the codec writes one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from covey.client.stomp import VERSION
from covey.pipeline.datasource.options import write_options
from covey.pipeline.datasource.sink import frames_of
from covey.protocols.stomp.frame import encode

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
