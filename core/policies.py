"""Policies: which settings a name gets: the first entry of the configuration that matches it."""

from __future__ import annotations

from covey.config.queues import QueueSettings, SlowConsumerPolicy, TopicSettings
from covey.config.settings import Settings
from covey.core.destination import Syntax
from covey.core.wildcard import Pattern


class Policies:
    """The configuration's entries in their order."""

    def __init__(self, settings: Settings) -> None:
        syntax = Syntax()
        self.broker = settings.broker
        self._queues = [(_pattern(syntax, "/queue/", entry.id), entry) for entry in settings.queues]
        self._topics = [(_pattern(syntax, "/topic/", entry.id), entry) for entry in settings.topics]

    def queue(self, name: str) -> QueueSettings:
        """Return the policy of a queue."""
        for pattern, entry in self._queues:
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
        """Return what a topic does with slow subscribers: its own word, or its mirror's."""
        queue = self.queue(topic)
        if queue.mirrored and queue.slow_consumer_policy == "queue":
            return "queue"
        return self.topic(topic).slow_consumer_policy


def _pattern(syntax: Syntax, prefix: str, text: str) -> Pattern:
    (destination,) = syntax.parse(prefix + text, allow_patterns=True)
    return Pattern(destination)
