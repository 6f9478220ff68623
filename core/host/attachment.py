"""Attachment: how a subscription joins its destinations, and how it leaves them, in portions.

A pattern may match tens of thousands of queues, and a subscription may hold as many messages. So
each of these is a job (`core.jobs`).

| job           | what it does                                 | meanwhile                        |
|---------------|----------------------------------------------|----------------------------------|
| `Subscribe`   | attaches a subscription to all it reads      | a new queue is attached, too     |
| `Unsubscribe` | gives back what it held, queue after queue   | it gets nothing more             |
| `Welcome`     | attaches all that match a new queue          | the queue hands out nothing      |
| `Introduce`   | gives retained messages to a durable one     | its queue hands out nothing      |
| `Disconnect`  | ends all that a connection has left behind   | it gets nothing more             |
| `Sweep`       | removes what is empty and unused             | each is checked in its turn      |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from covey.core.errors import RefusedError
from covey.core.host.subscription import Durable, Subscription
from covey.core.jobs.job import Job, Steps
from covey.core.naming.destination import TEMPORARY_ROOT, Destination, Kind
from covey.core.naming.pattern import Pattern
from covey.core.queue.queue import Queue

if TYPE_CHECKING:
    from covey.core.host.virtual_host import VirtualHost
    from covey.core.publishing.transactions import Transaction
    from covey.core.session import Session


class Subscribe(Job):
    """A subscription begins to read from all its destinations, or from none (`flaw`)."""

    def __init__(self, subscription: Subscription, destinations: tuple[Destination, ...]) -> None:
        host = subscription.session.host
        total = 0
        for place in destinations:
            if not place.is_pattern:
                total += 1
            elif place.kind is Kind.TOPIC:
                total += len(host.audience.retained.topics)
            else:
                total += len(host.queues)
        target = ",".join([str(place) for place in destinations[:3]])
        super().__init__("subscribe", target, subscription.session, total)
        self.outlives_session = False
        self.subscription = subscription
        self.destinations = destinations
        self.flaw: RefusedError | None = None  # why it cannot read all of them

    def steps(self) -> Steps:
        """Attach to one destination after the other, until one of them is refused."""
        try:
            yield from self._attaching()
        except RefusedError as error:
            self.flaw = error

    def ended(self) -> None:
        """End the subscription if it turned out late that it cannot read everything."""
        if self.flaw is not None and self.number:
            self.subscription.end(self.flaw)

    def _attaching(self) -> Steps:
        subscription = self.subscription
        host = subscription.session.host
        for destination in self.destinations:
            if not destination.is_pattern:
                host.subscribe(subscription, destination)
                yield 1
                continue
            pattern = Pattern(destination, descendant_matches_zero=subscription.matches_zero)
            subscription.patterns.append(pattern)
            host.patterns += 1
            if destination.kind is Kind.TOPIC:
                host.audience.add(subscription, pattern)
                for topic in list(host.audience.retained.topics):
                    host.audience.introduce(subscription, topic, pattern)
                    yield 1
                continue
            if subscription.is_lasting:
                host.queue_patterns.add(pattern, subscription)
            for name in list(host.queues):
                if subscription.is_ending:
                    return  # it could not read a new queue
                queue = host.queues.get(name)
                # No pattern matches temporary queues: each belongs to one connection.
                if queue is None or name.startswith(TEMPORARY_ROOT) or not pattern.matches(name):
                    yield 1
                elif subscription.may_read(Kind.QUEUE, name):
                    subscription.attach(queue, host.now)
                    yield 1


class Unsubscribe(Job):
    """A subscription ends; the messages that it held return to their places."""

    def __init__(
        self, subscription: Subscription, *, counted: bool, after: Steps | None = None
    ) -> None:
        """Begin; `after` are the protocol's own steps, which forget its part of it."""
        target = f"subscription {subscription.name}"
        super().__init__("unsubscribe", target, subscription.session, subscription.held)
        self.subscription = subscription
        self.counted = counted
        self.after = after
        subscription.session.host.forget_patterns(subscription)

    def steps(self) -> Steps:
        """Leave one destination after the other."""
        subscription = self.subscription
        yield from subscription.detaching(subscription.session.host.now, counted=self.counted)
        if self.after is not None:
            yield from self.after


