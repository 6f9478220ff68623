"""Durable: a queue that listens to topics on behalf of clients that come and go.

Its name is global in the virtual host, so clients that use the same one share its messages. A
client that subscribes again with another destination or selector changes it for everybody (the
Apollo STOMP manual, Topic Durable Subscriptions).
"""

from __future__ import annotations

from covey.core.destination import Destination
from covey.core.queue import Queue
from covey.core.selector import Selector
from covey.core.tap import Tap
from covey.core.topic import Topic
from covey.core.wildcard import Pattern


class Durable:
    """A durable subscription: its queue, and what fills it."""

    def __init__(self, name: str, queue: Queue, tap: Tap) -> None:
        self.name = name
        self.queue = queue
        self.tap = tap
        self.destinations: tuple[Destination, ...] = ()
        self.patterns: list[Pattern] = []
        self.topics = tap.topics
        self._named: list[Topic] = []  # those it hears by their names

    def is_already(self, destinations: tuple[Destination, ...], selector: Selector | None) -> bool:
        """Say whether it hears just this."""
        known = self.tap.selector
        same = (known.text if known else "") == (selector.text if selector else "")
        return same and self.destinations == destinations

    def listen(self, topic: Topic) -> None:
        """Hear a topic, too."""
        topic.fill(self.tap)
        self.topics[topic] = None

    def listen_by_name(self, topic: Topic) -> None:
        """Hear a topic for as long as it is not told otherwise."""
        self.listen(topic)
        self._named.append(topic)
        topic.named += 1

    def unlisten(self) -> None:
        """Hear nothing any more."""
        for topic in self._named:
            topic.named -= 1
        self._named.clear()
        for topic in self.topics:
            topic.stop_filling(self.tap)
        self.topics.clear()
