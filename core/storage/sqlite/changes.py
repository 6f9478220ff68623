# Compiled by mypyc: see setup.py.
"""Changes: what the core wants written, gathered until the next flush.

Rows are kept as the statements take them, so that the store's thread has next to nothing to do in
Python. Within a batch the order of writing is: queues emptied, arrivals, moves, retry counts,
deletions, spills, ids forgotten, ids, definitions in the order issued, drops. That is safe because
a message cannot be settled before its own commit, one that moved is known by its new number alone,
and what is emptied or forgotten takes along all that the batch had of it: a queue that was deleted
may be back, under its old number, in the same batch.

Arrivals and deletions, nearly all there is, go through the `journal`; the statements here are for
the rest. Beside a busy event loop each costs the store's thread a wait for the interpreter.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Final, TypeVar
from zlib import crc32

from covey.core.model.message import Message
from covey.core.storage.sqlite.schema import SEQ_BITS, SEQ_MASK, place_of

Parameter = int | str | bytes | None
Statement = tuple[str, Sequence[Parameter]]
Kept = TypeVar("Kept")
# Group, size, expiry, priority, time due; kind, head, body.
Arrival = tuple[str, int, int, int, int, str, bytes, bytes]
Spill = tuple[int, str, bytes, bytes, int]  # place, kind, head, body, checksum

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
    "delete from scratch.spilled where id between ? and ?",
    "delete from ids where place between ? and ?",
)
FORGET_IDS: Final = EMPTY[2]
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
        "emptied",
        "forgotten",
        "ids",
        "moves",
        "retries",
        "size",
        "spills",
        "tickets",
        "unspills",
    )

    def __init__(self) -> None:
        self.arrivals: dict[int, Arrival] = {}  # by place
        self.spills: dict[int, Spill] = {}
        self.ids: dict[int, bytes] = {}  # digests, by place
        self.forgotten: dict[int, int] = {}  # a queue's ids below a number
        self.retries: dict[int, int] = {}
        self.moves: dict[int, int] = {}
        self.deletions: list[int] = []
        self.drops: dict[int, int] = {}
        self.unspills: list[int] = []
        self.definitions: list[tuple[str, tuple[Parameter, ...]]] = []
        self.emptied: set[int] = set()  # queues
        self.tickets: list[int] = []
        self.size = 0  # bytes of bodies, for the writer's bookkeeping

    def arrive(self, place: int, group: str, message: Message) -> None:
        """Keep a message."""
        head, body = message.encode()
        self.size += len(head) + len(body)
        self.arrivals[place] = (
            group,
            message.size,
            message.expires_ms,
            message.priority,
            message.due_ms,
            message.kind,
            head,
            body,
        )

    def spill(self, place: int, message: Message) -> None:
        """Keep a body in the scratch file."""
        head, body = message.encode()
        self.size += len(head) + len(body)
        self.spills[place] = (place, message.kind, head, body, crc32(body, crc32(head)))

    def empty(self, queue: int) -> None:
        """Forget all messages and ids of a queue."""
        self._drop({queue})
        self.emptied.add(queue)

    def forget_ids(self, queue: int, below: int) -> None:
        """Forget a queue's ids below a number."""
        limit = place_of(queue, below)
        for place in [place for place in self.ids if place_of(queue, 0) <= place < limit]:
            del self.ids[place]
        self.forgotten[queue] = max(below, self.forgotten.get(queue, 0))

    def add(self, later: Changes) -> None:
        """Take the next batch in: both will be one commit."""
        if later.emptied:
            self._drop(later.emptied)
            self.emptied |= later.emptied
        for queue, below in later.forgotten.items():
            self.forget_ids(queue, below)
        self.arrivals.update(later.arrivals)
        self.spills.update(later.spills)
        self.ids.update(later.ids)
        self.retries.update(later.retries)
        self.moves.update(later.moves)
        self.deletions += later.deletions
        self.drops.update(later.drops)
        self.unspills += later.unspills
        self.definitions += later.definitions
        self.tickets += later.tickets
        self.size += later.size

    @property
    def names_rows(self) -> bool:
        """Say whether something here is about messages that came before."""
        return bool(self.emptied or self.moves or self.retries)

    @property
    def is_lasting(self) -> bool:
        """Say whether something here, beside messages, is to survive."""
        return bool(self.definitions or self.ids or self.forgotten or self.drops)

    def emptyings(self) -> list[Statement]:
        """Return what empties queues: before anything that came to them since."""
        return [
            (text, (place_of(queue, 0), place_of(queue, SEQ_MASK)))
            for queue in self.emptied
            for text in EMPTY
        ]

    def renumberings(self) -> list[Statement]:
        """Return what changes rows of messages: before any of them is deleted."""
        found: list[Statement] = []
        if self.moves:
            moves = json.dumps(self.moves)
            found += [(MOVE.format(table=table), (moves,)) for table in ("messages", "bodies")]
        if self.retries:
            found.append((RETRY, (json.dumps(self.retries),)))
        return found

    def others(self) -> list[Statement]:
        """Return what is about no message that is kept: after all the rest."""
        found: list[Statement] = []
        spills = [value for spill in self.spills.values() for value in spill]
        insert(found, "scratch.spilled", SPILL_COLUMNS, spills)
        for queue, below in self.forgotten.items():
            found.append((FORGET_IDS, (place_of(queue, 0), place_of(queue, below) - 1)))
        ids = [value for known in self.ids.items() for value in known]
        insert(found, "ids", ID_COLUMNS, ids)
        if self.unspills:
            found.append((UNSPILL, (json.dumps(self.unspills),)))
        found += self.definitions
        if self.drops:
            found.append((DROPPED, (json.dumps(self.drops),)))
        return found

    def _drop(self, queues: set[int]) -> None:
        """Leave out what is about messages of queues that are emptied."""
        self.arrivals = without(queues, self.arrivals)
        self.spills = without(queues, self.spills)
        self.ids = without(queues, self.ids)
        self.retries = without(queues, self.retries)
        self.moves = without(queues, self.moves)
        self.deletions = [each for each in self.deletions if each >> SEQ_BITS not in queues]
        self.unspills = [each for each in self.unspills if each >> SEQ_BITS not in queues]
        self.forgotten = {each: to for each, to in self.forgotten.items() if each not in queues}


def carry_out(connection: sqlite3.Connection, statements: list[Statement]) -> None:
    """Make statements one transaction; a single one is that by itself."""
    execute = connection.execute
    if len(statements) == 1:
        execute(*statements[0])
    elif statements:
        execute("begin immediate")
        for text, parameters in statements:
            execute(text, parameters)
        execute("commit")


def without(queues: set[int], by_place: dict[int, Kept]) -> dict[int, Kept]:
    """Return what is of other queues."""
    return {place: kept for place, kept in by_place.items() if place >> SEQ_BITS not in queues}


def insert(found: list[Statement], table: str, columns: int, values: Sequence[Parameter]) -> None:
    """Add the statements that insert rows, as few as possible and of few lengths."""
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
    return f"insert into {table} values {','.join([row] * count)}"
