"""VirtualHost: a world of destinations of its own.

Queues, topics and durable subscriptions by name, made on first use with the first policy that
matches, and swept away when they are empty and unused (`auto_delete_after_s`).
"""

from __future__ import annotations

from collections.abc import Iterator

from covey.config.queues import QueueSettings
from covey.config.settings import VirtualHostSettings
from covey.core.clock import Clock
from covey.core.errors import RefusedError
from covey.core.events.event import EventKind, EventSink
from covey.core.host.audience import Audience
from covey.core.host.feed import Binding
from covey.core.host.queue_factory import QueueFactory
from covey.core.host.senders import Senders
from covey.core.host.subscription import Durable, Subscription
from covey.core.host.topic import Topic
from covey.core.naming.destination import DURABLE_PREFIX, TEMPORARY_ROOT, Destination, Kind
from covey.core.naming.pattern import Pattern
from covey.core.naming.pattern_index import PatternIndex
from covey.core.naming.policies import Policies
from covey.core.queue.owner import QueueOwner
from covey.core.queue.queue import Queue
from covey.core.storage.ledger import Ledger
from covey.core.storage.store import DURABLE, QUEUE

# Listeners told at a time that topics were swept away: some hundredths of a second.
LET_GO_MAX = 100_000


class VirtualHost:
    """The destinations that clients of one host name share."""

    def __init__(
        self,
        settings: VirtualHostSettings,
        policies: Policies,
        clock: Clock,
        owner: QueueOwner,
        ledger: Ledger | None = None,
    ) -> None:
        """Begin with nothing; its queues belong to the owner, the ledger is the store's."""
        self.id = settings.id
        self.host_names = frozenset([name.lower() for name in settings.host_names])
        self.clock = clock
        self.policies = policies
        self.queues: dict[str, Queue] = {}
        self.topics: dict[str, Topic] = {}
        self.published_gone = 0  # messages of topics that were forgotten
        self.delivered_gone = 0
        self.durables: dict[str, Durable] = {}
        self.declared: set[str] = set()  # queues that stay though empty and unused
        self.queue_patterns: PatternIndex[Subscription] = PatternIndex()
        self.audience = Audience(policies, clock)
        self.senders = Senders()
        self.queue_factory = QueueFactory(self.id, policies, clock, owner, ledger)

    @property
    def now(self) -> float:
        """Return the time of the current turn."""
        return self.clock.now

    @property
    def ledger(self) -> Ledger | None:
        """Return the store's book, if there is a store."""
        return self.queue_factory.ledger

    def apply(self, policies: Policies) -> None:
        """Let new policies hold for what is made from now on."""
        self.policies = self.audience.policies = self.queue_factory.policies = policies

    def queue(self, name: str, settings: QueueSettings | None = None) -> Queue:
        """Return the queue, made now if there is none; the policy of its name if none is given."""
        known = self.queues.get(name)
        if known is not None:
            return known
        queue = self.queue_factory.begin(name, settings or self.policies.queue(name), QUEUE)
        self.queues[name] = queue
        self.mirror(queue)
        # Temporary queues are their connection's alone: no pattern means them.
        if not name.startswith(TEMPORARY_ROOT):
            for subscription in self.queue_patterns.matching(name):
                if subscription.may_read(Kind.QUEUE, name):
                    subscription.attach(queue, self.now)
        return queue

    def topic(self, name: str) -> Topic:
        """Return the topic, made now if there is none; whoever means it by a pattern hears it."""
        known = self.topics.get(name)
        if known is not None:
            if known.met != self.audience.newest:
                self.audience.meet(known)
            return known
        topic = Topic(name, self.policies.broker.topic_batch, self.audience.retaining)
        topic.touched_at = self.now
        self.topics[name] = topic
        self.audience.meet(topic)
        mirror = self.mirror_of(name)
        if mirror is not None:
            topic.fill(Binding(mirror))
        return topic

    def mirror(self, queue: Queue) -> None:
        """Let a queue hear the topic of its name, if a policy says so and it does not yet."""
        if self.mirror_of(queue.name) is queue:
            topic = self.topic(queue.name)  # a new one has heard of the queue by now
            if not any(binding.queue is queue for binding in topic.bindings):
                topic.fill(Binding(queue))

    def mirror_of(self, name: str) -> Queue | None:
        """Return the queue that takes what is sent to the topic of its name, if there is one."""
        queue = self.queues.get(name)
        if queue is None:
            return None
        is_mirrored = queue.settings.mirrored or self.policies.topic(name).mirrored
        return queue if is_mirrored else None

    def durable(self, name: str) -> Durable:
        """Return an existing durable subscription."""
        durable = self.durables.get(name)
        if durable is None:
            raise RefusedError(f"there is no durable subscription {name}", "not-found")
        return durable

    def make_durable(self, name: str) -> Durable:
        """Return the durable subscription, made now if there is none."""
        durable = self.durables.get(name)
        if durable is None:
            settings = self.policies.durable(name)
            queue = self.queue_factory.begin(DURABLE_PREFIX + name, settings, DURABLE)
            durable = Durable(name, queue, Binding(queue))
            self.durables[name] = durable
        return durable

    def all_queues(self) -> Iterator[Queue]:
        """Walk the queues, and those behind durable subscriptions."""
        yield from self.queues.values()
        for durable in self.durables.values():
            yield durable.queue

    def has(self, queue: Queue) -> bool:
        """Return True if a queue is here, as one or behind a durable subscription."""
        durable = self.durables.get(queue.name.removeprefix(DURABLE_PREFIX))
        is_behind = durable is not None and durable.queue is queue
        return is_behind or self.queues.get(queue.name) is queue

    def delete_durable(self, name: str) -> None:
        """Destroy a durable subscription with all it holds."""
        durable = self.durable(name)
        self.unbind(durable)
        del self.durables[name]
        self.queue_factory.end(durable.queue, f"durable subscription {name} was destroyed")
        if self.ledger is not None:
            self.ledger.unbind(self.id, durable)

    def bind(self, durable: Durable, destinations: tuple[Destination, ...]) -> None:
        """Let a durable subscription hear these topics, and no others.

        Called again after its binding's selector changed, it remembers that, too.
        """
        if durable.destinations != destinations:
            before = set(durable.topics)
            self.unbind(durable)
            durable.destinations = destinations
            self._hear(durable)
            for topic in durable.topics:
                if topic not in before:
                    topic.offer_retained(durable.binding, self.clock)
        if self.ledger is not None:
            self.ledger.bind(self.id, durable)

    def _hear(self, durable: Durable) -> None:
        for destination in durable.destinations:
            if destination.is_pattern:
                pattern = Pattern(destination)
                durable.patterns.append(pattern)
                self.audience.add_durable(durable, pattern)
            else:
                durable.listen_by_name(self.topic(destination.name))

    def unbind(self, durable: Durable) -> None:
        """Let it hear nothing."""
        for pattern in durable.patterns:
            self.audience.discard_durable(durable, pattern)
        durable.patterns.clear()
        durable.unlisten()

    def subscribe(self, subscription: Subscription, destination: Destination) -> None:
        """Let a subscription read from a destination, or from all that match it."""
        name = destination.name
        if destination.is_pattern:
            self._subscribe_pattern(subscription, destination)
        elif destination.kind is Kind.QUEUE:
            subscription.attach(self.queue(name), self.now)
        elif destination.kind is Kind.TOPIC:
            topic = self.topic(name)
            subscription.keep(topic)
            self.audience.listen(subscription, topic)
        else:
            subscription.attach(self.durable(name).queue, self.now)

    def unsubscribe(self, subscription: Subscription, *, counted: bool) -> None:
        """Let a subscription go."""
        for pattern in subscription.patterns:
            self.queue_patterns.discard(pattern, subscription)
            self.audience.discard(subscription, pattern)
        subscription.patterns.clear()
        subscription.detach(self.now, counted=counted)

    def delete_queue(self, name: str, reason: str) -> None:
        """Remove a queue with all it holds, and tell who sends to it."""
        self._remove_queue(name, reason)
        self.senders.tell(name, reason)

    def _remove_queue(self, name: str, reason: str) -> None:
        queue = self.queues.pop(name)
        self.declared.discard(name)
        mirror = self.topics.get(name)
        if mirror is not None:
            for binding in [binding for binding in mirror.bindings if binding.queue is queue]:
                mirror.stop_filling(binding)
        self.queue_factory.end(queue, reason)
        queue.state.record(EventKind.DELETE, "", 0, 0)
        if self.ledger is not None:
            self.ledger.close(self.id, QUEUE, queue)
            queue.mark()  # the pager counts it no more

    def declare(self, queue: Queue) -> None:
        """Keep a queue, with the policy it has now, until somebody deletes it."""
        self.declared.add(queue.name)
        if self.ledger is not None:
            self.ledger.declare(self.id, queue)

    def delete_topic(self, name: str) -> None:
        """Forget a topic and what it retained; its subscribers hear it again when it is used."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            self.published_gone += topic.published
            self.delivered_gone += topic.delivered
            topic.forget_retained()

    def sweep(self) -> None:
        """Remove what is empty, unused and was not declared."""
        for name, queue in list(self.queues.items()):
            patience = queue.settings.auto_delete_after_s
            if patience and name not in self.declared and _is_idle(queue):
                if self.now - queue.touched_at >= patience:
                    self._remove_queue(name, "unused")
        self._sweep_topics(self.now - QueueSettings().auto_delete_after_s)

    def _sweep_topics(self, unused_since: float) -> None:
        self.audience.forget_expired()
        budget = LET_GO_MAX
        for name, topic in list(self.topics.items()):
            if topic.touched_at > unused_since or topic.named or topic.retained is not None:
                continue
            if budget > 0 and (not topic.audience or self.mirror_of(name) is None):
                budget -= topic.audience
                topic.let_go()
                self.delete_topic(name)

    def report_to(self, events: EventSink | None) -> None:
        """Send the events of all queues, present and future, to a sink."""
        self.queue_factory.events = events
        for queue in self.queues.values():
            self.queue_factory.report(queue)
        for durable in self.durables.values():
            self.queue_factory.report(durable.queue)

    def _subscribe_pattern(self, subscription: Subscription, destination: Destination) -> None:
        pattern = Pattern(destination, descendant_matches_zero=subscription.matches_zero)
        subscription.patterns.append(pattern)
        if destination.kind is Kind.TOPIC:
            self.audience.add(subscription, pattern)
            return
        if subscription.is_lasting:
            self.queue_patterns.add(pattern, subscription)
        for name, queue in list(self.queues.items()):
            # None means a connection's own temporary ones.
            if not name.startswith(TEMPORARY_ROOT) and pattern.matches(name):
                if subscription.may_read(Kind.QUEUE, name):
                    subscription.attach(queue, self.now)


def _is_idle(queue: Queue) -> bool:
    state = queue.state
    has_messages = state.index.count or queue.timers.delayed.count
    is_used = state.consumers or state.browsers or state.parked or queue.discipline.remembers
    return not (has_messages or is_used)
