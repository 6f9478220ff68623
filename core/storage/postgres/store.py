"""PostgresStore: a virtual host's messages in PostgreSQL.

Opening the store takes the lease of the virtual host (`core.storage.postgres.lease`), or raises
`OwnedError` if another broker has the lease. `core.storage.cluster` decides which broker should
have it.

The store waits for a server that is still starting. Trouble that waiting cannot mend ends the start
with one line: a wrong password, a database that is not there, tables of a newer release.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any, Final
from zlib import crc32

import psycopg

from covey.config.settings import ClusterSettings, StoreSettings
from covey.core.errors import OwnedError, StoreError
from covey.core.storage.packing import SEQ_BITS, SEQ_MASK, places_of, unpacked
from covey.core.storage.postgres.engine import PostgresEngine
from covey.core.storage.postgres.idle import IdleLeases
from covey.core.storage.postgres.lease import Lease, connect, one_line, pause
from covey.core.storage.postgres.schema import Connection, look_at_server, prepare
from covey.core.storage.store import (
    DAMAGES_MAX,
    DurableRecord,
    IdRecord,
    MessageRecord,
    NamedRecord,
    QueueRecord,
)
from covey.core.storage.threaded import ThreadedStore
from covey.core.storage.writer import Notify

PIECE: Final = 5_000  # rows read at a time at a start; the lease is renewed in between
WAIT_S: Final = 0.5  # between two tries to connect to the server
# Words in libpq's messages, which have no code, about a server that may answer later.
PASSING: Final = (
    *("refused", "starting up", "timeout", "timed out", "shutting down", "too many", "no route"),
    *("recovery", "closed"),
)
HOPELESS: Final = ("28", "3D", "3F", "42")  # classes of errors for which waiting is no help
INCARNATION: Final = secrets.token_hex(16)  # tells this process from others of the same name

Say = Callable[[str], None]
Clock = Callable[[], float]


class PostgresStore(ThreadedStore):
    """Persistent messages that outlive this machine."""

    def __init__(
        self,
        settings: StoreSettings,
        cluster: ClusterSettings,
        space: str,
        notify: Notify,
        say: Say,
        clock: Clock,
        *,
        idle: IdleLeases | None = None,
    ) -> None:
        """Take the lease, and bring what the last owner left in the journal into the tables.

        `say` gets lines for the log: what the server is, and what is waited for. `clock` is the
        monotonic clock. With `idle` the server is not checked, since that was done before, and the
        virtual host has no connection of its own while nothing happens to it.
        """
        damages: list[str] = []
        if idle is None:
            connected(settings, cluster, say).close()
        lease = _lease(settings, cluster, space, clock, idle)
        try:
            _take(lease)
            engine = PostgresEngine(lease, settings.journal_size, damages)
            _replay(lease, engine, damages)
        except BaseException:
            lease.close()
            raise
        self._lease = lease
        self._engine = engine
        super().__init__(f"PostgreSQL, virtual host {space}", engine, notify)
        self.damages = damages

    def valid_until(self) -> float:
        """Return until when no other broker can have the virtual host, by the monotonic clock."""
        return self._lease.valid_until

    def renew(self) -> None:
        """Renew the lease; the event loop calls this, so a loop that hangs loses the lease."""
        self._writer.look()

    def rest(self) -> None:
        """Called when all was read that a start reads: the lease may rest."""
        self._lease.rest()
        self._writer.look()

    def queues(self) -> list[QueueRecord]:
        """Return every queue, swept ones included."""
        rows = self._rows(
            "select number, host, kind, name, next_seq, is_live, settings, dropped_to"
            " from covey_queues where space = %s order by number"
        )
        return [
            QueueRecord(number, host, kind, decoded(name), *rest)
            for number, host, kind, name, *rest in rows
        ]

    def durables(self) -> list[DurableRecord]:
        """Return every durable subscription."""
        rows = self._rows(
            "select host, name, destinations, selector, not_from from covey_durables"
            " where space = %s order by host, name"
        )
        return [
            DurableRecord(
                host, decoded(name), tuple(json.loads(heard)), decoded(selector), decoded(not_from)
            )
            for host, name, heard, selector, not_from in rows
        ]

    def records(self) -> list[NamedRecord]:
        """Return every named record."""
        rows = self._rows("select host, kind, key, value from covey_records where space = %s")
        return [
            NamedRecord(host, kind, decoded(key), decoded(value)) for host, kind, key, value in rows
        ]

    def messages(self) -> Iterator[MessageRecord]:
        """Walk all messages, queue by queue, ascending."""
        return self._engine.messages(self._table())

    def _table(self) -> Iterator[MessageRecord]:
        """Walk the table of messages."""
        for place, group, *rest in self._walk(
            "select id, grp, deliveries, size, priority, expires_ms, due_ms"
            " from covey_messages where space = %s and id > {last} order by id limit {piece}"
        ):
            yield MessageRecord(place >> SEQ_BITS, place & SEQ_MASK, decoded(group), *rest)

    def ids(self) -> Iterator[IdRecord]:
        """Walk all remembered message ids, queue by queue, ascending."""
        for place, digest in self._walk(
            "select place, digest from covey_ids where space = %s and place > {last}"
            " order by place limit {piece}"
        ):
            yield IdRecord(place >> SEQ_BITS, place & SEQ_MASK, digest)

    def _walk(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Read a table in pieces; the lease is renewed in between, so a long walk keeps it.

        Rows begin with the key that they are ordered by.
        """
        last = -1
        while True:
            rows = self._rows(query.format(last=last, piece=PIECE))
            yield from rows
            if len(rows) < PIECE:
                return
            last = rows[-1][0]
            self.renew()

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        try:
            with self._lease.connection.cursor(binary=True) as cursor:
                return cursor.execute(query, (self._lease.number,)).fetchall()
        except psycopg.Error as error:
            raise StoreError(f"PostgreSQL cannot be read: {one_line(error)}") from error


