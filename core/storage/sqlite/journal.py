# Compiled by mypyc: see setup.py.
"""Journal: what the last commits wrote, before it is worth a place in the tables.

Most messages are settled milliseconds after they came. So a commit writes *one* row here, all its
arrivals packed into one blob and all that was settled into another: a third of the work of two rows
for each message and their removal. When the journal is full, the tables get what is still alive, in
the same transaction that empties it (a *fold*). Rules:

- What is in the journal alone is in memory, too (`waiting`): bodies are read from there.
- A batch that names rows of the tables (moves, retry counts, a queue emptied), or that is as large
  as the journal, folds first and goes to the tables itself, in one transaction.
- While a backlog grows, or messages are held for long, most would be written twice. So after a fold
  of mostly living ones batches go to the tables at once for a while.
- A restart replays the rows in their order, and folds if there is room for that. A row whose
  checksum is wrong is reported and stays on the disk; the others count.
- Batches are numbered, for ever. A row has its batch's number; a batch that has no row, and a fold,
  write the last number into row 0 (`MARK`). So the database says up to which batch it is complete
  (`core.storage.sqlite.confirmed`).

An arrival in a blob: `RECORD`, then its kind, group, head and body; a settled message: its place.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterator
from heapq import merge
from typing import Final
from zlib import crc32

from covey.core.storage.sqlite.changes import DELETE, Arrival, Changes, Statement, insert, without
from covey.core.storage.sqlite.schema import BODIES, MESSAGES, SEQ_BITS, SEQ_MASK, message_sum
from covey.core.storage.store import DAMAGES_MAX, BodyRecord, MessageRecord

ROWS_MAX: Final = 4096  # messages put into the tables by one fold, which takes 20 ms
GONE_MAX: Final = 256  # and taken out of them: a backlog's readers wait meanwhile
DIRECT: Final = 7  # journals' worth of messages that go to the tables when most of one outlived it

# Place, size, expiry, time due, priority; the lengths of kind, group, head and body.
RECORD: Final = struct.Struct(">qqqqBBIII")
PLACE: Final = struct.Struct(">q")
PLACE_SIZE: Final = PLACE.size

NAMES: Final = "select number, name from queues"
ADD: Final = "insert into journal values (?, ?, ?, ?)"
MARK: Final = "insert or replace into journal values (0, x'', ?, ?)"
MARK_ROW: Final = 0
REMOVE: Final = "delete from journal where number in (select value from json_each(?))"
# As blobs: a damaged row may say that they are something else.
ROWS: Final = """
    select number, cast(arrivals as blob), cast(deletions as blob), crc from journal order by number
