# Compiled by mypyc: see setup.py.
"""Commits: what goes to the store, and what can be seen once it is there.

A turn's changes go to the store as one batch. When the batch is on disk, its entries become visible
and the receipts that waited for it are sent. A store that is not durable gets no batches: its
messages are visible at once, and no receipt waits.

An entry waits for the disk if its message is persistent. It also waits if its sequence number
belongs to a block that is not yet reserved on disk. The bytes on their way to the disk are counted,
and a producer that sends too many has to wait (`core.storage.overload`). After a failure nothing
more is shown or promised, and the server ends.

A client's long commit is carried out in portions, while other sessions' batches go to the disk.
Its changes are gathered in a part, which joins one batch at the end (`core.storage.batch`).

Some batches may wait a little, so that they cost no write of their own. These only forget messages
that were settled, and nobody waits for them: no receipt, no entry, no block of numbers. The store
keeps such a batch for the next one (`can_wait`). As soon as somebody asks for a promise that such a
batch holds, the store is told to hurry. Whoever had no confirmation was promised nothing: the
message of an acknowledgement that was under way may come again after a kill.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from covey.config.settings import Settings, StoreSettings
from covey.core.clock import Clock
from covey.core.events.event import EventSink
from covey.core.model.entry import KEPT, SPILLED, STORING, Entry
from covey.core.model.message import Message
from covey.core.queue.discipline import FIRST_ID, IDS_MAX, Duplicates
from covey.core.queue.queue import Queue
from covey.core.storage.batch import Batch, BatchPart
from covey.core.storage.ledger import Ledger
from covey.core.storage.listener import StoreListener
from covey.core.storage.overload import MESSAGE_COST, Overload, Unwritten
from covey.core.storage.paging import BodiesInMemory, Decoder, Pager
from covey.core.storage.promises import Promises
from covey.core.storage.store import BodyRecord, MessageStore, NamedRecord

if TYPE_CHECKING:
    from covey.core.queue.timers import Waiting

EVENTS: Final = "event-log"  # the kind of named record that says which run had the store
RUN: Final = "run"  # that record's key; its value: the run, and its last event before a change
NOT_LOGGED: Final = "(not logged)"  # follows the name of a run that logs no events (any more)

STUCK_S: Final = 1.0  # how long a batch may be under way to the store while deliveries go on


class Commits(StoreListener):
    """The batch being gathered, and those on their way to the disk."""

    def __init__(
        self,
        store: MessageStore,
        settings: Settings,
        decoders: Mapping[str, Decoder],
        wake: Callable[[], None],
        clock: Clock,
        unwritten: Unwritten | None = None,
        bodies: BodiesInMemory | None = None,
    ) -> None:
        """Begin with nothing; `wake` asks for another turn.

        `unwritten` and `bodies` count bytes for all stores of the process together.
        """
        self._clock = clock
        self.slowest_s = 0.0  # the longest commit since somebody set this to 0
        self.store = store
        self.wake = wake
        self.overload = Overload(settings.store.unwritten_max, unwritten)
        self.promises = Promises(store.hurry)
        self.is_durable = store.is_durable
        self.ledger = Ledger(store, self._promise)
        # Without a store nothing is ever put out of memory.
        self.pager: Pager | None = None
        if store.is_durable:
            self.pager = Pager(self, settings.broker, decoders, bodies or BodiesInMemory())
        self.batch = Batch()
        self.messages_of = self.batch  # where messages go: this batch, or that of the entered part
        self.parts: list[BatchPart] = []  # those that have not joined a batch, the oldest first
        self._kept_back: deque[tuple[int, list[BatchPart]]] = deque()  # tickets that wait for parts
        self.has_changes = False
        self._is_urgent = False  # there are changes that may not wait for the next batch
        self.in_flight: dict[int, Batch] = {}
        self.events: EventSink | None = None
        self._tells_of_disk = False
        self.run = ""
        self.position = 0  # the last event whose number was given to the store
        store.listen(self)

    def keeps(self, queue: Queue, message: Message) -> bool:
        """Return True if a message in this queue is to survive a restart."""
        return message.persistent and self.is_durable and queue.is_durable

    # Entries that cannot be seen yet (`core.publishing.arrivals` makes them).

    def append(self, queue: Queue, entry: Entry, message: Message, key: str) -> None:
        """Write a new message, and show its entry once the disk has it."""
        entry.marks = KEPT  # a new entry has no other marks
        queue.storage_state.has_kept = True
        self.store.append(queue.storage_state.number, entry.seq, key, message)
        batch = self.messages_of
        batch.size += message.weight + MESSAGE_COST
        self.overload.add(message.weight)
        batch.entries.append((queue, entry))
        self.has_changes = self.promises.is_unclaimed = True

    def move(self, queue: Queue, entry: Entry, place: int) -> None:
        """Move a delayed message to its sequence number on disk, and show its entry then.

        If a part still has to bring the message to the disk, the move becomes part of it.
        """
        entry.stored = KEPT
        queue.storage_state.has_kept = True
        number = queue.storage_state.number
        part = self.store.move_within(number, place, entry.seq) if self.parts else 0
        if part:
            batch = next(each.batch for each in self.parts if each.number == part)
            batch.entries.append((queue, entry))
            return
        self.store.move(number, place, entry.seq)
        self.hold(queue, entry)

    def hold(self, queue: Queue, entry: Entry) -> None:
        """Show an entry once its number is reserved on disk."""
        self.batch.entries.append((queue, entry))
        self._promise()

    # Other changes.

    def delay(self, queue: Queue, message: Message, key: str) -> None:
        """Let a message wait until it is due, in the store if it is to survive a restart."""
        is_kept = self.keeps(queue, message)
        waiting = queue.timers.delayed.add(message, key, is_kept=is_kept)
        if is_kept:
            queue.storage_state.has_kept = True
            self.store.append(queue.storage_state.number, waiting.place, key, message)
            self.messages_of.size += message.weight + MESSAGE_COST
            self.overload.add(message.weight)
            self._promise()

    def given_up(self, queue: Queue, waiting: Waiting) -> None:
        """Forget a delayed message on disk, too."""
        number = queue.storage_state.number
        if not waiting.is_kept or not number:
            return
        if not self.parts or not self.store.withdraw(number, waiting.place):
            self.store.delete(number, waiting.place)
        self._promise()

    def remember(self, queue: Queue, message: Message, duplicates: Duplicates) -> None:
        """Remember a message's id, in the store if the message is kept there."""
        known = duplicates.add(message, self._clock.now)
        if known is None or not self.keeps(queue, message):
            return
        number = queue.storage_state.number
        if known[0] == FIRST_ID:
            # Numbers begin anew when no id was left: the store may still have those from before.
            self.store.forget_ids(number, IDS_MAX)
        self.store.remember(number, *known)
        outdated = duplicates.take_outdated()
        if outdated:
            self.store.forget_ids(number, outdated)
        self._promise()

    def removed(self, queue: Queue, entry: Entry) -> None:
        """Forget a settled message on disk, too."""
        number = queue.storage_state.number
        if number == 0:
            return  # the queue was deleted, and all its rows with it
        if queue.dropped_to > queue.storage_state.dropped_to:
            self.ledger.note_dropped(queue)
        if entry.stored == KEPT:
            is_coming = entry.state == STORING and bool(self.parts)
            if not is_coming or not self.store.withdraw(number, entry.seq):
                self.store.delete(number, entry.seq)
            self.promises.is_unclaimed = True
        else:
            self.store.unspill(number, entry.seq)
        self.has_changes = True

    def retried(self, queue: Queue, entry: Entry) -> None:
        """Write to the disk how often a message came back."""
        if entry.stored == KEPT and queue.storage_state.number:
            self.store.count_retry(queue.storage_state.number, entry.seq, entry.deliveries)
            self._promise()

    def spill(self, queue: Queue, entry: Entry) -> None:
        """Write a body that memory has no room for to the scratch file."""
        entry.stored = SPILLED
        queue.storage_state.has_spilled = True
        self.store.spill(queue.storage_state.number, entry.seq, entry.content)
        self.batch.spilled.append((queue, entry))
        weight = entry.content.weight
        self.batch.spilled_size += weight + MESSAGE_COST
        self.overload.spill(weight)
        self.has_changes = True

    def _promise(self) -> None:
        """Note a change that its session's receipt has to wait for."""
        self.has_changes = self._is_urgent = True
        self.promises.is_unclaimed = True

    def follow(self) -> None:
        """Let the acting session wait for all batches under way, whoever made their changes.

        Called when its own request changes nothing, because somebody else has done the same.
        """
        if self.in_flight or self.is_due:
            self._promise()

    # Parts.

    def open_part(self) -> BatchPart:
        """Begin a part."""
        position = 0 if self.events is None else self.events.hand_over()
        part = BatchPart(self.store.open_part(), position)
        self.parts.append(part)
        return part

    def enter(self, part: BatchPart) -> None:
        """Gather the changes of messages in the part, until `leave`."""
        self.messages_of = part.batch
        self.store.enter_part(part.number)

    def leave(self, size_before: int) -> None:
        """Gather changes in the batch again; the part counts as unwritten only when it joins."""
        self.overload.written(self.messages_of.size - size_before, 0)
        self.messages_of = self.batch
        self.store.enter_part(0)

    def join(self, part: BatchPart) -> None:
        """Add a part to the batch that is being gathered."""
        self.store.join_part(part.number)
        self.parts.remove(part)
        self.batch.parts.append(part)
        self.batch.size += part.batch.size
        self.overload.add(part.batch.size - MESSAGE_COST)
        self._promise()

    def follow_parts(self) -> None:
        """Let the acting session wait for every part that has not joined a batch, too."""
        if self.parts:
            self.batch.behind = list(self.parts)
            self._promise()

    def _joined(self, batch: Batch) -> None:
        """Mark the batch's parts as safe, and keep the promises that waited for them."""
        for part in batch.parts:
            part.is_safe = True
        kept_back = self._kept_back
        while kept_back and all([part.is_safe for part in kept_back[0][1]]):
            self.promises.keep(kept_back.popleft()[0])

    def _keep_later(self, ticket: int, batch: Batch) -> None:
        """Keep a batch's promises once the parts behind it are safe, in the order of tickets."""
        self._kept_back.append((ticket, batch.behind))
        self._joined(batch)

    # To the store and back.

    @property
    def is_due(self) -> bool:
        """Return True if something is to be handed to the store."""
        return self.has_changes or self.ledger.has_changes

    def is_suspended(self, now: float) -> bool:
        """Return True if the store's lease may be over, and another broker has the messages."""
        return 0.0 < self.store.valid_until() < now

    def is_stuck(self, now: float) -> bool:
        """Return True if a batch is under way for too long: what is settled now may come again."""
        for batch in self.in_flight.values():  # the oldest is the first
            return now > batch.handed_at + STUCK_S
        return False

    def flush(self, now: float = 0.0) -> None:
        """Hand the turn's changes to the store; called when there are some."""
        ledger = self.ledger
        batch = self.batch
        batch.reserved, ledger.reserved = ledger.reserved, []
        is_urgent = self._is_urgent or ledger.has_changes or batch.is_awaited()
        can_wait = not is_urgent and not self.promises.is_anybody_waiting()
        self.has_changes = ledger.has_changes = self._is_urgent = False
        self.batch = self.messages_of = Batch()
        if self.events is not None:
            self._note_position(self.events)
        ticket = self.promises.hand_over(can_wait)
        batch.handed_at = self._clock.now
        batch.can_wait = can_wait
        self.in_flight[ticket] = batch
        self.store.flush(ticket, can_wait)

    def _note_position(self, events: EventSink) -> None:
        """Hand the events to the event log before the store gets the batch that follows them.

        So a restart never finds a change in the store that the event log does not have.
        """
        position = events.hand_over()
        if self.parts:
            position = min(position, self.parts[0].position)
        if self.is_durable and position > self.position:
            self.position = position
            self.store.put(NamedRecord("", EVENTS, RUN, f"{self.run} {position}"))

    def watched(self, run: str, events: EventSink | None) -> tuple[str, int]:
        """Called with the event log that gets all events from now on, and the name of this run.

        Return the run that used this store before, and its last position; "" if it is not known.
        """
        known = self.ledger.records_of("", EVENTS).get(RUN, "")
        before, _, position = known.rpartition(" ")
        is_logged = events is not None and events.is_log()
        if not is_logged and self.is_durable and (known or self.position):
            self.ledger.put("", EVENTS, RUN, f"{run} {NOT_LOGGED} 0")
        self.run = run
        self.events = events
        self._tells_of_disk = events is not None and events.hears_of_disk()
        self.position = 0
        return before, int(position or 0)

    def finished(self, ticket: int, error: Exception | None) -> None:
        """Called by the store: show the batch's entries, or after an error promise nothing more."""
        batch = self.in_flight.pop(ticket)
        if not batch.can_wait:
            self.slowest_s = max(self.slowest_s, self._clock.now - batch.handed_at)
        if error is not None or self.promises.failure is not None:
            self.fail(error)
            return
        for queue, limit in batch.reserved:
            queue.storage_state.secured = max(queue.storage_state.secured, limit)
        pager = self.pager
        for queue, entry in batch.entries:
            queue.committed(entry)
            if pager is not None:
                pager.arrived(queue, entry)
        if self._tells_of_disk:
            batch.tell_stored()
        if pager is not None:
            for queue, entry in batch.spilled:
                pager.put_out(queue, entry)
        if batch.parts:
            self._joined(batch)
        if self._kept_back or batch.behind:
            self._keep_later(ticket, batch)
        else:
            self.promises.keep(ticket)
        self.overload.written(batch.size, batch.spilled_size)
        self.wake()

    def fail(self, error: Exception | None) -> None:
        """Called when the store cannot write any more: nothing is promised from now on."""
        self.promises.fail(error)
        self.wake()

    def lost(self, error: Exception) -> None:
        """Called by the store when it failed while no batch was under way."""
        self.fail(error)

    def allow(self, settings: StoreSettings) -> None:
        """Apply new limits of the store."""
        self.overload.allow(settings.unwritten_max)
        self.store.allow(settings)

    def pressed(self, reason: str) -> None:
        """Called with the reason why nothing persistent can be written now, "" when it can."""
        self.overload.press(reason)
        self.wake()

    def paged(self, ticket: int, bodies: list[BodyRecord], error: Exception | None) -> None:
        """Give the bodies that the store has read to their entries."""
        if error is not None:
            self.fail(error)
        elif self.pager is not None:
            self.pager.paged(ticket, bodies)
