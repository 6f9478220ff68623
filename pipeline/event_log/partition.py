"""Partition: an event log cut into pieces for Spark's tasks, and dealt out by group.

    pieces --deal--> (share, packed events) --Spark's shuffle--> one share at a time --gather-->

A piece is one row group of a file, which one task reads at a time. It holds events of one run. The
footers alone tell how many events a row group has, and the range of their ids and times. So runs
can be summed up, and missing events be found, without reading the log. Only a row group with a gap
inside is looked into.

A share is a part of the groups, by a hash of queue and group, so that all events of a group come
together. Spark moves one packed table for each piece and share, not a row for each event. It moves
them as bytes, not in a DataFrame: shuffling and sorting rows took most of an audit's time, and
planning it took seconds of a short one's. Events about a whole queue (who came and left, its end)
go to every share, for each must know them.

Messages without a group promise nothing about each other, so they are spread over `PLAIN_PARTS`.
A share is in memory at once, some 150 bytes an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from covey.core.events.event import EventKind
from covey.pipeline.errors import PipelineError
from covey.pipeline.event_log.reader import file_system, log_files
from covey.pipeline.event_log.schema import ARROW_SCHEMA, RANGED
from covey.pipeline.jobs.audit_rules import MESSAGE_KINDS


class Piece(NamedTuple):
    """One row group: where it is, and what its footer says of it."""

    place: str
    file: str
    row_group: int
    run: str
    events: int
    first_eid: int
    last_eid: int
    began: datetime
    ended: datetime


class Run(NamedTuple):
    """What a log has of one start of the broker."""

    run: str
    events: int
    first_eid: int
    last_eid: int
    began: datetime
    ended: datetime


def pieces_of(place: str) -> list[Piece]:
    """Return the row groups of a log; raises PipelineError naming a file that is none of it."""
    system = file_system(place)[0]
    found = []
    for file in log_files(place):
        footer = pq.read_metadata(file, filesystem=system)
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            run, eid, ts = (
                group.column(ARROW_SCHEMA.get_field_index(name)).statistics for name in RANGED
            )
            ranges = (eid.min, eid.max, ts.min, ts.max)
            found.append(Piece(place, file, number, run.min, group.num_rows, *ranges))
    return found


def runs_of(pieces: list[Piece]) -> list[Run]:
    """Sum up each run, the earliest first; raises PipelineError if events are there twice."""
    found = []
    for name in {piece.run for piece in pieces}:
        mine = [piece for piece in pieces if piece.run == name]
        run = Run(
            name,
            sum(piece.events for piece in mine),
            min(piece.first_eid for piece in mine),
            max(piece.last_eid for piece in mine),
            min(piece.began for piece in mine),
            max(piece.ended for piece in mine),
        )
        if run.events > run.last_eid - run.first_eid + 1:
            raise PipelineError(f"--input: it has events of run {name} twice; is a file copied?")
        found.append(run)
    return sorted(found, key=lambda run: (run.began, run.run))


def gaps_of(pieces: list[Piece]) -> Iterator[tuple[str, int, int]]:
    """Yield run, first and last id of the events that are missing, in their order."""
    before: Piece | None = None
    for piece in sorted(pieces, key=lambda piece: (piece.run, piece.first_eid)):
        if before is not None and before.run == piece.run:
            if piece.first_eid > before.last_eid + 1:
                yield piece.run, before.last_eid + 1, piece.first_eid - 1
        if piece.events <= piece.last_eid - piece.first_eid:
            eids = np.sort(read_piece(piece, ["eid"])["eid"].to_numpy())
            for at in np.flatnonzero(np.diff(eids) > 1):
                yield piece.run, int(eids[at]) + 1, int(eids[at + 1]) - 1
        before = piece


def read_piece(piece: Piece, columns: list[str]) -> pq.Table:
    """Read columns of a row group, texts as dictionaries."""
    texts = [name for name in ("run", "queue", "group_id") if name in columns]
    system = file_system(piece.place)[0]
    with pq.ParquetFile(piece.file, filesystem=system, read_dictionary=texts) as file:
        return file.read_row_group(piece.row_group, columns)


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
