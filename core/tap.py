"""Tap: a queue that is filled from topics.

A durable subscription's queue, or the one a mirrored topic fills. Unlike a feed it takes a message
the moment it is published: the sender's receipt has to wait for the store if the queue does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covey.core.message import Message
    from covey.core.queue import Queue
    from covey.core.selector import Selector
    from covey.core.topic import Topic


class Tap:
    """A queue's share of one or more topics, through a selector if it has one."""

    def __init__(self, queue: Queue, enqueue: Callable[[Queue, Message], None]) -> None:
        self.queue = queue
        self.selector: Selector | None = None
        self.topics: dict[Topic, None] = {}  # an ordered set: a pattern may mean very many
        self._enqueue = enqueue

    def admits(self, message: Message) -> bool:
        """Say whether the selector lets the message through."""
        return self.selector is None or self.selector.matches(message.lookup)

    def offer(self, message: Message) -> None:
        """Put the message into the queue if the selector admits it."""
        if self.admits(message):
            self._enqueue(self.queue, message)