"""


class Journal:
    """The rows of the journal, as far as the tables do not know what they say."""

    __slots__ = (
        "_direct",
        "_is_folding",
        "_numbers",
        "_size",
        "bytes_max",
        "folded",
        "gone",
        "is_torn",
        "number",
        "waiting",
    )

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._is_folding = False
        self._direct = 0  # bytes of messages that still go to the tables at once
        self.folded = 0  # bytes of messages that the last batch took to the tables
        self.number = 0  # of the last batch
        self._numbers: list[int] = []  # of the rows
        self._size = 0  # bytes of messages in these rows, settled ones too
        self.waiting: dict[int, Arrival] = {}  # alive and not in the tables yet, by place
        self.gone: list[int] = []  # settled and in the tables still
        self.is_torn = False  # rows of the tables that salvage could read may be in here, too

    def take(self, changes: Changes) -> list[Statement]:
        """Return what makes a batch durable, in one transaction; `written` is to follow."""
        if changes.emptied:
            self._drop(changes.emptied)
        self._count(changes.arrivals, changes.deletions)
        self.folded = 0
        self._is_folding = False  # a fold may have failed
        size = self._size + changes.size
        is_full = size > self.bytes_max or len(self.waiting) > ROWS_MAX or len(self.gone) > GONE_MAX
        if self._direct > 0 or is_full or changes.names_rows:
            self.number += 1
            found = self.fold(changes)
            if self._direct > 0:
                self._direct -= changes.size
            elif size > self.bytes_max and 2 * self.folded > size:
                self._direct = DIRECT * self.bytes_max
            return found
        found = changes.others()
        if changes.arrivals or changes.deletions:
            self.number += 1
            found.insert(0, (ADD, self._row(changes)))
            self._size = size
        elif changes.is_lasting:
            self.number += 1
            found.append(self._mark())
        return found

    def fold(self, changes: Changes) -> list[Statement]:
        """Return what puts everything into the tables; the batch has been counted before."""
        found = changes.emptyings()
        if self.is_torn:
            found.append((DELETE, (json.dumps(list(self.waiting)),)))
        self.folded = _fill_tables(found, self.waiting)
        found += changes.renumberings()
        if self.gone:
            found.append((DELETE, (json.dumps(self.gone),)))
        found += changes.others()
        if self._numbers:
            found.append((REMOVE, (json.dumps(self._numbers),)))
        if found or self.is_torn:
            found.append(self._mark())
        self._is_folding = True
        return found

    def written(self) -> None:
        """Hear that what was last returned is on the disk."""
        if self._is_folding:
            self._numbers, self._size, self.waiting, self.gone = [], 0, {}, []
            self._is_folding = self.is_torn = False

    def bodies(self, places: list[int]) -> list[BodyRecord]:
        """Return those of the bodies asked for that are here."""
        waiting = self.waiting
        here = [place for place in places if place in waiting]
        return [
            BodyRecord(place >> SEQ_BITS, place & SEQ_MASK, *waiting[place][5:]) for place in here
        ]

    def messages(self, rows: Iterator[MessageRecord]) -> Iterator[MessageRecord]:
        """Walk all messages: those of the tables that are not settled, and those that are here."""
        if not (self.waiting or self.gone):
            return rows
        outdated = {*self.gone, *self.waiting}
        kept = (row for row in rows if row.queue << SEQ_BITS | row.seq not in outdated)
        return merge(kept, sorted([_record(place, each) for place, each in self.waiting.items()]))

    def recall(self, number: int, arrivals: bytes, deletions: bytes) -> None:
        """Count a row that a restart finds; raises ValueError if it makes no sense."""
        self._count(unpacked(arrivals), places_of(deletions))
        self._size += len(arrivals)
        self._numbers.append(number)
        self.skip(number)

    def skip(self, number: int) -> None:
        """Go on behind a batch."""
        self.number = max(self.number, number)

    def _count(self, arrivals: dict[int, Arrival], deletions: list[int]) -> None:
        waiting = self.waiting
        waiting.update(arrivals)
        for place in deletions:
            if waiting.pop(place, None) is None:
                self.gone.append(place)

    def _drop(self, queues: set[int]) -> None:
        """Leave out what is of queues that are emptied."""
        self.waiting = without(queues, self.waiting)
        self.gone = [place for place in self.gone if place >> SEQ_BITS not in queues]

    def _mark(self) -> Statement:
        """Return what says up to which batch the tables know everything."""
        number = PLACE.pack(self.number)
        return MARK, (number, crc32(number))

    def _row(self, changes: Changes) -> tuple[int, bytes, bytes, int]:
        number = self.number
        self._numbers.append(number)
        arrivals = packed(changes.arrivals)
        deletions = struct.pack(f">{len(changes.deletions)}q", *changes.deletions)
        return number, arrivals, deletions, crc32(deletions, crc32(arrivals))


def replay(connection: sqlite3.Connection, bytes_max: int, damages: list[str]) -> Journal:
    """Return the journal that the last run left; rows that cannot be replayed are noted."""
    journal = Journal(bytes_max)
    for number, arrivals, deletions, crc in connection.execute(ROWS).fetchall():
        cause = "its checksum is wrong"
        if crc32(deletions, crc32(arrivals)) == crc:
            if number == MARK_ROW and len(deletions) == PLACE_SIZE:
                journal.skip(PLACE.unpack(deletions)[0])
                continue
            try:
                journal.recall(number, arrivals, deletions)
                continue
            except ValueError as error:
                cause = str(error)
        journal.skip(number)
        if len(damages) < DAMAGES_MAX:
            held = _held(arrivals, dict(connection.execute(NAMES).fetchall()))
            damages.append(f"row {number} of the journal cannot be replayed: {cause}; {held}")
    journal.is_torn = bool(damages)
    return journal


def packed(arrivals: dict[int, Arrival]) -> bytes:
    """Write arrivals as one blob."""
    parts: list[bytes] = []
    pack = RECORD.pack
    for place, arrival in arrivals.items():
        group, size, expires_ms, priority, due_ms, kind, head, body = arrival
        name = group.encode()
        known_as = kind.encode()
        lengths = (len(known_as), len(name), len(head), len(body))
        parts.append(pack(place, size, expires_ms, due_ms, priority, *lengths))
        parts += (known_as, name, head, body)
    return b"".join(parts)


def unpacked(blob: bytes) -> dict[int, Arrival]:
    """Read arrivals back; raises ValueError if the blob holds anything else."""
    arrivals: dict[int, Arrival] = {}
    at = 0
    while at < len(blob):
        try:
            place, size, expires_ms, due_ms, priority, *lengths = RECORD.unpack_from(blob, at)
        except struct.error as error:
            raise ValueError(f"byte {at}: {error}") from error
        at += RECORD.size
        parts = []
        for length in lengths:
            parts.append(blob[at : at + length])
            at += length
        kind, group, head, body = parts
        arrivals[place] = (
            *(group.decode(), size, expires_ms, priority, due_ms),
            *(kind.decode(), head, body),
        )
    if at > len(blob):
        raise ValueError(f"its last message ends at byte {at}, and it has {len(blob)}")
    return arrivals


def _held(blob: bytes, names: dict[int, str]) -> str:
    """Say what a damaged row held, as far as it can be read: what no queue has is no message."""
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


def places_of(blob: bytes) -> list[int]:
    """Read the places of settled messages back; raises ValueError if the blob was cut."""
    if len(blob) % PLACE_SIZE:
        raise ValueError(f"{len(blob)} bytes of places")
    return list(struct.unpack(f">{len(blob) // PLACE_SIZE}q", blob))


def _record(place: int, arrival: Arrival) -> MessageRecord:
    group, size, expires_ms, priority, due_ms, _, _, _ = arrival
    queue, seq = place >> SEQ_BITS, place & SEQ_MASK
    return MessageRecord(queue, seq, group, 0, size, priority, expires_ms, due_ms)


def _fill_tables(found: list[Statement], arrivals: dict[int, Arrival]) -> int:
    """Add what inserts messages; return how many bytes they have."""
    filled = 0
    messages: list[int | str | bytes | None] = []
    bodies: list[int | str | bytes | None] = []
    for place, arrival in arrivals.items():
        group, size, expires_ms, priority, due_ms, kind, head, body = arrival
        crc = message_sum(group.encode(), size, expires_ms, priority, due_ms)
        messages += (place, group, 0, size, expires_ms, priority, due_ms, crc)
        bodies += (place, kind, head, body, crc32(body, crc32(head)))
        filled += len(head) + len(body)
    insert(found, "messages", MESSAGES, messages)
    insert(found, "bodies", BODIES, bodies)
    return filled
