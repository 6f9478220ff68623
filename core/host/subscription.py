"""Subscription: one client's wish to read, over one or many destinations.

One SUBSCRIBE or attach makes one `Subscription`. It has one credit window and, for each queue it
reads, a consumer. All its topics share one consumer. With a pattern the subscription also gets
destinations that are made later. The host calls `attach` for queues and `listen` for topics, if the
user may read them.

Each consumer in a queue counts (`core.host.counts`), from `attach` until it is let go. A
subscription may be unable to read a queue that it must read: its user has too many consumers, or
the queue refuses it. Then it is not left to miss messages: it ends, and its client is told why.

A `Durable` subscription is a queue that listens to topics on behalf of clients that come and go.
Its name is global in the virtual host, so clients that use the same name share its messages. A
client may subscribe again with another destination or selector. That changes the subscription for
everybody (the Apollo STOMP manual, Topic Durable Subscriptions), or replaces it by a new one (JMS):
the client's protocol decides. A subscription may leave out what one client publishes itself
(no-local).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final

from covey.core.clock import Clock
from covey.core.errors import RefusedError
from covey.core.host.feed import Binding, Feed
from covey.core.host.topic import Topic
from covey.core.jobs.job import Steps
from covey.core.model.consumer import Consumer, Source, Window
from covey.core.model.entry import Entry, Outcome
from covey.core.naming.destination import Destination, Kind
from covey.core.naming.pattern import Pattern
from covey.core.queue.queue import Queue
from covey.core.security.users import Verb, may
from covey.core.selector import Selector

if TYPE_CHECKING:
    from covey.core.session import Session


HELD_LOOKED_AT: Final = 1000  # consumers that are counted: an estimate is enough


class Subscription:
    """What a client subscribed to, under the id it gave."""

    def __init__(
        self, session: Session, name: str, window: Window, make: Callable[[], Consumer]
    ) -> None:
        self.session = session
        self.name = name
        self.window = window
        self.make = make
        self.consumers: dict[Source, Consumer] = {}  # in the queues and the feed that it reads
        self.patterns: list[Pattern] = []
        self.topics: dict[Topic, None] = {}  # an ordered set: a pattern may match very many
        self.feed: Feed | None = None
        self.verb = Verb.CONSUME  # or BROWSE: what its user must be allowed to do
        self.is_lasting = True  # False: it ignores queues that are made later
        self.matches_zero = False  # True: its `a.**` matches `a`, too
        self.buffer_size = 640 * 1024  # bytes of topics that may wait before producers are blocked
        self.is_ending = False  # the broker ends it
        # How its protocol tells the client so, and unsubscribes. Called amid the core's work.
        self.lost: Callable[[RefusedError], None] = lambda error: session.kick(error.text)

    def may_read(self, kind: Kind, name: str) -> bool:
        """Return True if its user may read a destination that one of its patterns matches."""
        return may(self.session.identity, self.verb, str(Destination(kind, name)))

    def attach(self, queue: Queue, now: float) -> None:
        """Begin to read from a queue, if it does not yet; raises RefusedError if it may not."""
        if queue in self.consumers:
            return
        host = self.session.host
        user = self.session.identity.name
        host.consumers.check(user, host.policies.broker)
        consumer = self.make()
        consumer.name = self.name
        queue.join(consumer, now)
        self.consumers[queue] = consumer
        host.consumers.add(user)

    def listen(
        self, topic: Topic, buffer_size: int, clock: Clock, *, by_name: bool = False
    ) -> None:
        """Begin to hear a topic."""
        if self.feed is None:
            consumer = self.make()
            consumer.name = self.name
            self.feed = Feed(self.name, consumer, buffer_size, clock)
            self.feed.topics = self.topics
            self.consumers[self.feed] = consumer
        topic.hear(self.feed, by_name=by_name)
        self.topics[topic] = None

    def end(self, error: RefusedError) -> None:
        """End it, since it cannot read what it must: it gets nothing more, its client is told."""
        session = self.session
        if self.is_ending or session.is_gone:
            return
        self.is_ending = True
        session.host.forget_patterns(self)
        session.host.audit.subscription_ended(
            session.identity.name, session.remote, self.name, error.text
        )
        self.lost(RefusedError(f"subscription {self.name} ends: {error.text}", error.code))

    @property
    def held(self) -> int:
        """Return about how many topics, consumers and deliveries there are to let go of."""
        looked_at = islice(self.consumers.values(), HELD_LOOKED_AT)
        unsettled = sum([len(each.unsettled) for each in looked_at])
        return len(self.topics) + len(self.consumers) + unsettled

    def detaching(self, now: float, *, counted: bool) -> Steps:
        """Leave every queue and topic, step by step; the messages that it held return."""
        self.window.is_paused = True  # from now on it gets nothing
        for topic in list(self.topics):
            if self.feed is not None:
                topic.forget(self.feed)
            self.topics.pop(topic, None)
            yield 1
        for source in list(self.consumers):
            consumer = self.consumers.pop(source)
            if source is not self.feed:
                self.session.host.consumers.discard(self.session.identity.name)
            if consumer.queue is not None:  # else the queue is gone
                yield from source.leaving(consumer, now, counted=counted)
            yield 1


def settle(entry: Entry, outcome: Outcome, now: float, reason: str = "") -> None:
    """Settle an entry at its source: a queue or a feed."""
    consumer = entry.holder
    if consumer is not None and consumer.queue is not None:
        consumer.queue.settle(entry, outcome, now, reason)


class Durable:
    """A durable subscription: its queue, and what fills it."""

    def __init__(self, name: str, queue: Queue, binding: Binding) -> None:
        self.name = name
        self.queue = queue
        self.binding = binding
        self.destinations: tuple[Destination, ...] = ()
        self.patterns: list[Pattern] = []
        self.topics = binding.topics
        # While it is introduced to topics: which of them it heard before its wishes changed.
        self.heard_before: set[Topic] = set()
        self.introductions = 0  # how often that began

    def is_already(self, destinations: tuple[Destination, ...], selector: Selector | None) -> bool:
        """Return True if it hears exactly these destinations with this selector."""
        known = self.binding.selector
        same = (known.text if known else "") == (selector.text if selector else "")
        return same and self.destinations == destinations

    def listen(self, topic: Topic, *, by_name: bool = False) -> None:
        """Begin to hear a topic."""
        topic.fill(self.binding, by_name=by_name)
        self.topics[topic] = None

    def unlisten(self) -> None:
        """Hear nothing any more."""
        for topic in self.topics:
            topic.stop_filling(self.binding)
        self.topics.clear()
