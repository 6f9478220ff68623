"""Subscriber: what a topic hands its messages to.

A `Feed` for a connected client, a `Tap` for a queue: a durable subscription's, or the queue a
mirrored topic fills.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from mypy_extensions import trait

if TYPE_CHECKING:
    from covey.core.entry import Entry
    from covey.core.message import Message
    from covey.core.queue import Queue
    from covey.core.selector import Selector


@trait  # a feed is a source, too, and a compiled class has one base besides traits
class Subscriber(ABC):
    """Somebody who gets a copy of each message of a topic."""

    is_over = False  # so much waits for it that producers should wait, too

    @abstractmethod
    def offer(self, message: Message, shared: Entry) -> None:
        """Take a message; `shared` is an entry that may be used by many at once."""


class Tap(Subscriber):
    """A queue that is filled from topics, through a selector if it has one."""

    def __init__(self, queue: Queue, enqueue: Callable[[Queue, Message], None]) -> None:
        self.queue = queue
        self.selector: Selector | None = None
        self._enqueue = enqueue

    def offer(self, message: Message, shared: Entry) -> None:
        """Put the message into the queue if the selector admits it."""
        if self.selector is None or self.selector.matches(message.lookup):
            self._enqueue(self.queue, message)
