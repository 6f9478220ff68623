"""Schema: the tables of the SQLite store, their format version, and what is checked at start.

    queues     one row per queue, swept ones too (they keep their next number)
    durables   durable subscriptions
    records    named records of a virtual host, of any kind
    messages   one row per message, small: this is what a restart walks
    ids        digests of the message ids that queues remember, to know a duplicate
    bodies     head and body as the protocol encoded them, with a checksum
    marks      up to which batch of the journal the tables know everything

SQLite finds a damaged page by its structure, not by the content of its rows. So every row that a
restart reads has a checksum (`row_sum`) of all its columns but the key and the counts that change.
The checksum is null in rows from before format 7; such rows are taken to be sound.

`durables.destinations` is JSON: a list, or a map if the subscription has a `not_from` (no-local).

`messages.id` is a place (`core.storage.packing`): places of a queue are neighbours in order, so no
further index is needed.

`FORMAT` is SQLite's `user_version`. A newer format is refused, an older one is upgraded step by
step in one transaction; every format of a release stays in `UPGRADES` for ever.

`is_damage` and `is_passing` say what an error of SQLite means. Any other error is final.
"""

from __future__ import annotations

import sqlite3
from typing import Final
from zlib import crc32

from covey.core.errors import StoreError

APPLICATION_ID: Final = 0x436F7679  # "Covy": another program's database is not ours to touch
FORMAT: Final = 9
SQLITE_MIN: Final = (3, 38, 0)  # json_each is built in since then

CHECK_ALL_BYTES: Final = 256 * 1024 * 1024
"""Up to this size the whole file is checked at start; beyond it the check of a page read back
must do for bodies, since reading gigabytes would keep the clients waiting."""

# The tables that a restart walks, and since which format there is such a table.
WALKED: Final = {"queues": 1, "durables": 1, "messages": 1, "records": 8, "marks": 9}

MESSAGES: Final = 8  # columns of the two tables that a message has a row in
BODIES: Final = 5

TABLES: Final = """
create table queues (
    number integer primary key,
    host text not null, kind text not null, name text not null,
    next_seq integer not null, is_live integer not null, settings text not null,
    dropped_to integer not null default 0, crc integer
);
create table durables (
    host text not null, name text not null,
    destinations text not null, selector text not null, crc integer,
    primary key (host, name)
) without rowid;
create table messages (
    id integer primary key, grp text not null, deliveries integer not null default 0,
    size integer not null, expires_ms integer not null,
    priority integer not null default 4, due_ms integer not null default 0, crc integer
);
create table bodies (
    id integer primary key, kind text not null, head blob not null, body blob not null,
    crc integer not null
);
"""

IDS: Final = """
create table ids (place integer primary key, digest blob not null);
"""

DEPARTURE: Final = """
create trigger depart after delete on messages begin
    delete from bodies where id = old.id;
end;
"""

RECORDS: Final = """
create table records (
    host text not null, kind text not null, key text not null, value text not null,
    crc integer not null, primary key (host, kind, key)
) without rowid;
"""

# Formats 6 to 8 had their journal in a table; a start folds it and drops it (`journal_rows`).
JOURNAL: Final = """
create table journal (
    number integer primary key, arrivals blob not null, deletions blob not null,
    crc integer not null
);
"""

MARKS: Final = """
create table marks (name text primary key, value integer not null, crc integer not null)
without rowid;
"""
FOLDED: Final = "insert or replace into marks values ('folded', ?, ?)"

UPGRADES: Final = {
    1: """
        alter table messages add column priority integer not null default 4;
        alter table messages add column due_ms integer not null default 0;
    """
    + DEPARTURE,
    2: IDS,
    3: "alter table queues add column dropped_to integer not null default 0;",
    4: "",
    5: "drop view if exists arrivals;" + JOURNAL,
    6: """
        alter table queues add column crc integer;
        alter table durables add column crc integer;
        alter table messages add column crc integer;
    """,
    7: RECORDS,
    8: MARKS,
}
"""From which format: what makes it the next one. Format 1 had neither priorities nor delays,
format 2 remembered no message ids, format 3 not what a queue had dropped. Up to format 5 messages
came through a view, which format 4 could not delete by; since then they come through a journal.
Up to format 6 only bodies and the journal had checksums; format 7 had no named records, and format
8 had its journal in a table."""

