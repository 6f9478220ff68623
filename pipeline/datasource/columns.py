"""Columns: the messages of a browse as Arrow batches, the rows that Spark sees.

    value binary, queue string, seq long, message_id string, group_id string, ts timestamp,
    redelivered boolean, headers map<string,string>

Producers send the same header lines again and again. So equal lines are parsed once and get a
number. The columns that come from header lines are looked up in a table by these numbers. `ts` is
the header `timestamp`. It is null if neither the producer nor the broker (`add_timestamp_header`)
has written that header.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from covey.client.browse_cutter import Rows
from covey.client.stomp import DELIVERY_HEADERS, VERSION
from covey.groups.key import DEFAULT_HEADERS
from covey.protocols.stomp.frame import parse_block

SCHEMA: Final = StructType(
    [
        StructField("value", BinaryType()),
        StructField("queue", StringType()),
        StructField("seq", LongType()),
        StructField("message_id", StringType()),
        StructField("group_id", StringType()),
        StructField("ts", TimestampType()),
        StructField("redelivered", BooleanType()),
        StructField("headers", MapType(StringType(), StringType())),
    ]
)
ARROW: Final = pa.schema(
    [
        ("value", pa.binary()),
        ("queue", pa.string()),
        ("seq", pa.int64()),
        ("message_id", pa.string()),
        ("group_id", pa.string()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("redelivered", pa.bool_()),
        ("headers", pa.map_(pa.string(), pa.string())),
    ]
)
BATCH_BYTES: Final = 8 * 1024 * 1024  # a batch of this size ends, even with few rows
KNOWN_MAX: Final = 10_000  # distinct header blocks remembered from batch to batch
TIME_DIGITS_MAX: Final = 13  # milliseconds up to the year 2286; Arrow's microseconds end later

ID_LINE: Final = b"\nmessage-id:"  # the line after the subscription's
ID_LINE_LENGTH: Final = 12
REDELIVERED_LINE: Final = b"\nredelivered:true"


def schema(*, has_headers: bool, has_value: bool = True) -> StructType:
    """Return the schema of the rows, for Spark."""
    left_out = {"headers": not has_headers, "value": not has_value}
    return StructType([field for field in SCHEMA if not left_out.get(field.name)])


class Told:
    """What a producer's header lines say."""

    __slots__ = ("group_id", "items", "keys", "time_us")

    def __init__(self, block: bytes, group_headers: tuple[str, ...]) -> None:
        headers = parse_block(block, VERSION)
        self.group_id = next((headers[name] for name in group_headers if headers.get(name)), None)
        time_ms = headers.get("timestamp", "")
        is_time = time_ms.isascii() and time_ms.isdigit() and len(time_ms) <= TIME_DIGITS_MAX
        self.time_us = int(time_ms) * 1000 if is_time else None
        own = {name: text for name, text in headers.items() if name not in DELIVERY_HEADERS}
        self.keys = list(own)
        self.items = list(own.values())


class BatchMaker:
    """Gathers the rows of one queue."""

    def __init__(
        self,
        queue: str,
        group_header: str,
        rows_max: int,
        *,
        has_headers: bool,
        has_value: bool = True,
    ) -> None:
        self._queue = queue
        self._group_headers = (group_header,) if group_header else DEFAULT_HEADERS
        self._rows_max = rows_max
        self._has_headers = has_headers
        self._has_value = has_value
        self._known: dict[bytes, int] = {}
        self._told: list[Told] = []
        self._begin()

    def _begin(self) -> None:
        self._size = 0
        self._rows = Rows()
        self._told_by: list[int] = []
        if len(self._known) > KNOWN_MAX:
            self._known.clear()
            self._told.clear()

    @property
    def is_full(self) -> bool:
        """Return True if the rows should be taken."""
        return len(self._told_by) >= self._rows_max or self._size >= BATCH_BYTES

    def add(self, rows: Rows) -> None:
        """Add messages."""
        mine = self._rows
        mine.seqs += rows.seqs
        mine.ours += rows.ours
        if self._has_value:
            mine.bodies += rows.bodies
            self._size += sum(map(len, rows.bodies))
        known = self._known
        for theirs in rows.theirs:
            number = known.get(theirs)
            if number is None:
                number = known[theirs] = len(known)
                self._told.append(Told(theirs, self._group_headers))
            self._told_by.append(number)

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches of at most the allowed length, and begin anew."""
        batch = self._batch()
        self._begin()
        for first in range(0, batch.num_rows, self._rows_max):
            yield batch.slice(first, self._rows_max)

    def _batch(self) -> pa.RecordBatch:
        rows, told = self._rows, self._told
        told_by = pa.array(self._told_by, pa.int32())
        groups = pa.array([one.group_id for one in told], pa.string())
        times = pa.array([one.time_us for one in told], pa.timestamp("us", tz="UTC"))
        columns = [
            pa.repeat(self._queue, len(rows.seqs)),
            pa.array(rows.seqs, pa.int64()),
            _message_ids(rows.ours),
            groups.take(told_by),
            times.take(told_by),
            _redelivered(rows.ours),
        ]
        if self._has_headers:
            columns.append(_headers(told).take(told_by))
        first = 1
        if self._has_value:
            columns.insert(0, pa.array(rows.bodies, pa.binary()))
            first = 0
        return pa.record_batch(columns, names=ARROW.names[first : first + len(columns)])


def _message_ids(ours: list[bytes]) -> pa.Array:
    """Return the message ids; nearly always an id is the whole rest of its line."""
    # Searched in each: the first frame of a browse has no LF before it, the others have one.
    ids = [lines[lines.find(ID_LINE) + ID_LINE_LENGTH :] for lines in ours]
    together = b"".join(ids)
    if together.find(b"\n") < 0 and together.find(b"\\") < 0:
        return pa.array(ids, pa.binary()).cast(pa.string())
    return pa.array([_message_id(text) for text in ids], pa.string())


def _message_id(lines: bytes) -> str:
    text = lines.partition(b"\n")[0]
    return parse_block(b"id:" + text, VERSION)["id"]


def _redelivered(ours: list[bytes]) -> pa.Array:
    if b"".join(ours).find(REDELIVERED_LINE) < 0:
        return pa.repeat(False, len(ours))
    return pa.array([lines.find(REDELIVERED_LINE) >= 0 for lines in ours], pa.bool_())


def _headers(told: list[Told]) -> pa.MapArray:
    offsets = [0]
    keys: list[str] = []
    items: list[str] = []
    for one in told:
        keys += one.keys
        items += one.items
        offsets.append(len(keys))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(keys, pa.string()), pa.array(items, pa.string())
    )
