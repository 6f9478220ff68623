"""Journal rows: the journal of formats 6 to 8, which a start brings into the tables once.

Up to format 8 a commit wrote one row of a table: arrivals packed into one blob, settled places into
another, and a checksum of both. Row 0 said up to which batch the tables knew everything. A row
whose checksum is wrong is reported, with what it held.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Final
from zlib import crc32

from covey.core.storage.packing import (
    PLACE,
    PLACE_SIZE,
    RECORD,
    SEQ_BITS,
    SEQ_MASK,
    Arrival,
    places_of,
    unpacked,
)
from covey.core.storage.sqlite.journal import fill_tables
from covey.core.storage.sqlite.schema import FOLDED, fold_mark
from covey.core.storage.sqlite.statements import DELETE, Statement, carry_out
from covey.core.storage.store import DAMAGES_MAX

HAS_ROWS: Final = "select count(*) from sqlite_master where type = 'table' and name = 'journal'"
NAMES: Final = "select number, name from queues"
MARK_ROW: Final = 0
# Read as blobs: in a damaged row they may have another type.
ROWS: Final = """
    select number, cast(arrivals as blob), cast(deletions as blob), crc from journal order by number
"""
DROP: Final = "drop table journal"


def fold_rows(connection: sqlite3.Connection, damages: list[str]) -> bool:
    """Bring the journal's rows into the tables and drop the journal; False if there was none.

    Rows that cannot be read are noted in `damages`.
    """
    (count,) = connection.execute(HAS_ROWS).fetchone()
    if not count:
        return False
    number = 0
    waiting: dict[int, Arrival] = {}
    gone: list[int] = []
    for row, arrivals, deletions, crc in connection.execute(ROWS).fetchall():
        cause = "its checksum is wrong"
        if crc32(deletions, crc32(arrivals)) == crc:
            if row == MARK_ROW and len(deletions) == PLACE_SIZE:
                number = max(number, PLACE.unpack(deletions)[0])
                continue
            try:
                waiting.update(unpacked(arrivals))
                gone += places_of(deletions)
            except ValueError as error:
                cause = str(error)
            else:
                cause = ""
        number = max(number, row)
        if cause and len(damages) < DAMAGES_MAX:
            held = _held(arrivals, dict(connection.execute(NAMES).fetchall()))
            damages.append(f"row {row} of the journal cannot be replayed: {cause}; {held}")
    for place in gone:
        waiting.pop(place, None)
    found: list[Statement] = [(DELETE, (json.dumps(gone),))]
    fill_tables(found, waiting)
    found += [(DROP, ()), (FOLDED, fold_mark(number))]
    carry_out(connection, found)
    return True


def _held(blob: bytes, names: dict[int, str]) -> str:
    """Say what a damaged row held, as far as it can be read.

    A place whose queue is unknown is taken for damage, not for a message.
    """
    seqs: dict[int, list[int]] = {}
    at = 0
    while at + RECORD.size <= len(blob):
        place, _, _, _, _, *lengths = RECORD.unpack_from(blob, at)
        if place >> SEQ_BITS in names:
            seqs.setdefault(place >> SEQ_BITS, []).append(place & SEQ_MASK)
        at += RECORD.size + sum(lengths)
    parts = [
        f"{len(found)} messages from {min(found)} to {max(found)} of queue {names[queue]}"
        for queue, found in seqs.items()
    ]
    return f"it held, as far as it can be read, {', '.join(parts) or 'no message of any queue'}"
