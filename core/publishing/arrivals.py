# Compiled by mypyc: see setup.py.
"""Arrivals: what happens to a message between its producer and its place in a queue.

In this order: one that was sent before is dropped; the quota makes room; one whose time lies ahead
waits outside; one with a newer value of a key takes the older one's place. What may refuse a
message (`check`, `needed`) is asked before anything of its send is put anywhere.
"""

from __future__ import annotations

from covey.config.settings import BrokerSettings
from covey.core.clock import Clock
from covey.core.errors import RefusedError
from covey.core.events.event import EventKind
from covey.core.model.entry import Entry
from covey.core.model.message import Message
from covey.core.queue.queue import Queue
from covey.core.queue.quota import drop_newcomer, is_over, take_room
from covey.core.queue.timers import Waiting
from covey.core.storage.commits import Commits
from covey.groups.key import GroupIdError


class Arrivals:
    """The gate of every queue."""

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
        if not is_kept and delayed.resident + message.size > limits.delayed_memory_max:
            raise RefusedError(
                f"queue {queue.name}: non-persistent messages of {delayed.resident} bytes wait for"
                " their time already, delayed_memory_max has no room for more",
                "limit",
            )

    def needed(self, queue: Queue, message: Message) -> tuple[int, int]:
        """Return how many messages and bytes more the queue will hold with it."""
        duplicates = queue.discipline.duplicates
        if duplicates is not None and duplicates.holds(message):
            return (0, 0)
        older = self._older(queue, message)
        return (1, message.size) if older is None else (0, message.size - older.size)

    def take(self, queue: Queue, message: Message) -> None:
        """Put a message into a queue, as its discipline and its quota allow."""
        duplicates = queue.discipline.duplicates
        if duplicates is not None and duplicates.holds(message):
            queue.counters.duplicates += 1
            if self.commits.keeps(queue, message):
                self.commits.follow()  # the first of them may be on its way to the disk
            return
        if queue.has_quota and not self._make_place(queue, message):
            return
        self.place(queue, message)
        if duplicates is not None:
            self.commits.remember(queue, message, duplicates)

    def place(self, queue: Queue, message: Message, group: str | None = None) -> None:
        """Put a message into a queue, whatever it holds: at once, or when its time comes.

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
                self.commits.put(queue, message, "", group)
            else:
                self._replace(queue, message)
        except GroupIdError as error:
            raise RefusedError(f"queue {queue.name}: {error}", "invalid") from error

    def place_dead(self, queue: Queue, message: Message) -> None:
        """Put a dead message into its queue; without a group, if the one it has is refused there.

        Its sender is long gone, and whoever has it now cannot help it: there is nobody to refuse.
        """
        try:
            group = queue.discipline.group_of(message)
        except GroupIdError:
            group = ""
        self.place(queue, message, group)

    def come_due(self, queue: Queue, waiting: Waiting) -> None:
        """Let in a message whose time has come."""
        values = queue.discipline.last_values
        older = None if values is None else values.older(waiting.key)
        self.commits.enter(queue, waiting)
        _drop(queue, older)

    def _make_place(self, queue: Queue, message: Message) -> bool:
        """Make room for a message as its queue's policy says; False: it was dropped instead."""
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
        entry = self.commits.put(queue, message, key)
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