SCRATCH: Final = """
create table scratch.spilled (
    id integer primary key, kind text not null, head blob not null, body blob not null,
    crc integer not null
);
"""


def fold_mark(number: int) -> tuple[int, int]:
    """Return the values of `FOLDED`: the tables know everything up to this batch."""
    return number, crc32(str(number).encode())


def create(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty database."""
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = normal")
    _run(connection, TABLES + IDS + DEPARTURE + RECORDS + MARKS)


def prepare(connection: sqlite3.Connection, name: str, *, whole: bool) -> list[str]:
    """Make, check or upgrade the database called `name`; return what is damaged.

    `whole` asks for a check of everything, however large it is. Raises StoreError if the database
    cannot serve.
    """
    if sqlite3.sqlite_version_info < SQLITE_MIN:
        wanted = ".".join(map(str, SQLITE_MIN))
        raise StoreError(f"SQLite is {sqlite3.sqlite_version}, the store needs {wanted}")
    found = _number(connection, "pragma user_version")
    if found == 0 and not _number(connection, "select count(*) from sqlite_master"):
        create(connection)
        return []
    if _number(connection, "pragma application_id") != APPLICATION_ID:
        raise StoreError(f"{name} is a database of another program")
    if found > FORMAT:
        raise StoreError(f"{name} has format {found}, this release knows formats up to {FORMAT}")
    # Not before the checks above: this writes to the file, and another program's must not change.
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = normal")
    damages = _check(connection, found, whole=whole)
    if not damages and found < FORMAT:
        _run(connection, "".join(UPGRADES[step] for step in range(found, FORMAT)))
    return damages


def _run(connection: sqlite3.Connection, script: str) -> None:
    marks = f"pragma user_version = {FORMAT}; pragma application_id = {APPLICATION_ID};"
    connection.executescript(f"begin immediate; {script} {marks} commit;")


def _check(connection: sqlite3.Connection, found: int, *, whole: bool) -> list[str]:
    """Look for structural damage; the tables that a restart walks are always checked."""
    pages = _number(connection, "pragma page_count")
    size = pages * _number(connection, "pragma page_size")
    whole = whole or size <= CHECK_ALL_BYTES
    tables = [""] if whole else [f"('{name}')" for name, since in WALKED.items() if since <= found]
    return [place for table in tables for place in _damages(connection, table)]


def _damages(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return what is wrong with a table; nothing if all is well."""
    query = f"select * from pragma_quick_check{table}"
    try:
        # Fetch one row first: in a damaged file the next step may fail, and this row would be lost.
        (first,) = connection.execute(f"{query} limit 1").fetchone()
    except sqlite3.DatabaseError as error:
        return [str(error)]
    if first == "ok":
        return []
    places = [first]
    try:
        places = [text for (text,) in connection.execute(query)]
    except sqlite3.DatabaseError as error:
        places.append(error)
    return [str(place).replace("\n", " ") for place in places]


def _number(connection: sqlite3.Connection, query: str) -> int:
    (value,) = connection.execute(query).fetchone()
    assert isinstance(value, int)
    return value


PRIMARY: Final = 0xFF  # mask of an error code's primary part; the higher bytes give the detail
DAMAGE: Final = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
PASSING: Final = frozenset((sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED))


def is_damage(error: Exception) -> bool:
    """Return True if a page of the file is not what it should be."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return isinstance(code, int) and code & PRIMARY in DAMAGE


def is_passing(error: Exception) -> bool:
    """Return True if the same may work later: the disk is full, or the file is locked."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return isinstance(code, int) and code & PRIMARY in PASSING
