# Compiled by mypyc: see setup.py.
"""Ledger: what the store is told about queues, durable subscriptions and named records.

Every queue gets a queue number here. A queue that may come back (any but a temporary one) has a row
in the store. Its sequence numbers are reserved there in blocks before they are given out. So no
sequence number is ever given twice, whatever became of its message. A browser or a stream reader
may keep one as a bookmark over a crash. A restart goes on after the last block.

A queue that was swept away keeps its row with its next sequence number, and its queue number. The
queue number of a temporary queue, or of a forgotten name, is free for another queue: there are only
two million of them, and connections come and go for years.

A virtual host may keep small things under a name (`put`, `take_away`, `records_of`). Each feature
has a kind of its own and says what key and value mean. These records are in memory, too, so a
feature reads them whenever it is ready. Without a durable store they last as long as the process.

A promise is what somebody may rely on after a restart: a declared queue, a durable subscription,
a named record, or that one of these has ended. A receipt waits for a promise. The row of any other
queue, and its blocks, are no promise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from covey.core.naming.destination import TEMPORARY_ROOT, Syntax
from covey.core.storage.store import (
    DURABLE,
    FIRST_QUEUE,
    QUEUE,
    DurableRecord,
    NamedRecord,
    QueueRecord,
)

if TYPE_CHECKING:
    from covey.core.host.subscription import Durable
    from covey.core.queue.queue import Queue
    from covey.core.storage.store import MessageStore

BLOCK: Final = 10_000  # numbers reserved at a time: 40 requests for 200,000 messages a second
FLOOR: Final = "floor"  # the row of a host that says where the numbers of forgotten names start

SYNTAX: Final = Syntax()

Key = tuple[str, str, str]  # host, kind, name


class Ledger:
    """The store's book of queues."""

    def __init__(self, store: MessageStore, promise: Callable[[], None]) -> None:
        """Begin empty; `promise` is called after each change that a receipt has to wait for."""
        self.store = store
        self.promise = promise
        self.has_changes = False  # changes that no receipt waits for
        self.reserved: list[tuple[Queue, int]] = []  # since the last flush
        self._numbers: dict[Key, int] = {}
        self._living: set[Key] = set()  # queues of the last run that have yet to be opened
        self._next_number = FIRST_QUEUE
        self._free: list[int] = []  # numbers below `_next_number` that are not in use any more
        self._bound: dict[tuple[str, str], DurableRecord] = {}
        self._records: dict[tuple[str, str], dict[str, str]] = {}  # by host and kind, then by key

    def recall(self, record: QueueRecord) -> None:
        """Take over a queue's number at a restart."""
        key = (record.host, record.kind, record.name)
        self._numbers[key] = record.number
        if record.is_live:
            self._living.add(key)
        self.leave(record.number)

    def leave(self, number: int) -> None:
        """Give this queue number to no new queue."""
        self._next_number = max(self._next_number, number + 1)

    def recall_durable(self, record: DurableRecord) -> None:
        """Take over a durable subscription at a restart."""
        self._bound[record.host, record.name] = record

    def recall_record(self, record: NamedRecord) -> None:
        """Take over a named record at a restart."""
        self._records.setdefault((record.host, record.kind), {})[record.key] = record.value

    def records_of(self, host: str, kind: str) -> dict[str, str]:
        """Return a copy of a host's named records of a kind: values by key."""
        return dict(self._records.get((host, kind), {}))

    def put(self, host: str, kind: str, key: str, value: str) -> None:
        """Remember a named record; a receipt waits until it is safe."""
        self._records.setdefault((host, kind), {})[key] = value
        if self.store.is_durable:
            self.store.put(NamedRecord(host, kind, key, value))
            self.promise()

    def take_away(self, host: str, kind: str, key: str) -> None:
        """Forget a named record, if there is one; a receipt waits until that is safe."""
        self._records.get((host, kind), {}).pop(key, None)
        if self.store.is_durable:
            self.store.remove(host, kind, key)
            self.promise()

    def open(self, host: str, kind: str, queue: Queue) -> None:
        """Give a queue its queue number, and its first block of sequence numbers."""
        if queue.name.startswith(TEMPORARY_ROOT):
            # A temporary queue ends with its connection: only spilled bodies are ever written.
            queue.is_durable = False
            queue.storage_state.number = self._new_number()
            return
        key = (host, kind, queue.name)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._new_number()
        queue.storage_state.number = number
        queue.storage_state.secured = queue.storage_state.reserve_at = queue.next_seq
        if key in self._living:
            self._living.discard(key)
            return  # its row is in the store; the first message asks for a block
        self._define(key, queue, self._ask(queue), "")

    def declare(self, host: str, queue: Queue) -> None:
        """Remember the policy a queue was declared with."""
        if queue.name.startswith(TEMPORARY_ROOT):
            return
        # A setting that was not set stays unset: its value may follow from a later change.
        settings = queue.settings.model_dump_json(exclude_unset=True)
        self._define((host, QUEUE, queue.name), queue, queue.next_seq, settings)
        self.promise()

    def close(self, host: str, kind: str, queue: Queue) -> None:
        """Called when a queue was swept away, or deleted with all it held."""
        number = queue.storage_state.number
        queue.storage_state.number = 0
        if queue.name.startswith(TEMPORARY_ROOT):
            self._close_temporary(number, queue)
            return
        record = QueueRecord(number, host, kind, queue.name, queue.next_seq, False, "")
        self.store.define(record)
        self.store.empty(number)
        self.promise()

    def note_dropped(self, queue: Queue) -> None:
        """Remember up to which number a queue has dropped messages.

        Called when something else of the queue changes, too, so this mark costs no commit of its
        own. If only non-persistent messages were dropped, the mark waits for the queue's next
        change: a restart loses such messages anyway.
        """
        queue.storage_state.dropped_to = queue.dropped_to
        self.store.note_dropped(queue.storage_state.number, queue.dropped_to)

    def forget(self, host: str, name: str, floor: int) -> None:
        """Forget the row of a swept queue; sequence numbers of forgotten names start at `floor`."""
        for kind in (QUEUE, DURABLE):
            number = self._numbers.pop((host, kind, name), None)
            if number is not None:
                self.store.forget(number)
                self._free.append(number)
        key = (host, FLOOR, "")
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._new_number()
        self.store.define(QueueRecord(number, host, FLOOR, "", floor, False, ""))
        self.has_changes = True

    def bind(self, host: str, durable: Durable) -> None:
        """Remember what a durable subscription hears."""
        selector = durable.binding.selector
        destinations = tuple(SYNTAX.render(place) for place in durable.destinations)
        text = "" if selector is None else selector.text
        record = DurableRecord(host, durable.name, destinations, text, durable.binding.not_from)
        if self._bound.get((host, durable.name)) != record:
            self._bound[host, durable.name] = record
            self.store.bind(record)
            self.promise()

    def unbind(self, host: str, durable: Durable) -> None:
        """Forget a durable subscription and its queue's messages."""
        if self._bound.pop((host, durable.name), None) is not None:
            self.store.unbind(host, durable.name)
        self.close(host, DURABLE, durable.queue)

    def reserve(self, queue: Queue) -> None:
        """Ask for the queue's next block."""
        limit = self._ask(queue)
        self.store.reserve(queue.storage_state.number, limit)
        if queue.dropped_to > queue.storage_state.dropped_to:
            self.note_dropped(queue)
        self.has_changes = True

    def _ask(self, queue: Queue) -> int:
        limit = queue.next_seq + BLOCK
        queue.storage_state.reserve_at = limit - BLOCK // 2
        self.reserved.append((queue, limit))
        return limit

    def _define(self, key: Key, queue: Queue, next_seq: int, settings: str) -> None:
        number = queue.storage_state.number
        queue.storage_state.dropped_to = queue.dropped_to
        record = QueueRecord(number, *key, next_seq, True, settings, queue.dropped_to)
        self.store.define(record)
        self.has_changes = True

    def _close_temporary(self, number: int, queue: Queue) -> None:
        if queue.storage_state.has_spilled:
            self.store.empty(number)
            self.has_changes = True
        self._free.append(number)

    def _new_number(self) -> int:
        if self._free:
            return self._free.pop()
        number = self._next_number
        self._next_number = number + 1
        return number
