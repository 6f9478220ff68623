"""Audience: who hears the topics of a virtual host by pattern.

A pattern may match a hundred thousand topics, most of which nobody uses at the moment. So nothing
is done for them when somebody subscribes. A topic *meets* its new listeners when it is used next,
before it takes a message. Listeners are numbered as they come (`newest`), and a topic knows up to
which number it has met them. Only topics with a retained message meet a new listener soon
(`introduce`, in portions), since the listener must get the retained message first.

No pattern matches temporary topics: each belongs to one connection. A user does not hear a topic
that it may not read. Its permissions are checked when the topic meets the listener.
"""

from __future__ import annotations

from typing import Final

from covey.core.clock import Clock
from covey.core.host.subscription import Durable, Subscription
from covey.core.host.topic import Topic
from covey.core.naming.destination import TEMPORARY_ROOT, Kind
from covey.core.naming.pattern import Pattern
from covey.core.naming.pattern_index import PatternIndex
from covey.core.naming.policies import Policies
from covey.core.security.users import Verb

OWN: Final = -1  # in place of a size


class Audience:
    """The listeners by pattern, of present and future topics."""

    def __init__(self, policies: Policies, clock: Clock) -> None:
        self.policies = policies
        self.newest = 0  # the number of the last listener
        self.retaining: dict[Topic, None] = {}  # topics with a retained message
        self._clock = clock
        self._subscriptions: PatternIndex[Subscription] = PatternIndex()
        self._durables: PatternIndex[Durable] = PatternIndex()

    def meet(self, topic: Topic) -> None:
        """Let everybody whose pattern matches a topic hear it."""
        topic.met = self.newest
        if topic.name.startswith(TEMPORARY_ROOT):
            return
        self._meet_readers(topic)
        for durable in self._durables.matching(topic.name):
            self.admit_durable(durable, topic)

    def _meet_readers(self, topic: Topic) -> None:
        """Let connected readers hear a topic.

        There may be tens of thousands, so the topic's policy is asked for once, and the rights of
        each login once.
        """
        answers: dict[tuple[int, Verb], bool] = {}
        buffer_size = 0
        for subscription in self._subscriptions.matching(topic.name):
            if topic in subscription.topics:
                continue
            asked = id(subscription.session.identity), subscription.verb
            answer = answers.get(asked)
            if answer is None:
                answer = answers[asked] = subscription.may_read(Kind.TOPIC, topic.name)
                buffer_size = buffer_size or self._own_buffer_size(topic)
            if answer:
                size = subscription.buffer_size if buffer_size == OWN else buffer_size
                subscription.listen(topic, size, self._clock)

    def listen(self, subscription: Subscription, topic: Topic) -> None:
        """Let a subscription hear a topic, with the buffer that the topic's policy allows."""
        subscription.listen(topic, self._buffer_size(subscription, topic), self._clock)

    def reconsider(self, subscription: Subscription) -> None:
        """Apply changed policies to a subscription that listens already."""
        if subscription.feed is not None and subscription.topics:
            first = next(iter(subscription.topics))  # the first topic decided at the beginning, too
            subscription.feed.allow(self._buffer_size(subscription, first))

    def _buffer_size(self, subscription: Subscription, topic: Topic) -> int:
        size = self._own_buffer_size(topic)
        return subscription.buffer_size if size == OWN else size

    def _own_buffer_size(self, topic: Topic) -> int:
        """Return the buffer that a topic's policy gives to its readers; OWN: each has its own."""
        if self.policies.slow_consumer(topic.name) == "queue":
            return self.policies.broker.memory_window_queue
        return OWN

    def add(self, subscription: Subscription, pattern: Pattern) -> None:
        """Let a subscription hear every topic that its pattern matches."""
        self._subscriptions.add(pattern, subscription)
        self.newest += 1

    def introduce(self, subscription: Subscription, topic: Topic, pattern: Pattern) -> None:
        """Let a new listener hear a topic's retained message, if its pattern matches the topic."""
        if topic.retained is None or topic.name.startswith(TEMPORARY_ROOT):
            return
        if pattern.matches(topic.name):
            self._admit(subscription, topic)

    def discard(self, subscription: Subscription, pattern: Pattern) -> None:
        """Let a subscription meet no more topics; it leaves those that it has met by itself."""
        self._subscriptions.discard(pattern, subscription)

    def add_durable(self, durable: Durable, pattern: Pattern) -> None:
        """Let a durable subscription hear every topic that its pattern matches."""
        self._durables.add(pattern, durable)
        self.newest += 1

    def introduce_durable(self, durable: Durable, topic: Topic) -> None:
        """Let a durable subscription have a topic's retained message, if its patterns match."""
        if topic.retained is None or topic.name.startswith(TEMPORARY_ROOT):
            return
        if any(pattern.matches(topic.name) for pattern in durable.patterns):
            self.admit_durable(durable, topic)

    def admit_durable(self, durable: Durable, topic: Topic) -> None:
        """Let a durable subscription hear a topic, and first its retained message if it is new."""
        if topic not in durable.topics:
            durable.listen(topic)
            if topic not in durable.heard_before:
                topic.offer_retained(durable.binding, self._clock)

    def discard_durable(self, durable: Durable, pattern: Pattern) -> None:
        """Let a durable subscription meet no more topics by this pattern."""
        self._durables.discard(pattern, durable)

    def forget_if_expired(self, topic: Topic) -> None:
        """Let a topic forget its retained message if that has expired."""
        if topic.retained is not None and self._clock.has_passed(topic.retained.expires_ms):
            topic.forget_retained()

    def _admit(self, subscription: Subscription, topic: Topic) -> None:
        if topic not in subscription.topics and subscription.may_read(Kind.TOPIC, topic.name):
            self.listen(subscription, topic)
