"""Share: an event log dealt out so that all events of a group come together.

    pieces --deal--> (share, packed events) --Spark's shuffle--> one share at a time --gather-->

A share is a part of the groups, by a hash of queue and group. What Spark moves is one packed table
for each piece and share, not a row for each event, and it moves them as bytes, not in a DataFrame:
shuffling and sorting rows took most of an audit's time, and planning it seconds of a short one's.
Events about a whole queue (who came and left, its end) go to every share, for each must know them.

Messages without a group promise nothing about each other, so they are spread over `PLAIN_PARTS`.
A share is in memory at once, some 150 bytes an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from covey.core.events import EventKind
from covey.pipeline.fold import MESSAGE_KINDS
from covey.pipeline.pieces import Piece, read_piece

PLAIN_PARTS: Final = 64  # more than a machine has cores, few enough to be cheap

QUEUE_KINDS: Final = (EventKind.JOIN, EventKind.LEAVE, EventKind.DELETE)

KEY: Final = ("run", "queue", "group_id")
PACKED_ARROW: Final = pa.schema(
    [
        *((name, pa.string()) for name in KEY),
        *((name, pa.int64()) for name in ("eid", "consumer", "seq")),
        ("kind", pa.int8()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Dealt = tuple[int, bytes]  # a share's number, and a packed table for it


def deal(piece: Piece, shares: int) -> Iterator[Dealt]:
    """Yield the events of a piece that each share must see, packed."""
    table = read_piece(piece, PACKED_ARROW.names).select(PACKED_ARROW.names)
    kinds = table["kind"].to_numpy()
    is_for_all = np.isin(kinds, [int(kind) for kind in QUEUE_KINDS])
    share_of = _hashes(table) % shares
    share_of[~np.isin(kinds, MESSAGE_KINDS)] = -1
    for share in range(shares):
        rows = np.flatnonzero((share_of == share) | is_for_all)
        if len(rows):
            yield share, pack(table.take(pa.array(rows)).cast(PACKED_ARROW))


def gather(dealt: Iterable[Dealt]) -> pa.Table:
    """Return the events of one share, in no order."""
    tables = [unpack(packed) for _, packed in dealt]
    return pa.concat_tables(tables) if tables else PACKED_ARROW.empty_table()


def pack(table: pa.Table) -> bytes:
    """Return a table as bytes."""
    packed = pa.BufferOutputStream()
    with pa.ipc.new_stream(packed, table.schema) as stream:
        stream.write_table(table)
    content: bytes = packed.getvalue().to_pybytes()
    return content


def unpack(packed: bytes) -> pa.Table:
    """Return the table that was packed."""
    return pa.ipc.open_stream(packed).read_all()


def coded(column: pa.ChunkedArray) -> tuple[Numbers, list[str]]:
    """Return texts as numbers, and the text of each number."""
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):  # a table without rows
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy().astype("i8"), encoded.dictionary.to_pylist()


def _hashes(table: pa.Table) -> Numbers:
    """Return a hash of queue and group for each row, the same in every process."""
    groups = _hash(table["group_id"])
    parts = table["seq"].to_numpy() % PLAIN_PARTS
    spread: Numbers = np.where(groups == crc32(b""), parts, groups)
    return _hash(table["queue"]) * 31 + spread


def _hash(column: pa.ChunkedArray) -> Numbers:
    texts = column.combine_chunks()
    if isinstance(texts, pa.ChunkedArray):
        (texts,) = texts.chunks
    of_each = [crc32(text.encode()) for text in texts.dictionary.to_pylist()]
    hashes: Numbers = np.array(of_each, "i8")[texts.indices.to_numpy()]
    return hashes
