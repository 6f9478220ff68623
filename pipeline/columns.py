"""Columns: MESSAGE frames of a browse as Arrow batches, the rows that Spark sees.

    value binary, queue string, seq long, message_id string, group_id string, ts timestamp,
    redelivered boolean, headers map<string,string>

A frame's header lines are the broker's own (subscription, message-id, ..., covey-seq, and
content-length), then the producer's. Producers repeat themselves, so what their lines say is
looked up rather than read again. `ts` is the header `timestamp`, null where a producer or the
broker (`add_timestamp_header`) has not written one.
"""

from __future__ import annotations

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

from covey.client.stomp import DELIVERY_HEADERS, VERSION
from covey.groups.key import DEFAULT_HEADERS
from covey.pipeline.client import SEQ_LINE
from covey.protocols.stomp.frame import Frame, parse_block

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
BATCH_BYTES: Final = 8 * 1024 * 1024  # a batch ends here, however few its rows
KNOWN_MAX: Final = 1024  # distinct header blocks remembered
TIME_DIGITS_MAX: Final = 13  # milliseconds up to the year 2286; Arrow's microseconds end later

ID_LINE: Final = b"\nmessage-id:"  # the subscription's line is before it
LENGTH_LINE: Final = b"content-length:"
REDELIVERED_LINE: Final = b"\nredelivered:true"


def schema(*, has_headers: bool) -> StructType:
    """Return what Spark is told of the rows."""
    return SCHEMA if has_headers else StructType(SCHEMA.fields[:-1])


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

    def __init__(self, queue: str, group_header: str, rows_max: int, *, has_headers: bool) -> None:
        self._queue = queue
        self._group_headers = (group_header,) if group_header else DEFAULT_HEADERS
        self._rows_max = rows_max
        self._has_headers = has_headers
        self._known: dict[bytes, Told] = {}
        self._begin()

    def _begin(self) -> None:
        self._size = 0
        self._values: list[bytes] = []
        self._seqs: list[int] = []
        self._ids: list[str] = []
        self._told: list[Told] = []
        self._redelivered: list[bool] = []

    @property
    def is_full(self) -> bool:
        """True when the rows should be taken."""
        return len(self._seqs) >= self._rows_max or self._size >= BATCH_BYTES

    @property
    def is_empty(self) -> bool:
        """True when there is no row."""
        return not self._seqs

    def add(self, frame: Frame, end: int) -> bool:
        """Add a message's row; False if its number is not below `end`."""
        ours, _, rest = frame.block.partition(SEQ_LINE)
        number, _, theirs = rest.partition(b"\n")
        seq = int(number)
        if seq >= end:
            return False
        if theirs.startswith(LENGTH_LINE):
            theirs = theirs.partition(b"\n")[2]
        body = frame.body
        self._values.append(body)
        self._size += len(body)
        self._seqs.append(seq)
        self._ids.append(_message_id(ours))
        self._told.append(self._known.get(theirs) or self._read(theirs))
        self._redelivered.append(REDELIVERED_LINE in ours)
        return True

    def take(self) -> pa.RecordBatch:
        """Return the rows, and begin anew."""
        told = self._told
        columns = [
            pa.array(self._values, pa.binary()),
            pa.repeat(self._queue, len(told)),
            pa.array(self._seqs, pa.int64()),
            pa.array(self._ids, pa.string()),
            pa.array([one.group_id for one in told], pa.string()),
            pa.array([one.time_us for one in told], pa.timestamp("us", tz="UTC")),
            pa.array(self._redelivered, pa.bool_()),
        ]
        if self._has_headers:
            columns.append(_headers(told))
        self._begin()
        return pa.record_batch(columns, names=ARROW.names[: len(columns)])

    def _read(self, block: bytes) -> Told:
        if len(self._known) == KNOWN_MAX:
            self._known.clear()
        told = self._known[block] = Told(block, self._group_headers)
        return told


def _message_id(ours: bytes) -> str:
    if b"\\" in ours:
        return parse_block(ours, VERSION)["message-id"]
    return ours.partition(ID_LINE)[2].partition(b"\n")[0].decode()


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
