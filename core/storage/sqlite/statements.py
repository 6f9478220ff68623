# Compiled by mypyc: see setup.py.
"""Statements: the SQL for the changes of a batch.

Beside a busy event loop each statement costs the store's thread a wait for the interpreter lock. So
there are few statements, each for many rows, and values are kept in the form that SQLite takes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Final

from covey.core.storage.changes import Changes, Definition, Forget, Remove, Reserve, Unbind
from covey.core.storage.packing import SEQ_MASK, place_of, row_sum
from covey.core.storage.store import DurableRecord, NamedRecord, QueueRecord

Parameter = int | str | bytes | None
Statement = tuple[str, Sequence[Parameter]]

ROWS_PER_STATEMENT: Final = 256  # more gain nothing
GRAIN: Final = 16
"""A statement of more rows than this takes a multiple of it. SQLite compiles a text once and keeps
it, about 1 KB a row (35 MB for all of 250 lengths): of 31 lengths all are kept, of 256 half would
be made again each time, which costs 2 to 9 us a row."""
SPILL_COLUMNS: Final = 5
ID_COLUMNS: Final = 2

DELETE: Final = "delete from messages where id in (select value from json_each(?))"
MOVE: Final = """
    update {table} set id = m.value
    from (select cast(key as integer) as id, value from json_each(?)) as m
    where {table}.id = m.id
"""
EMPTY: Final = (
    "delete from messages where id between ? and ?",
    "delete from ids where place between ? and ?",
)
FORGET_IDS: Final = EMPTY[1]
EMPTY_SPILLED: Final = "delete from scratch.spilled where id between ? and ?"
UNSPILL: Final = "delete from scratch.spilled where id in (select value from json_each(?))"
DROPPED: Final = """
    update queues set dropped_to = max(dropped_to, d.value)
    from (select cast(key as integer) as number, value from json_each(?)) as d
    where queues.number = d.number
"""
RETRY: Final = """
    update messages set deliveries = r.value
    from (select cast(key as integer) as id, value from json_each(?)) as r
    where messages.id = r.id
"""
DEFINE: Final = """
    insert into queues values (?, ?, ?, ?, ?, ?, ?, ?, ?)
    on conflict (number) do update set
        host = excluded.host, kind = excluded.kind, name = excluded.name,
        next_seq = max(next_seq, excluded.next_seq),
        dropped_to = max(dropped_to, excluded.dropped_to),
        is_live = excluded.is_live, settings = excluded.settings, crc = excluded.crc
"""
RESERVE: Final = "update queues set next_seq = max(next_seq, ?) where number = ?"
FORGET: Final = "delete from queues where number = ?"
BIND: Final = "insert or replace into durables values (?, ?, ?, ?, ?)"
UNBIND: Final = "delete from durables where host = ? and name = ?"
PUT: Final = "insert or replace into records values (?, ?, ?, ?, ?)"
REMOVE: Final = "delete from records where host = ? and kind = ? and key = ?"


def emptyings(changes: Changes) -> list[Statement]:
    """Return what empties queues; carried out before messages that came later are inserted."""
    return [
        (text, (place_of(queue, 0), place_of(queue, SEQ_MASK)))
        for queue in changes.emptied
        for text in EMPTY
    ]


def renumberings(changes: Changes) -> list[Statement]:
    """Return what changes the rows of messages: moves and retry counts."""
    found: list[Statement] = []
    if changes.moves:
        moves = json.dumps(changes.moves)
        found += [(MOVE.format(table=table), (moves,)) for table in ("messages", "bodies")]
    if changes.retries:
        found.append((RETRY, (json.dumps(changes.retries),)))
    return found


def spillings(changes: Changes) -> list[Statement]:
    """Return the statements for the scratch file."""
    found: list[Statement] = [
        (EMPTY_SPILLED, (place_of(queue, 0), place_of(queue, SEQ_MASK)))
        for queue in changes.emptied
    ]
    spills = [value for spill in changes.spills.values() for value in spill]
    insert(found, "scratch.spilled", SPILL_COLUMNS, spills)
    if changes.unspills:
        found.append((UNSPILL, (json.dumps(changes.unspills),)))
    return found


def others(changes: Changes) -> list[Statement]:
    """Return what changes no message: ids, definitions, drops; carried out last."""
    found: list[Statement] = []
    for queue, below in changes.forgotten.items():
        found.append((FORGET_IDS, (place_of(queue, 0), place_of(queue, below) - 1)))
    ids = [value for known in changes.ids.items() for value in known]
    insert(found, "ids", ID_COLUMNS, ids)
    found += [definition(each) for each in changes.definitions]
    if changes.drops:
        found.append((DROPPED, (json.dumps(changes.drops),)))
    return found


def definition(record: Definition) -> Statement:
    """Return the statement that carries out a definition."""
    if isinstance(record, QueueRecord):
        return DEFINE, _queue_row(record)
    if isinstance(record, Reserve):
        return RESERVE, (record.next_seq, record.queue)
    if isinstance(record, Forget):
        return FORGET, (record.queue,)
    if isinstance(record, DurableRecord):
        return BIND, _durable_row(record)
    if isinstance(record, Unbind):
        return UNBIND, (record.host, record.name)
    if isinstance(record, NamedRecord):
        return PUT, (*record, row_sum(*record))
    assert isinstance(record, Remove)
    return REMOVE, (record.host, record.kind, record.key)


def _queue_row(record: QueueRecord) -> tuple[Parameter, ...]:
    named = (record.host, record.kind, record.name)
    is_live = int(record.is_live)
    crc = row_sum(*named, record.settings, str(is_live))
    kept = (record.settings, record.dropped_to, crc)
    return (record.number, *named, record.next_seq, is_live, *kept)


def _durable_row(record: DurableRecord) -> tuple[Parameter, ...]:
    heard: object = record.destinations
    if record.not_from:
        heard = {"destinations": record.destinations, "not_from": record.not_from}
    row = (record.host, record.name, json.dumps(heard), record.selector)
    return (*row, row_sum(*row))


def carry_out(connection: sqlite3.Connection, statements: list[Statement]) -> None:
    """Carry out statements as one transaction; a single statement is one by itself."""
    execute = connection.execute
    if len(statements) == 1:
        execute(*statements[0])
    elif statements:
        execute("begin immediate")
        for text, parameters in statements:
            execute(text, parameters)
        execute("commit")


def insert(found: list[Statement], table: str, columns: int, values: Sequence[Parameter]) -> None:
    """Add the statements that insert rows: as few as possible, and of few different lengths."""
    left = len(values) // columns
    start = 0
    while left:
        count = min(left, ROWS_PER_STATEMENT)
        if count > GRAIN:
            count -= count % GRAIN
        end = start + count * columns
        found.append((_text(table, columns, count), values[start:end]))
        left -= count
        start = end


def _text(table: str, columns: int, count: int) -> str:
    row = f"({','.join('?' * columns)})"
    return f"insert or replace into {table} values {','.join([row] * count)}"
