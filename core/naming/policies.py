"""Policies: which settings a name gets: the first entry of the configuration that matches the name.

Entries are found by an index: of ten thousand, only those are looked at whose parts agree with the
name. So a queue is made, and a reload comes to it, in the same time however many entries there are.

The queue behind a durable subscription goes by the `[[queue]]` entries whose id starts with
`dsub:`, and by no others. A policy for all queues was not written with subscriptions in mind.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Generic, TypeVar

from covey.config.queues import QueueSettings, SlowConsumerPolicy, TopicSettings
from covey.config.settings import Settings
from covey.core.naming.destination import DURABLE_PREFIX, Syntax
from covey.core.naming.pattern import Pattern
from covey.core.naming.pattern_index import PatternIndex

SYNTAX: Final = Syntax()
PATTERNS_KEPT_MAX: Final = 20_000  # for the next reload, in which nearly all are the same
USUAL_QUEUE: Final = QueueSettings()
USUAL_TOPIC: Final = TopicSettings()
E = TypeVar("E")


class Entries(Generic[E]):
    """Entries of one sort, in their order."""

    def __init__(self, usual: E) -> None:
        self._usual = usual  # for a name that no entry matches
        self._entries: list[E] = []
        self._numbers: PatternIndex[int] = PatternIndex()

    def add(self, pattern: Pattern, entry: E) -> None:
        """Add an entry behind all others."""
        self._numbers.add(pattern, len(self._entries))
        self._entries.append(entry)

    def first(self, name: str) -> E:
        """Return the first entry whose pattern matches a name."""
        if not self._entries:
            return self._usual
        found = self._numbers.matching(name)
        return self._entries[found[0]] if found else self._usual


class Policies:
    """The configuration's entries in their order."""

    def __init__(self, settings: Settings) -> None:
        self.broker = settings.broker
        self._queues = Entries(USUAL_QUEUE)
        self._durables = Entries(USUAL_QUEUE)
        self._topics = Entries(USUAL_TOPIC)
        for entry in settings.queues:
            name = entry.id.removeprefix(DURABLE_PREFIX)
            entries = self._queues if name == entry.id else self._durables
            entries.add(_pattern("/queue/", name), entry)
        for topic in settings.topics:
            self._topics.add(_pattern("/topic/", topic.id), topic)

    def queue(self, name: str) -> QueueSettings:
        """Return the policy of a queue."""
        return self._queues.first(name)

    def durable(self, name: str) -> QueueSettings:
        """Return the policy of the queue behind a durable subscription."""
        return self._durables.first(name)

    def topic(self, name: str) -> TopicSettings:
        """Return the policy of a topic."""
        return self._topics.first(name)

    def slow_consumer(self, topic: str) -> SlowConsumerPolicy:
        """Return what a topic does with slow subscribers, by its own or its mirror's policy."""
        queue = self.queue(topic)
        if queue.mirrored and queue.slow_consumer_policy == "queue":
            return "queue"
        return self.topic(topic).slow_consumer_policy


@lru_cache(PATTERNS_KEPT_MAX)
def _pattern(prefix: str, text: str) -> Pattern:
    (destination,) = SYNTAX.parse(prefix + text, allow_patterns=True)
    return Pattern(destination)
