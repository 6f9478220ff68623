"""PostgresEngine: writes batches to PostgreSQL, behind the fence of the lease.

As in SQLite's store, most messages are settled milliseconds after they came. So a commit writes one
row of a journal: all its arrivals in one blob, all settled places in another. That is one statement
and one round trip. When the journal is full, its living messages are copied to the tables (COPY),
in the same transaction that empties the journal (a *fold*).

- Messages that are in the journal alone are in memory, too (`_waiting`): bodies are read from
  there.
- A batch that changes rows of the tables (moves, retry counts, a queue emptied) folds.
- While a backlog grows, batches go to the tables at once for a while, so that messages are not
  written twice.
- Bodies of non-persistent messages that memory has no room for go to a temporary file of this
  machine. The file ends with the process.

A commit whose connection breaks is in doubt (`lease`). The writer tries the batch again, and first
asks the server whether the commit was done. All tries of a batch write the same: which one was done
cannot be told.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from heapq import merge
from typing import Any, Final
from zlib import crc32

import psycopg

from covey.core.errors import StoreBusyError, StoreError
from covey.core.storage.changes import (
    Changes,
    Definition,
    Forget,
    Remove,
    Reserve,
    Unbind,
    without,
)
from covey.core.storage.packing import (
    SEQ_BITS,
    SEQ_MASK,
    Arrival,
    packed,
    packed_places,
    place_of,
)
from covey.core.storage.postgres.lease import (
    FENCE,
    RECORDS_FENCE,
    ROW,
    Lease,
    is_passing,
    one_line,
)
from covey.core.storage.store import (
    DAMAGES_MAX,
    BodyRecord,
    DurableRecord,
    MessageRecord,
    NamedRecord,
    QueueRecord,
)
from covey.core.storage.writer import Engine

Statement = tuple[str, Sequence[Any]]

ROWS_MAX: Final = 4096  # living messages in the journal; with more it is folded
GONE_MAX: Final = 4096  # the same for settled messages that are still in the tables
JOURNAL_MAX: Final = 2 * 1024 * 1024  # bytes of messages in the journal: a fold must not take long
# If most of a full journal is still alive, so many times its size goes to the tables at once.
DIRECT: Final = 7

COPY_MESSAGES: Final = (
    "copy covey_messages (space, id, grp, deliveries, size, expires_ms, priority, due_ms)"
    " from stdin (format binary)"
)
MESSAGE_TYPES: Final = ("int4", "int8", "bytea", "int4", "int8", "int8", "int2", "int8")
COPY_BODIES: Final = (
    "copy covey_bodies (space, id, kind, head, body, crc) from stdin (format binary)"
)
BODY_TYPES: Final = ("int4", "int8", "text", "bytea", "bytea", "int8")
PLACED: Final = (("covey_messages", "id"), ("covey_bodies", "id"), ("covey_ids", "place"))
DEFINE: Final = """
    insert into covey_queues values (%s, %s, %s, %s, %s, %s, %s, %s, %s)
    on conflict (space, number) do update set
        host = excluded.host, kind = excluded.kind, name = excluded.name,
        next_seq = greatest(covey_queues.next_seq, excluded.next_seq),
        dropped_to = greatest(covey_queues.dropped_to, excluded.dropped_to),
        is_live = excluded.is_live, settings = excluded.settings
"""
BIND: Final = """
    insert into covey_durables values (%s, %s, %s, %s, %s, %s)
    on conflict (space, host, name) do update set destinations = excluded.destinations,
        selector = excluded.selector, not_from = excluded.not_from
"""
PUT: Final = """
    insert into covey_records values (%s, %s, %s, %s, %s)
    on conflict (space, host, kind, key) do update set value = excluded.value
"""
RETRY: Final = """
    update covey_messages m set deliveries = x.d
    from unnest(%s::bigint[], %s::int[]) as x (p, d) where m.space = %s and m.id = x.p
"""
DROP: Final = """
    update covey_queues set dropped_to = greatest(dropped_to, %s) where space = %s and number = %s
"""
IDS: Final = """
    insert into covey_ids select %s, p, d from unnest(%s::bigint[], %s::bytea[]) as x (p, d)
    on conflict (space, place) do update set digest = excluded.digest
