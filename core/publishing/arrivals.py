# Compiled by mypyc: see setup.py.
"""Arrivals: what happens to a message between its producer and its place in a queue.

In this order: a duplicate is dropped; the quota makes room; a message that is not due yet waits
outside the queue; a message with a newer value of a key replaces the older one. The checks that may
refuse a message (`check`, `needed`) are made before any message of its send is put anywhere.

| call       | which message                       | what it goes through                     |
|------------|-------------------------------------|------------------------------------------|
| `put`      | one that was sent                   | duplicates, quota, delay, last values    |
| `put_anyhow` | a dead letter, one that is moved  | delay, last values; nothing refuses it   |
| `let_in`   | a delayed one that is due now       | last values                              |
| `restore`  | one that a restart finds            | nothing: it has its number               |
| `enqueue`  | any that is to have its number now  | the choice between memory and the store  |

`let_in` and `restore` get a record of the message; its body may be in the store.
"""

from __future__ import annotations

from collections.abc import Sequence

from covey.config.settings import BrokerSettings
from covey.core.clock import Clock
from covey.core.errors import RefusedError
from covey.core.events.event import EventKind
from covey.core.model.entry import KEPT, PENDING, STORING, Entry
from covey.core.model.message import Message
from covey.core.queue.queue import Queue
from covey.core.queue.quota import drop_newcomer, is_over, take_room
from covey.core.queue.timers import PLACE, Waiting
from covey.core.storage.commits import Commits
from covey.core.storage.store import MessageRecord
from covey.groups.key import GroupIdError


class Arrivals:
    """The way into every queue."""

    def __init__(self, commits: Commits, clock: Clock, limits: BrokerSettings) -> None:
        self.commits = commits
        self.clock = clock
        self.limits = limits

    def check(self, queue: Queue, message: Message) -> None:
        """Raise RefusedError if the queue can never take the message."""
        try:
            queue.discipline.group_of(message)
        except GroupIdError as error:
            raise RefusedError(f"queue {queue.name}: {error}", "invalid") from error
        if not self._is_early(message):
            return
        delayed = queue.timers.delayed
        limits = self.limits
        if delayed.count >= limits.delayed_max:
            raise RefusedError(
                f"queue {queue.name}: {delayed.count} messages wait for their time already,"
                " the most that delayed_max allows",
                "limit",
            )
        is_kept = self.commits.keeps(queue, message)
        if not is_kept and delayed.resident + message.weight > limits.delayed_memory_max:
            raise RefusedError(
                f"queue {queue.name}: non-persistent messages of {delayed.resident} bytes wait for"
                " their time already, delayed_memory_max has no room for more",
                "limit",
            )

    def needed(self, queue: Queue, message: Message) -> tuple[int, int]:
        """Return how many more messages and bytes the queue will hold with this message."""
        duplicates = queue.discipline.duplicates
        if duplicates is not None and duplicates.holds(message, self.clock.now):
            return (0, 0)
        older = self._older(queue, message)
        return (1, message.size) if older is None else (0, message.size - older.size)

    def put(self, queue: Queue, message: Message) -> None:
        """Put a message into a queue, as its discipline and its quota allow."""
        duplicates = queue.discipline.duplicates
        if duplicates is not None and duplicates.holds(message, self.clock.now):
            queue.counters.duplicates += 1
            if self.commits.keeps(queue, message):
                self.commits.follow()  # the first copy may still be on its way to the disk
                self.commits.follow_parts()
            return
        if queue.has_quota and not self._make_place(queue, message):
            return
        self._put_or_delay(queue, message, None)
        if duplicates is not None:
            self.commits.remember(queue, message, duplicates)

    def put_anyhow(self, queue: Queue, message: Message, group: str = "") -> None:
        """Put a message from another queue into this one; a group id that is refused is left out.

        Its sender is long gone, and whoever moves it cannot mend it, so nobody could be refused.
        `group` is the group it had; it keeps that group if this queue finds none in the message.
        """
        discipline = queue.discipline
        try:
            found = discipline.group_of(message)
        except GroupIdError:
            found = ""
        if not found and group and discipline.has_groups:
            found = group
        self._put_or_delay(queue, message, found)

    def let_in(self, queue: Queue, waiting: Waiting) -> None:
        """Enqueue a delayed message that is due; in the store it moves to its sequence number."""
        values = queue.discipline.last_values
        older = None if values is None else values.older(waiting.key)
        commits = self.commits
        storage_state = queue.storage_state
        if queue.next_seq >= storage_state.reserve_at:
            commits.ledger.reserve(queue)
        if waiting.is_kept:
            commits.move(queue, _enter(queue, waiting, STORING), waiting.place)
        elif queue.next_seq >= storage_state.secured:
            commits.hold(queue, _enter(queue, waiting, STORING))
        else:
            entry = _enter(queue, waiting, PENDING)
            if commits.pager is not None:
                commits.pager.arrived(queue, entry)
        _drop(queue, older)

    def enqueue(
        self, queue: Queue, message: Message, key: str = "", group: str | None = None
    ) -> Entry:
        """Give a message its number and its place, in memory or through the store.

        The store keeps the key of a message in a last-value queue. In other queues it keeps the
        group, which is the message's own unless another is given.
        """
        commits = self.commits
        pager = commits.pager
        if pager is None:
            return queue.enqueue(message, PENDING, group)  # there is no store
        storage_state = queue.storage_state
        if queue.next_seq >= storage_state.reserve_at:
            commits.ledger.reserve(queue)
        if message.persistent and queue.is_durable:  # `Commits.keeps` by hand: once a message
            entry = queue.enqueue(message, STORING, group)
            commits.append(queue, entry, message, key or entry.lane.name)
        elif queue.next_seq >= storage_state.secured:
            entry = queue.enqueue(message, STORING, group)
            commits.hold(queue, entry)
        else:
            entry = queue.enqueue(message, PENDING, group)
            pager.arrived(queue, entry)
        return entry

    def _put_or_delay(self, queue: Queue, message: Message, group: str | None) -> None:
        """Put a message into a queue, however full it is: at once, or when the message is due.

        The group is the message's own unless another is given.
        """
        try:
            if message.due_ms and self._is_early(message):
                values = queue.discipline.last_values
                if values is not None:
                    key = values.key_of(message)
                else:
                    key = queue.discipline.group_of(message) if group is None else group
                self.commits.delay(queue, message, key)
                queue.mark()
            elif queue.discipline.last_values is None:
                self.enqueue(queue, message, "", group)
            else:
                self._replace(queue, message)
        except GroupIdError as error:
            raise RefusedError(f"queue {queue.name}: {error}", "invalid") from error

    def _make_place(self, queue: Queue, message: Message) -> bool:
        """Make room for a message as its queue's policy says; False: the message was dropped."""
        older = self._older(queue, message)
        if older is not None:
            is_tail = queue.settings.full_policy == "drop tail"
            if is_tail and is_over(queue, 0, message.size - older.size):
                drop_newcomer(queue)
                return False  # the older value stays
            _drop(queue, older)
        return take_room(queue, message.size)

    def _replace(self, queue: Queue, message: Message) -> None:
        values = queue.discipline.last_values
        assert values is not None
        key = values.key_of(message)
        older = values.older(key)
        entry = self.enqueue(queue, message, key)
        values.note(key, entry.seq)
        _drop(queue, older)

    def _older(self, queue: Queue, message: Message) -> Entry | None:
        values = queue.discipline.last_values
        if values is None or self._is_early(message):
            return None
        return values.older(values.key_of(message))

    def _is_early(self, message: Message) -> bool:
        return message.due_ms > self.clock.wall_ms


