# Compiled by mypyc: see setup.py.
"""ThreadedStore: the event loop's side of every durable store.

Changes are gathered here as records. `flush` hands them to the thread of the `Writer`, which gives
them to the store's engine. A new kind of store is an engine, and a subclass of this that reads what
a restart finds. Why a thread and not a child process: docs/decisions/010-store-thread.md has the
figures.

While a part is entered, arrivals, deletions and ids go into the part. All other changes go into the
batch at once: queues, numbers and counts are not taken back if the part never joins. A message that
a part has yet to bring is not on disk, so it is changed in the part itself.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from covey.config.settings import StoreSettings
from covey.core.errors import StoreError
from covey.core.model.message import Message
from covey.core.storage.changes import Changes, Forget, Remove, Reserve, Unbind
from covey.core.storage.packing import QUEUES_MAX, SEQ_BITS, place_of
from covey.core.storage.store import (
    DurableRecord,
    MessageStore,
    NamedRecord,
    Place,
    QueueRecord,
)
from covey.core.storage.writer import BodyRead, Engine, Notify, Writer


@mypyc_attr(allow_interpreted_subclasses=True)
class ThreadedStore(MessageStore):
    """Gathers changes for its engine, and passes on what the engine's thread reports."""

    def __init__(self, name: str, engine: Engine, notify: Notify) -> None:
        """Start the thread; errors begin with the store's `name`."""
        super().__init__()
        self._changes = Changes()  # of the batch
        self._of_messages = self._changes  # where messages go: the batch, or the entered part
        self._parts: dict[int, Changes] = {}
        self._parts_opened = 0
        self._meant: dict[int, set[int]] = {}  # the queues of a part, kept by `empty`
        self._writer = Writer(name, engine, notify, self._tell)

    def append(self, queue: int, seq: int, group: str, message: Message) -> None:
        """Keep a message at its number."""
        self._of_messages.arrive(queue << SEQ_BITS | seq, group, message)

    def delete(self, queue: int, seq: int) -> None:
        """Forget a message that was settled."""
        self._of_messages.deletions.append(queue << SEQ_BITS | seq)

    def move(self, queue: int, seq: int, to: int) -> None:
        """Give a message another number in its queue."""
        self._changes.moves[place_of(queue, seq)] = place_of(queue, to)

    def remember(self, queue: int, number: int, digest: bytes) -> None:
        """Remember a message id."""
        self._of_messages.ids[place_of(queue, number)] = digest

    def forget_ids(self, queue: int, below: int) -> None:
        """Forget a queue's message ids below a number."""
        self._changes.forget_ids(queue, below)

    def count_retry(self, queue: int, seq: int, deliveries: int) -> None:
        """Remember how often a message was delivered and came back."""
        self._changes.retries[place_of(queue, seq)] = deliveries

    def spill(self, queue: int, seq: int, message: Message) -> None:
        """Keep a body in the scratch file."""
        self._changes.spill(place_of(queue, seq), message)

    def unspill(self, queue: int, seq: int) -> None:
        """Forget a spilled body."""
        self._changes.unspills.append(place_of(queue, seq))

    def define(self, record: QueueRecord) -> None:
        """Remember a queue, or what changed about it."""
        if record.number >= QUEUES_MAX:
            raise StoreError(f"queue {record.name}: the store has given {QUEUES_MAX} queue numbers")
        self._changes.definitions.append(record)

    def reserve(self, queue: int, next_seq: int) -> None:
        """Never again give a number below this one in that queue."""
        self._changes.definitions.append(Reserve(queue, next_seq))

    def note_dropped(self, queue: int, dropped_to: int) -> None:
        """Remember up to which number messages went without being settled."""
        self._changes.drops[queue] = dropped_to

    def forget(self, queue: int) -> None:
        """Forget a queue with all its messages."""
        self.empty(queue)
        self._changes.definitions.append(Forget(queue))

    def empty(self, queue: int) -> None:
        """Forget all messages and message ids of a queue, and keep the queue."""
        self._changes.empty(queue)
        for number, part in self._parts.items():
            if number not in self._meant:
                self._meant[number] = part.queues()  # found once, until the part is entered again
            if queue in self._meant[number]:
                part.leave_out(queue)

    def bind(self, record: DurableRecord) -> None:
        """Remember a durable subscription, or what it hears now."""
        self._changes.definitions.append(record)

    def unbind(self, host: str, name: str) -> None:
        """Forget a durable subscription; its queue is forgotten by `forget`."""
        self._changes.definitions.append(Unbind(host, name))

    def put(self, record: NamedRecord) -> None:
        """Remember a named record, in place of the one that has its name."""
        self._changes.definitions.append(record)

    def remove(self, host: str, kind: str, key: str) -> None:
        """Forget a named record."""
        self._changes.definitions.append(Remove(host, kind, key))

    def open_part(self) -> int:
        """Begin a part; return its number."""
        self._parts_opened += 1
        self._parts[self._parts_opened] = Changes()
        return self._parts_opened

    def enter_part(self, part: int) -> None:
        """Gather the changes of messages in this part from now on; 0: in the batch, as usual."""
        self._of_messages = self._parts[part] if part else self._changes
        self._meant.pop(part, None)

    def join_part(self, part: int) -> None:
        """Add a part to the batch that is being gathered."""
        joined = self._parts.pop(part)
        self._meant.pop(part, None)
        batch = self._changes
        # `empty` has already taken out of the part what came before a queue was emptied, and what
        # came later is to stay. So `add` must not apply the batch's emptied queues to the part. The
        # part takes the batch in, and not the reverse: that would be a walk through the part.
        joined.emptied, batch.emptied = batch.emptied, joined.emptied
        joined.add(batch)
        self._changes = self._of_messages = joined

    def withdraw(self, queue: int, seq: int) -> bool:
        """Take a message out of the part that has yet to bring it; False: it is in no part."""
        place = place_of(queue, seq)
        for part in self._parts.values():
            if part.arrivals.pop(place, None) is not None:
                return True
            known_as = part.moved_from(place)
            if known_as and part.arrivals.pop(known_as, None) is not None:
                del part.moves[known_as]
                return True
        return False

    def move_within(self, queue: int, seq: int, to: int) -> int:
        """Renumber a message inside the part that has yet to bring it; return the part, or 0."""
        place = place_of(queue, seq)
        for number, part in self._parts.items():
            if place in part.arrivals:
                part.moves[place] = place_of(queue, to)
                return number
        return 0

    def allow(self, settings: StoreSettings) -> None:
        """Apply new limits; the engine checks at once whether anything is short."""
        self._writer.look()

    def flush(self, ticket: int, can_wait: bool = False) -> None:
        """Hand over all changes issued so far; the listener is told when they are on disk."""
        changes = self._changes
        self._changes = self._of_messages = Changes()
        changes.tickets.append(ticket)
        self._writer.submit(changes, can_wait)

    def hurry(self) -> None:
        """Write at once what was handed over and can wait."""
        self._writer.hurry()

    def page(self, ticket: int, places: list[Place]) -> None:
        """Read bodies; the listener gets them later."""
        self._writer.ask(BodyRead(ticket, [place_of(queue, seq) for queue, seq in places]))

    def close(self) -> None:
        """Finish what was handed over and let go of the disk."""
        self._writer.close()

    def _tell(self) -> None:
        """Pass the writer's report to the listener; called on the event loop's thread."""
        report = self._writer.take_report()
        if report is None:
            return
        for ticket in report.tickets:
            self.listener.finished(ticket, report.error)
        for page in report.pages:
            self.listener.paged(page.ticket, page.bodies, report.error)
        if report.error is not None and not report.tickets and not report.pages:
            self.listener.lost(report.error)
        if report.pressure is not None:
            self.listener.pressed(report.pressure)
