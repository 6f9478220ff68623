"""Policies: which settings a name gets: the first entry of the configuration that matches the name.

The queue behind a durable subscription goes by the `[[queue]]` entries whose id starts with
`dsub:`, and by no others. A policy for all queues was not written with subscriptions in mind.
"""

from __future__ import annotations

from covey.config.queues import QueueSettings, SlowConsumerPolicy, TopicSettings
from covey.config.settings import Settings
from covey.core.naming.destination import DURABLE_PREFIX, Syntax
from covey.core.naming.pattern import Pattern


class Policies:
    """The configuration's entries in their order."""

    def __init__(self, settings: Settings) -> None:
        syntax = Syntax()
        self.broker = settings.broker
        self._queues: list[tuple[Pattern, QueueSettings]] = []
        self._durables: list[tuple[Pattern, QueueSettings]] = []
        for entry in settings.queues:
            name = entry.id.removeprefix(DURABLE_PREFIX)
            entries = self._queues if name == entry.id else self._durables
            entries.append((_pattern(syntax, "/queue/", name), entry))
        self._topics = [(_pattern(syntax, "/topic/", entry.id), entry) for entry in settings.topics]

    def queue(self, name: str) -> QueueSettings:
        """Return the policy of a queue."""
        for pattern, entry in self._queues:
            if pattern.matches(name):
                return entry
        return QueueSettings()

    def durable(self, name: str) -> QueueSettings:
        """Return the policy of the queue behind a durable subscription."""
        for pattern, entry in self._durables:
            if pattern.matches(name):
                return entry
        return QueueSettings()

    def topic(self, name: str) -> TopicSettings:
        """Return the policy of a topic."""
        for pattern, entry in self._topics:
            if pattern.matches(name):
                return entry
        return TopicSettings()

    def slow_consumer(self, topic: str) -> SlowConsumerPolicy:
        """Return what a topic does with slow subscribers, by its own or its mirror's policy."""
        queue = self.queue(topic)
        if queue.mirrored and queue.slow_consumer_policy == "queue":
            return "queue"
        return self.topic(topic).slow_consumer_policy


def _pattern(syntax: Syntax, prefix: str, text: str) -> Pattern:
    (destination,) = syntax.parse(prefix + text, allow_patterns=True)
    return Pattern(destination)
