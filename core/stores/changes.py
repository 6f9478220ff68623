"""Changes: what the core wants written, gathered until the next flush.

Rows are kept as one flat list of parameters, the form a multi-row statement takes, so that the
store's thread has next to nothing to do in Python. Within a batch the order of writing is:
arrivals, moves, retry counts, deletions, definitions in the order issued, drops. That is safe
because a message cannot be settled before its own commit, one that moved is known by its new
number alone, and a queue's number is not used again.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Final
from zlib import crc32

from covey.core.message import Message

Parameter = int | str | bytes

ROWS_PER_STATEMENT: Final = 256  # more gain nothing
GRAIN: Final = 16
"""A statement of more rows than this takes a multiple of it. SQLite compiles a text once and keeps
it, about 1 KB a row (35 MB for all of 250 lengths): of 31 lengths all are kept, of 256 half would
be made again each time, which costs 2 to 9 us a row."""
ARRIVAL_COLUMNS: Final = 10
SPILL_COLUMNS: Final = 5
ID_COLUMNS: Final = 2

DELETE: Final = "delete from messages where id in (select value from json_each(?))"
MOVE: Final = """
    update {table} set id = m.value
    from (select cast(key as integer) as id, value from json_each(?)) as m
    where {table}.id = m.id
"""
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


class Changes:
    """One batch, on its way to the disk."""

    __slots__ = (
        "arrivals",
        "definitions",
        "deletions",
        "drops",
        "ids",
        "moves",
        "retries",
        "size",
        "spills",
        "tickets",
        "unspills",
    )

    def __init__(self) -> None:
        self.arrivals: list[Parameter] = []
        self.spills: list[Parameter] = []
        self.ids: list[Parameter] = []
        self.retries: dict[int, int] = {}
        self.moves: dict[int, int] = {}
        self.deletions: list[int] = []
        self.drops: dict[int, int] = {}
        self.unspills: list[int] = []
        self.definitions: list[tuple[str, tuple[Parameter, ...]]] = []
        self.tickets: list[int] = []
        self.size = 0  # bytes of bodies, for the writer's bookkeeping

    def arrive(self, place: int, group: str, message: Message) -> None:
        """Keep a message."""
        head, body = message.encode()
        self.size += len(head) + len(body)
        self.arrivals += (
            place,
            group,
            message.size,
            message.expires_ms,
            message.priority,
            message.due_ms,
            message.kind,
            head,
            body,
            crc32(body, crc32(head)),
        )

    def spill(self, place: int, message: Message) -> None:
        """Keep a body in the scratch file."""
        head, body = message.encode()
        self.size += len(head) + len(body)
        self.spills += (place, message.kind, head, body, crc32(body, crc32(head)))

    def add(self, later: Changes) -> None:
        """Take the next batch in: both will be one commit."""
        self.arrivals += later.arrivals
        self.spills += later.spills
        self.ids += later.ids
        self.retries.update(later.retries)
        self.moves.update(later.moves)
        self.deletions += later.deletions
        self.drops.update(later.drops)
        self.unspills += later.unspills
        self.definitions += later.definitions
        self.tickets += later.tickets
        self.size += later.size

    def write(self, connection: sqlite3.Connection) -> None:
        """Carry everything out, inside the caller's transaction."""
        _insert(connection, "arrivals", ARRIVAL_COLUMNS, self.arrivals)
        _insert(connection, "scratch.spilled", SPILL_COLUMNS, self.spills)
        _insert(connection, "ids", ID_COLUMNS, self.ids)
        if self.moves:
            moves = json.dumps(self.moves)
            for table in ("messages", "bodies"):
                connection.execute(MOVE.format(table=table), (moves,))
        if self.retries:
            connection.execute(RETRY, (json.dumps(self.retries),))
        if self.deletions:
            connection.execute(DELETE, (json.dumps(self.deletions),))
        if self.unspills:
            connection.execute(UNSPILL, (json.dumps(self.unspills),))
        for statement, parameters in self.definitions:
            connection.execute(statement, parameters)
        if self.drops:
            connection.execute(DROPPED, (json.dumps(self.drops),))


def _insert(
    connection: sqlite3.Connection, table: str, columns: int, values: list[Parameter]
) -> None:
    row = f"({','.join('?' * columns)})"
    left = len(values) // columns
    start = 0
    while left:
        count = min(left, ROWS_PER_STATEMENT)
        if count > GRAIN:
            count -= count % GRAIN
        end = start + count * columns
        rows = ",".join([row] * count)
        connection.execute(f"insert into {table} values {rows}", values[start:end])
        left -= count
        start = end
