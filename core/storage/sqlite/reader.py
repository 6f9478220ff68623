# Compiled by mypyc: see setup.py.
"""Reader: what the SQLite store gives back: a restart's records, and pages of bodies.

A page is read as *one* row: SQLite joins the heads and bodies into one blob and their lengths into
one text. Fetching row by row would release the interpreter lock for each row, and beside a busy
event loop a page of 256 would take 256 switch intervals. (A blob cast to text and back stays the
same, byte for byte: the SQLite manual, CAST expressions.)

Every row is checked against its checksum, since SQLite has none of its own. A damaged row is
reported with its place and is not handed out. It stays on the disk for whoever repairs it. A
damaged row may have any content, even a wrong length. Then all bodies that were joined behind it
are wrong, too. So a page that fails a check is read again, each body by itself.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterator
from itertools import chain
from typing import Final
from zlib import crc32

from covey.core.storage.packing import MESSAGE_NUMBERS, SEQ_BITS, SEQ_MASK, row_sum
from covey.core.storage.sqlite.schema import fold_mark
from covey.core.storage.store import (
    DAMAGES_MAX,
    BodyRecord,
    DurableRecord,
    IdRecord,
    MessageRecord,
    NamedRecord,
    QueueRecord,
)

# Texts are read as blobs: a damaged one may not be valid text.
QUEUES: Final = """
    select number, cast(host as blob), cast(kind as blob), cast(name as blob),
        cast(settings as blob), cast(next_seq as integer), is_live, cast(dropped_to as integer), crc
    from queues
"""
DURABLES: Final = """
    select cast(host as blob), cast(name as blob), cast(destinations as blob),
        cast(selector as blob), crc
    from durables
"""
RECORDS: Final = """
    select cast(host as blob), cast(kind as blob), cast(key as blob), cast(value as blob), crc
    from records
"""
# SQLite takes its lock twice for each number of each row. So a row's numbers come as two, if they
# are as small as almost all are: checksum and size, expiry and priority. Else the first is null.
MESSAGES: Final = """
    select id, cast(grp as blob),
        case when ((size >> 30) | (priority >> 4) | (expires_ms >> 57) | (crc >> 32)
            | deliveries | due_ms) = 0 then (crc << 30) | size end,
        (expires_ms << 4) | priority
    from messages order by id
"""
WIDE: Final = """
    select id, cast(grp as blob), cast(deliveries as integer),
        size, priority, expires_ms, due_ms, crc
    from messages where id between ? and ? order by id
"""
SIZE_BITS: Final = 30
SIZE_MASK: Final = (1 << SIZE_BITS) - 1
PRIORITY_BITS: Final = 4
PRIORITY_MASK: Final = (1 << PRIORITY_BITS) - 1
ROWS: Final = 1000  # messages fetched at a time
NAMES_MAX: Final = 100_000  # group ids whose texts and checksums are kept while messages are read
IDS: Final = "select place >> ?, place & ?, digest from ids order by place"
FIELDS: Final = 5  # of each body in the text: place, kind, two lengths, checksum
JOINED: Final = """
    select
        cast(group_concat(id || ' ' || kind || ' ' || length(head) || ' ' || length(body)
            || ' ' || crc, ' ') as blob),
        cast(group_concat(head || body, '') as blob)
"""
PAGE: Final = (
    JOINED
    + """
    from (
        select b.* from json_each(?1) as wanted cross join bodies as b on b.id = wanted.value
        union all
        select s.* from json_each(?1) as wanted
            cross join scratch.spilled as s on s.id = wanted.value
    )
"""
)
# For places without a gap, such as a browser reads: one walk instead of a search for each place.
RANGE: Final = (
    JOINED
    + """
    from (
        select * from bodies where id between ?1 and ?2
        union all
        select * from scratch.spilled where id between ?1 and ?2
    )
