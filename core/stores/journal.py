"""Journal: what the last commits wrote, before it is worth a place in the tables.

Most messages are settled milliseconds after they came. So a commit writes *one* row here, all its
arrivals packed into one blob and all that was settled into another: a third of the work of two rows
for each message and their removal. When the journal is full, the tables get what is still alive, in
the same transaction that empties it (a *fold*). Rules:

- What is in the journal alone is in memory, too (`waiting`): bodies are read from there.
- A batch that names rows of the tables (moves, retry counts, a queue emptied), or that is as large
  as the journal, folds first and goes to the tables itself, in one transaction.
- A restart replays the rows in their order, and folds. A row whose checksum is wrong is reported
  and stays on the disk; the others count.

An arrival in a blob: `RECORD`, then its kind, group, head and body.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from array import array
from typing import Final
from zlib import crc32

from covey.core.stores.base import DAMAGES_MAX, BodyRecord
from covey.core.stores.changes import DELETE, Arrival, Changes, Statement, carry_out, insert
from covey.core.stores.schema import BODIES, MESSAGES, SEQ_BITS, SEQ_MASK

JOURNAL_BYTES: Final = 2 * 1024 * 1024  # less folds what is about to be settled, more stalls longer
ROWS_MAX: Final = 4096  # to be put into the tables and taken out of them by one fold, for 20 ms

# Place, size, expiry, time due, priority; the lengths of kind, group, head and body.
RECORD: Final = struct.Struct(">qqqqBBIII")

ADD: Final = "insert into journal values (?, ?, ?, ?)"
REMOVE: Final = "delete from journal where number in (select value from json_each(?))"
# As blobs: a damaged row may say that they are something else.
ROWS: Final = """
    select number, cast(arrivals as blob), cast(deletions as blob), crc from journal order by number
"""
LAST: Final = "select coalesce(max(number), 0) from journal"


class Journal:
    """The rows of the journal, as far as the tables do not know what they say."""

    __slots__ = ("_next", "_numbers", "_size", "bytes_max", "gone", "waiting")

    def __init__(self, next_number: int = 1) -> None:
        self.bytes_max = JOURNAL_BYTES
        self._next = next_number
        self._numbers: list[int] = []
        self._size = 0  # bytes of messages in these rows, settled ones too
        self.waiting: dict[int, Arrival] = {}  # alive and not in the tables yet, by place
        self.gone: list[int] = []  # settled and in the tables still

    def take(self, changes: Changes) -> list[Statement]:
        """Return what makes a batch durable, in one transaction; it must not fail for good."""
        self._count(changes.arrivals, changes.deletions)
        rows = len(self.waiting) + len(self.gone)
        size = self._size + changes.size
        if changes.names_rows or size > self.bytes_max or rows > ROWS_MAX:
            return self.fold(changes)
        found: list[Statement] = []
        if changes.arrivals or changes.deletions:
            found.append((ADD, self._row(changes)))
            self._size = size
        return found + changes.others()

    def fold(self, changes: Changes) -> list[Statement]:
        """Return what puts everything into the tables; the batch has been counted before."""
        found: list[Statement] = []
        _fill_tables(found, self.waiting)
        found += changes.renumberings()
        if self.gone:
            found.append((DELETE, (json.dumps(self.gone),)))
        found += changes.others()
        if self._numbers:
            found.append((REMOVE, (json.dumps(self._numbers),)))
        self._numbers, self._size, self.waiting, self.gone = [], 0, {}, []
        return found

    def bodies(self, places: list[int]) -> list[BodyRecord]:
        """Return those of the bodies asked for that are here."""
        waiting = self.waiting
        here = [place for place in places if place in waiting]
        return [
            BodyRecord(place >> SEQ_BITS, place & SEQ_MASK, *waiting[place][5:]) for place in here
        ]

    def recall(self, number: int, arrivals: bytes, deletions: bytes) -> None:
        """Count a row that a restart finds; raises ValueError if it makes no sense."""
        gone = array("q")
        gone.frombytes(deletions)
        self._count(unpacked(arrivals), gone.tolist())
        self._numbers.append(number)

    def _count(self, arrivals: dict[int, Arrival], deletions: list[int]) -> None:
        waiting = self.waiting
        waiting.update(arrivals)
        for place in deletions:
            if waiting.pop(place, None) is None:
                self.gone.append(place)

    def _row(self, changes: Changes) -> tuple[int, bytes, bytes, int]:
        number = self._next
        self._next = number + 1
        self._numbers.append(number)
        arrivals = packed(changes.arrivals)
        deletions = array("q", changes.deletions).tobytes()
        return number, arrivals, deletions, crc32(deletions, crc32(arrivals))


def replay(connection: sqlite3.Connection, damages: list[str]) -> Journal:
    """Put what the journal holds into the tables at start; return the one to go on with."""
    journal = Journal()
    for number, arrivals, deletions, crc in connection.execute(ROWS).fetchall():
        cause = "its checksum is wrong"
        if crc32(deletions, crc32(arrivals)) == crc:
            try:
                journal.recall(number, arrivals, deletions)
                continue
            except ValueError as error:
                cause = str(error)
        if len(damages) < DAMAGES_MAX:
            damages.append(f"row {number} of the journal cannot be replayed: {cause}")
    if damages:  # a torn row that salvage could read may have the number of one of these
        connection.execute(DELETE, (json.dumps(list(journal.waiting)),))
    carry_out(connection, journal.fold(Changes()))
    (last,) = connection.execute(LAST).fetchone()
    return Journal(last + 1)


def packed(arrivals: dict[int, Arrival]) -> bytes:
    """Write arrivals as one blob."""
    parts: list[bytes] = []
    for place, arrival in arrivals.items():
        group, size, expires_ms, priority, due_ms, kind, head, body = arrival
        name = group.encode()
        known_as = kind.encode()
        lengths = (len(known_as), len(name), len(head), len(body))
        parts.append(RECORD.pack(place, size, expires_ms, due_ms, priority, *lengths))
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


def _fill_tables(found: list[Statement], arrivals: dict[int, Arrival]) -> None:
    messages: list[int | str | bytes | None] = []
    bodies: list[int | str | bytes | None] = []
    for place, arrival in arrivals.items():
        group, size, expires_ms, priority, due_ms, kind, head, body = arrival
        messages += (place, group, 0, size, expires_ms, priority, due_ms)
        bodies += (place, kind, head, body, crc32(body, crc32(head)))
    insert(found, "messages", MESSAGES, messages)
    insert(found, "bodies", BODIES, bodies)
