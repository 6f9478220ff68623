# Compiled by mypyc: see setup.py.
"""Changes: what the core wants written, gathered until the next flush.

Every change is a record here. How a record is written is each store's own business. `definitions`
are the changes of queues, durable subscriptions and named records, in the order in which they were
issued.

A store writes a batch in this order: queues emptied, arrivals, moves, retry counts, deletions,
spills, ids forgotten, ids, definitions, drops. The order is safe for three reasons. A message
cannot be settled before its own commit. A message that moved is known by its new number alone.
`empty` and `forget_ids` remove at once what the batch already holds for that queue. So they affect
nothing that comes later: a deleted queue may be back, under its old number, in the same batch.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple, TypeVar
from zlib import crc32

from covey.core.model.message import Message
from covey.core.storage.packing import SEQ_BITS, Arrival, place_of
from covey.core.storage.store import DurableRecord, NamedRecord, QueueRecord

Kept = TypeVar("Kept")
Spill = tuple[int, str, bytes, bytes, int]  # place, kind, head, body, checksum


class Reserve(NamedTuple):
    """Never again give a number below this one in that queue."""

    queue: int
    next_seq: int


class Forget(NamedTuple):
    """Forget a queue; its messages are emptied by the same batch."""

    queue: int


class Unbind(NamedTuple):
    """Forget a durable subscription."""

    host: str
    name: str


class Remove(NamedTuple):
    """Forget a named record."""

    host: str
    kind: str
    key: str


# A QueueRecord defines a queue, a DurableRecord a subscription, a NamedRecord itself.
Definition = QueueRecord | Reserve | Forget | DurableRecord | Unbind | NamedRecord | Remove


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
        self.definitions: list[Definition] = []
        self.emptied: set[int] = set()  # queues
        self.tickets: list[int] = []
        self.size = 0  # bytes of heads and bodies, for the writer's bookkeeping

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

    def leave_out(self, queue: int) -> None:
        """Leave out all changes of a queue that was emptied before this part joins."""
        self._drop({queue})

    def queues(self) -> set[int]:
        """Return the queues whose messages or ids these changes are about."""
        places = {*self.arrivals, *self.deletions, *self.ids}
        return {place >> SEQ_BITS for place in places}

    def moved_from(self, place: int) -> int:
        """Return the place from which a message moves to this one, 0 for none."""
        for old, new in self.moves.items():  # few: delayed messages of a part that came due
            if new == place:
                return old
        return 0

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
        """Return True if something here changes messages of earlier batches."""
        return bool(self.emptied or self.moves or self.retries)

    @property
    def is_lasting(self) -> bool:
        """Return True if something here, besides messages, is to survive a restart."""
        return bool(self.definitions or self.ids or self.forgotten or self.drops)

    def rest(self) -> Changes:
        """Return all changes but arrivals, settlements and spills; the containers are shared."""
        found = Changes()
        found.ids = self.ids
        found.forgotten = self.forgotten
        found.retries = self.retries
        found.moves = self.moves
        found.drops = self.drops
        found.definitions = self.definitions
        found.emptied = self.emptied
        return found

    def _drop(self, queues: set[int]) -> None:
        """Leave out the changes of messages and ids of queues that are emptied."""
        self.arrivals = without(queues, self.arrivals)
        self.spills = without(queues, self.spills)
        self.ids = without(queues, self.ids)
        self.retries = without(queues, self.retries)
        self.moves = without(queues, self.moves)
        self.deletions = [each for each in self.deletions if each >> SEQ_BITS not in queues]
        self.unspills = [each for each in self.unspills if each >> SEQ_BITS not in queues]
        self.forgotten = {each: to for each, to in self.forgotten.items() if each not in queues}


def without(queues: set[int], by_place: dict[int, Kept]) -> dict[int, Kept]:
    """Return what belongs to other queues."""
    return {place: kept for place, kept in by_place.items() if place >> SEQ_BITS not in queues}


# What a definition is called in the journal. A word never changes: old journals have it.
WORDS: Final[dict[type, str]] = {
    QueueRecord: "queue",
    Reserve: "reserve",
    Forget: "forget",
    DurableRecord: "durable",
    Unbind: "unbind",
    NamedRecord: "record",
    Remove: "remove",
}


def packed_rest(changes: Changes) -> bytes:
    """Write what `rest` returns, without ids, as JSON; b"" if there is nothing to write."""
    if not (changes.names_rows or changes.definitions or changes.forgotten or changes.drops):
        return b""
    kept = {
        "emptied": list(changes.emptied),
        "moves": list(changes.moves.items()),
        "retries": list(changes.retries.items()),
        "forgotten": list(changes.forgotten.items()),
        "definitions": [[WORDS[type(each)], *each] for each in changes.definitions],
        "drops": list(changes.drops.items()),
    }
    return json.dumps({name: value for name, value in kept.items() if value}).encode()


def add_rest(changes: Changes, blob: bytes) -> None:
    """Add what `packed_rest` wrote."""
    if not blob:
        return
    kept = json.loads(blob)
    changes.emptied = set(kept.get("emptied", ()))
    changes.moves = dict(kept.get("moves", ()))
    changes.retries = dict(kept.get("retries", ()))
    changes.forgotten = dict(kept.get("forgotten", ()))
    changes.drops = dict(kept.get("drops", ()))
    for word, *values in kept.get("definitions", ()):
        changes.definitions.append(_definition(word, values))


def _definition(word: str, values: list[object]) -> Definition:
    """Return the definition that was written by its word and its values."""
    if word == "queue":
        return QueueRecord._make(values)
    if word == "reserve":
        return Reserve._make(values)
    if word == "forget":
        return Forget._make(values)
    if word == "durable":
        host, name, destinations, *others = values
        assert isinstance(destinations, list)
        return DurableRecord._make((host, name, tuple(destinations), *others))
    if word == "unbind":
        return Unbind._make(values)
    if word == "record":
        return NamedRecord._make(values)
    if word == "remove":
        return Remove._make(values)
    raise ValueError(f"a change that is called {word}")