"""
)


def check_schema(connection: sqlite3.Connection) -> None:
    """Raise sqlite3.Error if the tables lack what the queries need: the first page is damaged."""
    for query in (QUEUES, DURABLES, RECORDS, "delete from messages where id in (1, 2)"):
        connection.execute(f"explain {query}")
    connection.execute(f"explain {MESSAGES}")
    for query in (IDS, RANGE, WIDE):
        connection.execute(f"explain {query}", (SEQ_BITS, SEQ_MASK))


def read_queues(connection: sqlite3.Connection, damages: list[str]) -> list[QueueRecord]:
    """Return every queue, swept ones included; those that are damaged are noted instead."""
    queues: list[QueueRecord] = []
    rows = connection.execute(QUEUES).fetchall()
    for number, *columns, next_seq, is_live, dropped_to, crc in rows:
        host, kind, name, settings = texts = _texts(*columns)
        if crc is None or crc == row_sum(*texts, str(is_live)):
            queues.append(
                QueueRecord(number, host, kind, name, next_seq, bool(is_live), settings, dropped_to)
            )
        else:
            _note(damages, f"queue number {number}, perhaps called {name}")
    return queues


def read_durables(connection: sqlite3.Connection, damages: list[str]) -> list[DurableRecord]:
    """Return every durable subscription; those that are damaged are noted instead."""
    durables: list[DurableRecord] = []
    for *columns, crc in connection.execute(DURABLES).fetchall():
        host, name, destinations, selector = texts = _texts(*columns)
        if crc is None or crc == row_sum(*texts):
            heard = json.loads(destinations)
            not_from = ""
            if isinstance(heard, dict):
                heard, not_from = heard["destinations"], heard["not_from"]
            durables.append(DurableRecord(host, name, tuple(heard), selector, not_from))
        else:
            _note(damages, f"durable subscription, perhaps called {name}")
    return durables


def read_records(connection: sqlite3.Connection, damages: list[str]) -> list[NamedRecord]:
    """Return every named record; those that are damaged are noted instead."""
    records: list[NamedRecord] = []
    for *columns, crc in connection.execute(RECORDS).fetchall():
        texts = _texts(*columns)
        if crc == row_sum(*texts):
            records.append(NamedRecord._make(texts))
        else:
            _note(damages, f"a record of kind {texts[1]}, perhaps called {texts[2]}")
    return records


def read_folded(connection: sqlite3.Connection) -> int:
    """Return up to which batch of the journal the tables know everything; 0 if they do not say."""
    row = connection.execute("select value, crc from marks where name = 'folded'").fetchone()
    if row is None or row != fold_mark(row[0]):
        return 0
    return int(row[0])


def read_messages(connection: sqlite3.Connection, damages: list[str]) -> Iterator[MessageRecord]:
    """Walk all messages without their bodies, queue by queue, ascending; damaged ones are noted."""
    return chain.from_iterable(_Rows(connection, damages).batches())


class _Rows:
    """The rows of messages; there may be millions, so little is done for each."""

    __slots__ = ("connection", "cursor", "damages", "names")

    def __init__(self, connection: sqlite3.Connection, damages: list[str]) -> None:
        self.connection = connection
        self.cursor = connection.execute(MESSAGES)
        self.damages = damages
        self.names: dict[bytes, tuple[str, int]] = {}  # each group's text and its bytes' checksum

    def batches(self) -> Iterator[list[MessageRecord]]:
        """Read some rows after the others; those that are damaged are noted instead."""
        while rows := self.cursor.fetchmany(ROWS):
            found = self._small(rows)
            if found is None:
                found = self._wide(rows[0][0], rows[len(rows) - 1][0])
            yield found

    def _small(self, rows: list[tuple[int, bytes, int | None, int]]) -> list[MessageRecord] | None:
        """Return the messages of rows; None: one is damaged, or its numbers are not small.

        The checksum is over values. So a number that is stored as text is no damage here.
        """
        found: list[MessageRecord] = []
        names = self.names
        # Compiled code looks these up each time that it meets them.
        pack, checksum, make, kind = MESSAGE_NUMBERS.pack, crc32, tuple.__new__, MessageRecord
        try:
            for place, group, sum_and_size, times in rows:
                known = names.get(group)
                if known is None:
                    known = self._name(group)
                name, begun = known
                if sum_and_size is None:
                    return None
                size = sum_and_size & SIZE_MASK
                expires_ms, priority = times >> PRIORITY_BITS, times & PRIORITY_MASK
                numbers = pack(size, expires_ms, priority, 0)
                if sum_and_size >> SIZE_BITS != checksum(numbers, begun):
                    return None
                queue, seq = place >> SEQ_BITS, place & SEQ_MASK
                record = (queue, seq, name, 0, size, priority, expires_ms, 0)
                found.append(make(kind, record))  # its own call costs thrice that
        except (TypeError, ValueError):  # a group that is no text
            return None
        return found

    def _wide(self, first: int, last: int) -> list[MessageRecord]:
        """Return the messages of rows between two places whose checksum is right."""
        found: list[MessageRecord] = []
        names = self.names
        pack = MESSAGE_NUMBERS.pack
        rows = self.connection.execute(WIDE, (first, last)).fetchall()
        for place, group, deliveries, size, priority, expires_ms, due_ms, crc in rows:
            known = names.get(group) if isinstance(group, bytes) else None
            try:
                if known is None:
                    known = self._name(group)
                name, begun = known
                numbers = pack(size, expires_ms, priority, due_ms)
                is_sound = crc is None or crc == crc32(numbers, begun)
            except (TypeError, ValueError, struct.error):  # not even of the right type
                is_sound = False
            queue, seq = place >> SEQ_BITS, place & SEQ_MASK
            if is_sound:
                record = (queue, seq, name, deliveries, size, priority, expires_ms, due_ms)
                found.append(tuple.__new__(MessageRecord, record))
            else:
                _note(self.damages, f"message {seq} of queue number {queue}")
        return found

    def _name(self, group: bytes) -> tuple[str, int]:
        known = group.decode(), crc32(group)
        if len(self.names) < NAMES_MAX:
            self.names[group] = known
        return known


def read_ids(connection: sqlite3.Connection) -> Iterator[IdRecord]:
    """Walk all remembered message ids, queue by queue, ascending."""
    return map(IdRecord._make, connection.execute(IDS, (SEQ_BITS, SEQ_MASK)))


def read_page(
    connection: sqlite3.Connection, places: list[int], damages: list[str]
) -> list[BodyRecord]:
    """Return the bodies at these places; those that are damaged are noted instead."""
    found = _read(connection, places)
    if found is not None:
        return found
    if len(places) > 1:
        return [body for place in places for body in read_page(connection, [place], damages)]
    _note(damages, f"message {places[0] & SEQ_MASK} of queue number {places[0] >> SEQ_BITS}")
    return []


def _read(connection: sqlite3.Connection, places: list[int]) -> list[BodyRecord] | None:
    """Return the bodies at these places, None if one of them is damaged."""
    if _is_run(places):
        heading, content = connection.execute(RANGE, (places[0], places[-1])).fetchone()
    else:
        heading, content = connection.execute(PAGE, (json.dumps(places),)).fetchone()
    if heading is None:
        return None if content else []
    try:
        return _cut(heading.decode().split(" "), content)
    except (ValueError, IndexError):
        return None


def _cut(fields: list[str], content: bytes) -> list[BodyRecord]:
    """Cut a page into bodies; raises ValueError or IndexError if a check fails."""
    bodies: list[BodyRecord] = []
    start = 0
    for at in range(0, len(fields), FIELDS):
        place = int(fields[at])
        middle = start + int(fields[at + 2])
        end = middle + int(fields[at + 3])
        if not start <= middle <= end:
            raise ValueError("a length below 0")
        head, body = content[start:middle], content[middle:end]
        start = end
        if crc32(body, crc32(head)) != int(fields[at + 4]):
            raise ValueError("checksum")
        bodies.append(BodyRecord(place >> SEQ_BITS, place & SEQ_MASK, fields[at + 1], head, body))
    if start != len(content):
        raise ValueError("length")
    return bodies


def _is_run(places: list[int]) -> bool:
    """Return True if places follow each other without a gap."""
    if not places or places[-1] - places[0] != len(places) - 1:
        return False
    return places == list(range(places[0], places[-1] + 1))


def _texts(*columns: bytes) -> list[str]:
    """Decode texts; one that cannot be decoded will fail its checksum."""
    return [column.decode("utf-8", "replace") for column in columns]


def _note(damages: list[str], what: str) -> None:
    if len(damages) < DAMAGES_MAX:
        damages.append(f"{what}: its checksum is wrong")