def connected(settings: StoreSettings, cluster: ClusterSettings, say: Say) -> Connection:
    """Connect, check that the server can be trusted, and make the tables if need be.

    Waits for a server that does not answer yet.
    """
    is_told = False
    while True:
        try:
            connection = connect(settings.dsn, cluster.lease_s)
            break
        except psycopg.Error as error:
            if (error.sqlstate or "")[:2] in HOPELESS or not _may_pass(error):
                raise _refused(settings.dsn, error) from error
            if not is_told:
                say(f"waiting for PostgreSQL: {one_line(error)}")
            is_told = True
            pause(WAIT_S)
    try:
        _check_server(connection, settings, say)
    except psycopg.Error as error:
        connection.close()
        raise _refused(settings.dsn, error) from error
    except StoreError:
        connection.close()
        raise
    return connection


def _check_server(connection: Connection, settings: StoreSettings, say: Say) -> None:
    found, unsafe = look_at_server(connection)
    say(found)
    if unsafe and not settings.allow_unsafe:
        raise StoreError(
            f"{found}: {'; '.join(unsafe)}. allow_unsafe = true in [store] goes on nevertheless"
        )
    for reason in unsafe:
        say(f"unsafe, and allowed: {reason}")
    prepare(connection)


def _lease(
    settings: StoreSettings,
    cluster: ClusterSettings,
    space: str,
    clock: Clock,
    idle: IdleLeases | None,
) -> Lease:
    try:
        return Lease(settings.dsn, space, cluster.name, INCARNATION, cluster.lease_s, clock, idle)
    except psycopg.Error as error:
        raise _refused(settings.dsn, error) from error


def _take(lease: Lease) -> None:
    """Take the lease; raises OwnedError if another broker has it."""
    try:
        owner = lease.try_take()
    except psycopg.Error as error:
        raise StoreError(f"the lease cannot be taken: {one_line(error)}") from error
    if owner:
        raise OwnedError(f"virtual host {lease.space} is served by {owner}")


def _replay(lease: Lease, engine: PostgresEngine, damages: list[str]) -> None:
    """Fold what the last owner left in the journal into the tables: our first fenced commit."""
    try:
        with lease.connection.cursor(binary=True) as cursor:
            rows = cursor.execute(
                "select number, arrivals, deletions, crc from covey_journal where space = %s"
                " order by number",
                (lease.number,),
            ).fetchall()
        for number, arrivals, deletions, crc in rows:
            if crc32(deletions, crc32(arrivals)) == crc:
                engine.recall(unpacked(arrivals), places_of(deletions))
            elif len(damages) < DAMAGES_MAX:
                damages.append(f"row {number} of the journal: its checksum is wrong")
        engine.fold()
    except (psycopg.Error, StoreError) as error:
        raise StoreError(f"the journal cannot be replayed: {one_line(error)}") from error


def _may_pass(error: psycopg.Error) -> bool:
    """Return True if a connection may succeed later: nobody listens yet, or the server starts."""
    text = str(error).lower()
    return any(word in text for word in PASSING)


def _refused(dsn: str, error: psycopg.Error) -> StoreError:
    return StoreError(f"PostgreSQL ({_place(dsn)}): {one_line(error)}")


def _place(dsn: str) -> str:
    """Return the name of the server, without anything secret."""
    try:
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        return "dsn"
    shown = {name: parts[name] for name in ("host", "port", "dbname") if parts.get(name)}
    return " ".join([f"{name}={value}" for name, value in shown.items()]) or "dsn"


def decoded(data: bytes) -> str:
    """Return a text that is kept as bytes (`engine.encoded`)."""
    return bytes(data).decode("utf-8", "surrogatepass")