"""
READ: Final = """
    select id, kind, head, body, crc from covey_bodies where space = %s and id = any(%s)
"""


class PostgresEngine(Engine):
    """Batches of one virtual host."""

    def __init__(self, lease: Lease, journal_size: int, damages: list[str]) -> None:
        self.lease = lease
        self._journal_size = min(journal_size, JOURNAL_MAX)
        self._damages = damages
        self._waiting: dict[int, Arrival] = {}  # living messages in the journal alone, by place
        self._gone: list[int] = []  # places of settled messages that are still in the tables
        self._size = 0  # bytes of messages in the journal, settled ones included
        self._direct = 0  # bytes of messages that are yet to go to the tables at once
        self._is_folding = False
        self._begun: Changes | None = None  # the batch that is being tried
        self._scratch = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._scratch.execute(
            "create table spilled (id integer primary key, kind text, head blob, body blob)"
        )

    # What a restart finds.

    def recall(self, arrivals: dict[int, Arrival], deletions: list[int]) -> None:
        """Take over a row of the journal that a restart finds."""
        self._count(arrivals, deletions)
        self._size += sum(len(each[6]) + len(each[7]) for each in arrivals.values())

    def messages(self, rows: Iterator[MessageRecord]) -> Iterator[MessageRecord]:
        """Walk all messages: unsettled ones of the tables (`rows`), and those of the journal."""
        if not (self._waiting or self._gone):
            return rows
        outdated = {*self._gone, *self._waiting}
        kept = (row for row in rows if row.queue << SEQ_BITS | row.seq not in outdated)
        return merge(kept, sorted([_record(*each) for each in self._waiting.items()]))

    # The thread's calls.

    def commit(self, changes: Changes) -> None:
        """Make a batch durable, all of it or nothing."""
        self._spill(changes)
        has_messages = bool(changes.arrivals or changes.deletions)
        if not (has_messages or changes.is_lasting or changes.names_rows):
            return
        if self._begun is not changes:
            self._begin(changes)
        if not self.lease.settle():
            self._write(changes)
        self._written()

    def fold(self) -> None:
        """Put everything into the tables."""
        if self._waiting or self._gone:
            if not self.lease.settle():
                self._is_folding = True
                self._transact(Changes())
            self._written()

    def read(self, places: list[int]) -> list[BodyRecord]:
        """Return the bodies at these places; those that are missing or damaged are left out."""
        found: list[BodyRecord] = []
        rest: list[int] = []
        for place in places:
            arrival = self._waiting.get(place)
            if arrival is None:
                rest.append(place)
            else:
                found.append(BodyRecord(place >> SEQ_BITS, place & SEQ_MASK, *arrival[5:]))
        if rest:
            rest = self._read_spilled(rest, found)
        if rest:
            self._read_rows(rest, found)
        return found

    def tidy(self) -> bool:
        """Do nothing: the server does such work itself."""
        return False

    def shortage(self) -> str:
        """Return "": a server without room refuses a commit, which is then tried again."""
        return ""

    def look(self) -> None:
        """Renew the lease, if it is due."""
        self.lease.renew()

    def make_room(self) -> None:
        """Do nothing: this broker cannot free the server's space."""

    def finish(self) -> None:
        """Put everything into the tables, and let another broker have the virtual host."""
        self.fold()
        self.lease.leave()

    def close(self) -> None:
        """Let go of the connection."""
        self.lease.close()
        self._scratch.close()

    # Writing.

    def _begin(self, changes: Changes) -> None:
        """Take a batch in, and decide how it is written, however often it is tried."""
        self._begun = changes
        if changes.emptied:
            self._waiting = without(changes.emptied, self._waiting)
            self._gone = [one for one in self._gone if one >> SEQ_BITS not in changes.emptied]
        self._count(changes.arrivals, changes.deletions)
        size = self._size + changes.size
        is_full = size > self._journal_size
        is_long = len(self._waiting) > ROWS_MAX or len(self._gone) > GONE_MAX
        self._is_folding = is_full or is_long or self._direct > 0 or changes.names_rows
        if self._direct > 0:
            self._direct -= changes.size
        elif is_full and 2 * sum(len(each[7]) for each in self._waiting.values()) > size:
            self._direct = DIRECT * self._journal_size
        self._size = size

    def _write(self, changes: Changes) -> None:
        if self._is_folding or changes.is_lasting:
            self._transact(changes)
        else:
            self._add_row(changes)

    def _add_row(self, changes: Changes) -> None:
        """Write one row of the journal, with the fence in the same statement."""
        sent = self.lease.clock()
        try:
            with self.lease.connection.cursor(binary=True) as cursor:
                cursor.execute(ROW, (*self.lease.hold, *self._row(changes)))
                count = cursor.rowcount
        except psycopg.Error as error:
            self.lease.failed(error)
            return
        if count == 1:
            self.lease.committed(sent)
        else:
            self.lease.failed(None)

    def _transact(self, changes: Changes) -> None:
        """Write a batch in one transaction; the fence is its last statement, sent with COMMIT."""
        connection = self.lease.connection
        told = [each for each in changes.definitions if isinstance(each, NamedRecord | Remove)]
        fence = RECORDS_FENCE if told else FENCE
        sent = self.lease.clock()
        try:
            with connection.transaction():
                with connection.pipeline():
                    for text, values in self._emptyings(changes):
                        connection.execute(text, values)
                if self._is_folding:
                    self._copy()
                with connection.pipeline():
                    for text, values in self._statements(changes):
                        connection.execute(text, values)
                    connection.execute(fence, self.lease.hold)
        except psycopg.Error as error:
            self.lease.failed(error)
            return
        self.lease.committed(sent)

    def _written(self) -> None:
        """Called when a commit was done: after a fold the journal is empty."""
        self._begun = None
        if self._is_folding:
            self._waiting, self._gone, self._size, self._is_folding = {}, [], 0, False

    def _row(self, changes: Changes) -> tuple[int, int, int, bytes, bytes, int]:
        arrivals = packed(changes.arrivals)
        deletions = packed_places(changes.deletions)
        lease = self.lease
        crc = crc32(deletions, crc32(arrivals))
        return (lease.number, lease.tail + 1, lease.epoch, arrivals, deletions, crc)

    def _emptyings(self, changes: Changes) -> list[Statement]:
        space = self.lease.number
        found: list[Statement] = []
        for queue in changes.emptied:
            ends = (space, place_of(queue, 0), place_of(queue, SEQ_MASK))
            for table, column in PLACED:
                text = f"delete from {table} where space = %s and {column} between %s and %s"
                found.append((text, ends))
            if self._scratch is not None:
                self._scratch.execute("delete from spilled where id between ? and ?", ends[1:])
        return found

    def _copy(self) -> None:
        """Copy the living messages of the journal into the tables."""
        if not self._waiting:
            return
        space = self.lease.number
        with self.lease.connection.cursor() as cursor:
            with cursor.copy(COPY_MESSAGES) as out:
                out.set_types(MESSAGE_TYPES)
                for place, each in self._waiting.items():
                    group = each[0].encode("utf-8", "surrogatepass")
                    out.write_row((space, place, group, 0, *each[1:5]))
            with cursor.copy(COPY_BODIES) as out:
                out.set_types(BODY_TYPES)
                for place, each in self._waiting.items():
                    out.write_row((space, place, *each[5:], crc32(each[7], crc32(each[6]))))

    def _statements(self, changes: Changes) -> list[Statement]:
        space = self.lease.number
        found: list[Statement] = []
        for old, new in changes.moves.items():
            for table in ("covey_messages", "covey_bodies"):
                text = f"update {table} set id = %s where space = %s and id = %s"
                found.append((text, (new, space, old)))
        if changes.retries:
            retries = changes.retries
            found.append((RETRY, (list(retries), list(retries.values()), space)))
        if self._is_folding:
            if self._gone:
                for table in ("covey_messages", "covey_bodies"):
                    text = f"delete from {table} where space = %s and id = any(%s)"
                    found.append((text, (space, self._gone)))
            text = "delete from covey_journal where space = %s"
            found.append((text, (space,)))
        elif changes.arrivals or changes.deletions:
            text = "insert into covey_journal values (%s, %s, %s, %s, %s, %s)"
            found.append((text, self._row(changes)))
        found += self._others(changes)
        return found

    def _others(self, changes: Changes) -> list[Statement]:
        space = self.lease.number
        found: list[Statement] = []
        for queue, below in changes.forgotten.items():
            text = "delete from covey_ids where space = %s and place >= %s and place < %s"
            found.append((text, (space, place_of(queue, 0), place_of(queue, below))))
        if changes.ids:
            found.append((IDS, (space, list(changes.ids), list(changes.ids.values()))))
        found += [self._definition(each) for each in changes.definitions]
        found += [(DROP, (to, space, queue)) for queue, to in changes.drops.items()]
        return found

    def _definition(self, record: Definition) -> Statement:
        """Return the statement that carries out a definition."""
        space = self.lease.number
        if isinstance(record, QueueRecord):
            kept = (record.is_live, record.settings, record.dropped_to)
            named = (record.host, record.kind, encoded(record.name), record.next_seq)
            return DEFINE, (space, record.number, *named, *kept)
        if isinstance(record, Reserve):
            text = "update covey_queues set next_seq = greatest(next_seq, %s)"
            return f"{text} where space = %s and number = %s", (
                record.next_seq,
                space,
                record.queue,
            )
        if isinstance(record, Forget):
            text = "delete from covey_queues where space = %s and number = %s"
            return text, (space, record.queue)
        if isinstance(record, DurableRecord):
            heard = json.dumps(record.destinations)
            texts = [encoded(each) for each in (record.name, heard, record.selector)]
            return BIND, (space, record.host, *texts, encoded(record.not_from))
        if isinstance(record, Unbind):
            text = "delete from covey_durables where space = %s and host = %s and name = %s"
            return text, (space, record.host, encoded(record.name))
        if isinstance(record, NamedRecord):
            host, kind, key, value = record
            return PUT, (space, host, kind, encoded(key), encoded(value))
        assert isinstance(record, Remove)
        text = "delete from covey_records where space = %s and host = %s and kind = %s and key = %s"
        return text, (space, record.host, record.kind, encoded(record.key))

    def _count(self, arrivals: dict[int, Arrival], deletions: list[int]) -> None:
        self._waiting.update(arrivals)
        for place in deletions:
            if self._waiting.pop(place, None) is None:
                self._gone.append(place)

    # Bodies.

    def _spill(self, changes: Changes) -> None:
        """Keep bodies of non-persistent messages on this machine; doing it twice is harmless."""
        if changes.spills:
            rows = [each[:4] for each in changes.spills.values()]
            self._scratch.executemany("insert or replace into spilled values (?, ?, ?, ?)", rows)
        if changes.unspills:
            gone = [(place,) for place in changes.unspills]
            self._scratch.executemany("delete from spilled where id = ?", gone)

    def _read_spilled(self, places: list[int], found: list[BodyRecord]) -> list[int]:
        rest: list[int] = []
        for place in places:
            row = self._scratch.execute(
                "select kind, head, body from spilled where id = ?", (place,)
            ).fetchone()
            if row is None:
                rest.append(place)
            else:
                found.append(BodyRecord(place >> SEQ_BITS, place & SEQ_MASK, *row))
        return rest

    def _read_rows(self, places: list[int], found: list[BodyRecord]) -> None:
        try:
            self.lease.reconnect()
            with self.lease.connection.cursor(binary=True) as cursor:
                rows = cursor.execute(READ, (self.lease.number, places)).fetchall()
        except psycopg.Error as error:
            if self.lease.connection.closed or is_passing(error):
                raise StoreBusyError(one_line(error)) from error
            raise StoreError(one_line(error)) from error
        for place, kind, head, body, crc in rows:
            if crc32(body, crc32(head)) == crc:
                found.append(BodyRecord(place >> SEQ_BITS, place & SEQ_MASK, kind, head, body))
            elif len(self._damages) < DAMAGES_MAX:
                self._damages.append(f"message {place & SEQ_MASK} of queue {place >> SEQ_BITS}")


def _record(place: int, arrival: Arrival) -> MessageRecord:
    group, size, expires_ms, priority, due_ms, _, _, _ = arrival
    queue, seq = place >> SEQ_BITS, place & SEQ_MASK
    return MessageRecord(queue, seq, group, 0, size, priority, expires_ms, due_ms)


def encoded(text: str) -> bytes:
    """Return a text as bytes; it may have any character, even a lone surrogate."""
    return text.encode("utf-8", "surrogatepass")