def _drop(queue: Queue, older: Entry | None) -> None:
    if older is not None:
        queue.counters.dropped += 1
        queue.drop(older, EventKind.DROP)


def restore(queue: Queue, records: Sequence[MessageRecord], entries_max: int) -> None:
    """Put recovered messages back at their numbers, without their bodies; numbers must ascend.

    Beyond so many entries the queue is packed.
    """
    storage_state = queue.storage_state
    expiry = queue.timers.expiry
    storage_state.has_kept = True
    for record in records:
        _, seq, key, deliveries, size, priority, expires_ms, _ = record
        if seq >= PLACE:
            queue.timers.delayed.restore(record)
            queue.mark()
            continue
        entry = _entry(queue, seq, key, priority, PENDING)
        before = entry.lane.last
        entry.size = storage_state.shared(size)
        entry.expires_ms = expires_ms
        entry.deliveries = deliveries
        entry.marks = KEPT
        if seq >= queue.next_seq:
            queue.next_seq = seq + 1
        queue.insert(entry)
        if expires_ms:
            entry.expires_ms = expiry.rounded(expires_ms)
        queue.counters.restored += 1
        if storage_state.out > entries_max:
            queue.dispatch.backlog.recovered(entry, before)


def _enter(queue: Queue, waiting: Waiting, state: int) -> Entry:
    """Give a delayed message that is due its number and its place."""
    entry = _entry(queue, queue.next_seq, waiting.key, waiting.priority, state)
    entry.message = waiting.message
    entry.size = waiting.size
    entry.expires_ms = waiting.expires_ms
    queue.next_seq += 1
    queue.insert(entry)
    queue.counters.enqueued += 1
    events = queue.state.events
    if events is not None:
        group, is_kept = entry.lane.name, waiting.is_kept
        events.arrive(EventKind.ENQUEUE, group, entry.seq, entry.size, is_kept, entry.message)
    return entry


def _entry(queue: Queue, seq: int, key: str, priority: int, state: int) -> Entry:
    """Make an entry without its body; the key is its group, or its key in a last-value queue."""
    discipline = queue.discipline
    group = key if discipline.has_groups else ""
    lane = queue.placement.lane_for(group) if group else discipline.ungrouped_lane(priority)
    if discipline.last_values is not None:
        discipline.last_values.note(key, seq)
    return Entry(seq, None, lane, state)