class Welcome(Job):
    """A new queue gets the subscriptions whose patterns match it.

    One that cannot read it ends: it would miss messages. Whoever made the queue is not to blame.
    """

    def __init__(self, queue: Queue, subscriptions: Sequence[Subscription]) -> None:
        super().__init__("attach", f"queue {queue.name}", None, len(subscriptions))
        self.queue = queue
        self.subscriptions = subscriptions
        queue.suspend()

    def steps(self) -> Steps:
        """Attach one subscription after the other."""
        queue = self.queue
        for subscription in self.subscriptions:
            if queue.is_ended:
                return
            if subscription.patterns and subscription.may_read(Kind.QUEUE, queue.name):
                try:
                    subscription.attach(queue, subscription.session.host.now)
                except RefusedError as error:
                    cause = f"it cannot read the new queue {queue.name}: {error.text}"
                    subscription.end(RefusedError(cause, error.code))
            yield 1

    def ended(self) -> None:
        """Let the queue hand out messages."""
        self.queue.resume()


class Introduce(Job):
    """A durable subscription gets the retained messages of the topics that its patterns match.

    A topic that is used meanwhile introduces itself (`Audience.meet`). So what it is sent then
    comes behind its retained message.
    """

    def __init__(self, host: VirtualHost, durable: Durable) -> None:
        target = f"durable subscription {durable.name}"
        total = len(host.audience.retained.topics) if durable.patterns else 0
        super().__init__("introduce", target, None, total)
        self.host = host
        self.durable = durable
        durable.introductions += 1
        self._number = durable.introductions
        durable.queue.suspend()

    def steps(self) -> Steps:
        """Introduce one topic after the other, unless the wishes change again."""
        durable = self.durable
        for topic in list(self.host.audience.retained.topics) if durable.patterns else ():
            if durable.queue.is_ended or durable.introductions != self._number:
                return
            self.host.audience.introduce_durable(durable, topic)
            yield 1

    def ended(self) -> None:
        """Let the queue hand out messages."""
        if self.durable.introductions == self._number:
            self.durable.heard_before = set()
        self.durable.queue.resume()


class Disconnect(Job):
    """A connection has gone: its transactions, subscriptions and temporary destinations end."""

    def __init__(self, session: Session) -> None:
        self.transactions: list[Transaction] = list(session.transactions.values())
        self.subscriptions = list(session.subscriptions.values())
        total = sum([len(each.settlements) for each in self.transactions])
        total += sum([each.held for each in self.subscriptions])
        super().__init__("disconnect", f"connection {session.id}", session, total)
        session.transactions.clear()
        session.subscriptions.clear()
        for subscription in self.subscriptions:
            session.host.forget_patterns(subscription)

    def steps(self) -> Steps:
        """Give back deliveries settled in open transactions, then those not settled at all."""
        assert self.session is not None
        host = self.session.host
        for transaction in self.transactions:
            yield from transaction.aborting(lambda: host.now)
        for subscription in self.subscriptions:
            yield from subscription.detaching(host.now, counted=True)
        for destination in list(self.session.temporary):
            host.delete_temporary(destination)
            yield 1


class Sweep(Job):
    """Empty and unused queues and topics are removed, and retained messages that have expired."""

    def __init__(self, host: VirtualHost) -> None:
        super().__init__("sweep", f"virtual host {host.id}", None, len(host.queues))
        self.host = host
        self.total += len(host.topics) + len(host.audience.retained.topics)

    def steps(self) -> Steps:
        """Look at one queue or topic after the other."""
        host = self.host
        for name in list(host.queues):
            host.remove_if_unused(name)
            yield 1
        for topic in list(host.audience.retained.topics):
            host.audience.forget_if_expired(topic)
            yield 1
        for name in list(host.topics):
            yield 1 + host.remove_topic_if_unused(name)
