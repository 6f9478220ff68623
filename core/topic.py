"""Topic: every subscriber gets each message; nobody there, nothing kept.

The one thing a topic remembers is the last message sent with `retain:set` (the Apollo STOMP
manual), which each later subscription gets first. It does not survive a restart.
"""

from __future__ import annotations

from covey.core.entry import PENDING, SHARED, Entry
from covey.core.feed import NO_LANE, Feed
from covey.core.message import FORGET_RETAINED, RETAIN, Message
from covey.core.subscriber import Subscriber


class Topic:
    """A name and those who listen to it."""

    __slots__ = ("delivered", "name", "published", "retained", "subscribers", "touched_at")

    def __init__(self, name: str) -> None:
        self.name = name
        self.subscribers: list[Subscriber] = []
        self.retained: Message | None = None
        self.published = 0
        self.delivered = 0
        self.touched_at = 0.0

    def publish(self, message: Message) -> list[Feed]:
        """Hand the message to everybody who listens; return those that do not keep up."""
        if message.retain == RETAIN:
            self.retained = message
        elif message.retain == FORGET_RETAINED:
            self.retained = None
        self.published += 1
        self.delivered += len(self.subscribers)
        shared = Entry(SHARED, message, NO_LANE, PENDING)
        slow: list[Feed] = []
        for subscriber in self.subscribers:
            subscriber.offer(message, shared)
            if subscriber.is_over and isinstance(subscriber, Feed):
                slow.append(subscriber)
        return slow

    def add(self, subscriber: Subscriber) -> None:
        """Let somebody listen; the retained message comes first."""
        if subscriber in self.subscribers:
            return
        self.subscribers.append(subscriber)
        if isinstance(subscriber, Feed):
            self.offer_retained(subscriber)

    def offer_retained(self, subscriber: Subscriber) -> None:
        """Give the retained message, if there is one, to somebody who is new here."""
        if self.retained is not None:
            subscriber.offer(self.retained, Entry(SHARED, self.retained, NO_LANE, PENDING))

    def discard(self, subscriber: Subscriber) -> None:
        """Let somebody go."""
        if subscriber in self.subscribers:
            self.subscribers.remove(subscriber)
