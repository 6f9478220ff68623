"""VirtualHost: a world of destinations of its own.

It has queues, topics and durable subscriptions by name. A queue or topic is made on first use, with
the first policy that matches its name. It is swept away when it is empty and unused
(`auto_delete_after_s`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from covey.config.queues import QueueSettings
from covey.config.settings import CLUSTER_HOST, VirtualHostSettings
from covey.core.clock import Clock
from covey.core.errors import RefusedError
from covey.core.events.event import EventKind, EventSink
from covey.core.host.attachment import Introduce, Sweep, Welcome
from covey.core.host.audience import Audience
from covey.core.host.counts import Consumers, Made
from covey.core.host.fan_out import FanOuts
from covey.core.host.feed import Binding
from covey.core.host.queue_factory import QueueFactory
from covey.core.host.senders import Senders
from covey.core.host.subscription import Durable, Subscription
from covey.core.host.topic import Topic
from covey.core.jobs.job import Job, Jobs
from covey.core.naming.destination import DURABLE_PREFIX, TEMPORARY_ROOT, Destination, Kind
from covey.core.naming.pattern import Pattern
from covey.core.naming.pattern_index import PatternIndex
from covey.core.naming.policies import Policies
from covey.core.queue.owner import QueueOwner
from covey.core.queue.policy import change_policy, key_of
from covey.core.queue.purge import Disposal
from covey.core.queue.queue import Queue
from covey.core.storage.ledger import Ledger
from covey.core.storage.store import DURABLE, QUEUE

TOPIC_UNUSED_S: Final = QueueSettings().auto_delete_after_s


class VirtualHost:
    """The destinations that clients of one host name share."""

    def __init__(
        self,
        settings: VirtualHostSettings,
        policies: Policies,
        clock: Clock,
        owner: QueueOwner,
        ledger: Ledger | None = None,
        jobs: Jobs | None = None,
    ) -> None:
        """Begin empty; `owner` owns its queues, `ledger` tells the store of them."""
        self.jobs = jobs
        self.fan_outs = FanOuts(jobs)
        self.sweeping: Sweep | None = None
        self.made_queues = Made("queues")
        self.made_topics = Made("topics")
        self.consumers = Consumers()
        self.patterns = 0  # subscriptions by pattern
        self.outdated: dict[Queue, None] = {}  # queues that have yet to take the policy of a reload
        self.notes: list[str] = []  # what the last reload could not change, and why
        self.audit = owner.audit
        self.id = settings.id
        self.rename(settings.host_names)
        self.clock = clock
        self.policies = policies
        self.queues: dict[str, Queue] = {}
        self.topics: dict[str, Topic] = {}
        self.published_gone = 0  # messages published to topics that were deleted
        self.delivered_gone = 0  # the same for deliveries
        self.durables: dict[str, Durable] = {}
        self.declared: set[str] = set()  # queues that stay though empty and unused
        self.queue_patterns: PatternIndex[Subscription] = PatternIndex()
        self.audience = Audience(policies, clock, jobs)
        self.senders = Senders()
        self.queue_factory = QueueFactory(self.id, policies, clock, owner, ledger)

    @property
    def now(self) -> float:
        """Return the time of the current turn."""
        return self.clock.now

    @property
    def ledger(self) -> Ledger | None:
        """Return the store's ledger, if there is a store."""
        return self.queue_factory.ledger

    def rename(self, host_names: Iterable[str]) -> None:
        """Set the names by which clients know this virtual host."""
        self.host_names = frozenset([name.lower() for name in host_names])

    def apply(self, policies: Policies) -> None:
        """Use new policies for all that is made from now on."""
        self.policies = self.audience.policies = self.queue_factory.policies = policies

    def check_keeps(self) -> None:
        """Raise RefusedError if this is no place for messages: nobody would find them again."""
        if self.id == CLUSTER_HOST.id:
            raise RefusedError(
                f"{self.id} tells of the cluster and keeps no messages: name a virtual host",
                "refused",
            )

    def queue(self, name: str, settings: QueueSettings | None = None, maker: str = "") -> Queue:
        """Return a queue; if there is none, make it, with the policy of its name by default.

        A new queue counts for the user `maker`, if one is named.
        """
        known = self.queues.get(name)
        if known is not None:
            if self.outdated and known in self.outdated:
                self.renew(known)
            return known
        if not name.startswith(TEMPORARY_ROOT):  # an answer of `$management` may go there
            self.check_keeps()
        self._check_queues(maker)
        queue = self.queue_factory.begin(name, settings or self.policies.queue(name), QUEUE)
        self.made_queues.add(name, maker)
        self.queues[name] = queue
        self.mirror(queue)
        # No pattern matches temporary queues: each belongs to one connection.
        if not name.startswith(TEMPORARY_ROOT):
            found = self.queue_patterns.matching(name)
            if found:
                self._begin(Welcome(queue, list(found)))
        return queue

    def topic(self, name: str, maker: str = "") -> Topic:
        """Return a topic, made now if there is none; all whose patterns match it will hear it.

        Very many of them have yet to hear it then: no message may be published while it is held.
        """
        known = self.topics.get(name)
        if known is not None:
            if known.met != self.audience.newest:
                self.audience.meet(known)
            return known
        self.check_keeps()
        limits = self.policies.broker
        self.made_topics.check(
            len(self.topics), maker, limits.topics_max, limits.topics_per_user_max
        )
        self.made_topics.add(name, maker)
        batch_max = self.policies.broker.topic_batch
        topic = Topic(name, batch_max, self.audience.retained, self.fan_outs)
        topic.touched_at = self.now
        self.topics[name] = topic
        self.audience.meet(topic)
        mirror = self.mirror_of(name)
        if mirror is not None:
            topic.fill(Binding(mirror), by_name=True)
        return topic

    def mirror(self, queue: Queue) -> None:
        """Let a queue hear the topic of its name, if a policy says so and it does not yet."""
        if self.mirror_of(queue.name) is queue:
            topic = self.topic(queue.name)  # if it is made here, it already has the queue
            if not any(binding.queue is queue for binding in topic.bindings):
                topic.fill(Binding(queue), by_name=True)

    def mirror_of(self, name: str) -> Queue | None:
        """Return the queue that mirrors the topic of this name, if there is one."""
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

    def _check_queues(self, maker: str) -> None:
        """Raise RefusedError if there are too many queues for one more of this user.

        A durable subscription is a queue, too.
        """
        limits = self.policies.broker
        count = len(self.queues) + len(self.durables)
        self.made_queues.check(count, maker, limits.queues_max, limits.queues_per_user_max)

    def make_durable(self, name: str, maker: str = "") -> Durable:
        """Return a durable subscription; if there is none, it is made now and counts for `maker`.

        It counts as a queue.
        """
        durable = self.durables.get(name)
        if durable is None:
            self.check_keeps()
            self._check_queues(maker)
            self.made_queues.add(DURABLE_PREFIX + name, maker)
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
        """Return True if this is a present queue, or the queue of a durable subscription."""
        durable = self.durables.get(queue.name.removeprefix(DURABLE_PREFIX))
        is_behind = durable is not None and durable.queue is queue
        return is_behind or self.queues.get(queue.name) is queue

    def delete_durable(self, name: str) -> None:
        """Destroy a durable subscription with all it holds."""
        durable = self.durable(name)
        self.unbind(durable)
        del self.durables[name]
        self.made_queues.discard(DURABLE_PREFIX + name)
        self.queue_factory.forget_stops(durable.queue.name)
        self._end(durable.queue, f"durable subscription {name} was destroyed")
        if self.ledger is not None:
            self.ledger.unbind(self.id, durable)

    def bind(self, durable: Durable, destinations: tuple[Destination, ...]) -> None:
        """Let a durable subscription hear these topics, and no others.

        Also called when only the selector of its binding has changed: the store remembers that.
        """
        if durable.destinations != destinations:
            durable.heard_before = set(durable.topics)
            self.unbind(durable)
            durable.destinations = destinations
            self._hear(durable)
            self._begin(Introduce(self, durable))
        if self.ledger is not None:
            self.ledger.bind(self.id, durable)

    def _hear(self, durable: Durable) -> None:
        for destination in durable.destinations:
            if destination.is_pattern:
                pattern = Pattern(destination)
                durable.patterns.append(pattern)
                self.audience.add_durable(durable, pattern)
            else:
                topic = self.topic(destination.name)
                self.audience.admit_durable(durable, topic, by_name=True)

    def unbind(self, durable: Durable) -> None:
        """Let a durable subscription hear nothing."""
        for pattern in durable.patterns:
            self.audience.discard_durable(durable, pattern)
        durable.patterns.clear()
        durable.unlisten()

    def subscribe(self, subscription: Subscription, destination: Destination) -> None:
        """Let a subscription read from one destination, which is no pattern."""
        name = destination.name
        if destination.kind is Kind.QUEUE:
            maker = subscription.session.identity.name
            subscription.attach(self.queue(name, maker=maker), self.now)
        elif destination.kind is Kind.TOPIC:
            topic = self.topic(name, subscription.session.identity.name)
            self.audience.listen(subscription, topic, by_name=True)
        else:
            subscription.attach(self.durable(name).queue, self.now)

    def forget_patterns(self, subscription: Subscription) -> None:
        """Give a subscription no more destinations and messages: it is about to end."""
        for pattern in subscription.patterns:
            self.queue_patterns.discard(pattern, subscription)
            self.audience.discard(subscription, pattern)
        self.patterns -= len(subscription.patterns)
        subscription.patterns.clear()
        subscription.window.is_paused = True  # and it gets nothing more

    def _begin(self, job: Job) -> None:
        """Begin a job of the broker's own; without `jobs` do all of it at once."""
        if self.jobs is not None:
            self.jobs.begin(job)
        else:
            for _ in job.steps():
                pass
            job.finish()

    def delete_queue(self, name: str, reason: str) -> None:
        """Remove a queue with all it holds, and tell its senders."""
        self.queue_factory.forget_stops(name)
        self._remove_queue(name, reason)
        self.senders.tell(name, reason)

    def _remove_queue(self, name: str, reason: str) -> None:
        queue = self.queues.pop(name)
        self.made_queues.discard(name)
        self.declared.discard(name)
        mirror = self.topics.get(name)
        if mirror is not None:
            for binding in [binding for binding in mirror.bindings if binding.queue is queue]:
                mirror.stop_filling(binding)
        self._end(queue, reason)
        queue.state.record(EventKind.DELETE, "", 0, 0)
        if self.ledger is not None:
            self.ledger.close(self.id, QUEUE, queue)
            queue.mark()  # so that the pager counts its bodies no more

    def _end(self, queue: Queue, reason: str) -> None:
        self.queue_factory.end(queue, reason)
        if queue.state.index.count:
            self._begin(Disposal(queue))

    def declare(self, queue: Queue) -> None:
        """Keep a queue, with the policy it has now, until somebody deletes it."""
        self.declared.add(queue.name)
        if self.ledger is not None:
            self.ledger.declare(self.id, queue)

    def delete_topic(self, name: str) -> None:
        """Forget a topic and its retained message; subscribers meet it again at its next use.

        Who subscribed by its name would have nothing to meet it by. So for them it stays, as new.
        """
        topic = self.topics.get(name)
        if topic is None:
            return
        self.published_gone += topic.published
        self.delivered_gone += topic.delivered
        topic.published = topic.delivered = 0
        topic.forget_retained()
        if not topic.named or name.startswith(TEMPORARY_ROOT):
            del self.topics[name]
            self.made_topics.discard(name)
            self.audience.let_go(topic)

    def delete_temporary(self, destination: Destination) -> None:
        """End a temporary destination of a connection that has ended."""
        if destination.kind is Kind.TOPIC:
            self.delete_topic(destination.name)
        elif destination.name in self.queues:
            self.delete_queue(destination.name, "its connection is gone")

    def sweep(self) -> None:
        """Begin to remove what is empty, unused and not declared, unless a sweep is under way."""
        if self.sweeping is None or self.sweeping.is_over:
            self.sweeping = Sweep(self)
            self._begin(self.sweeping)

    def remove_if_unused(self, name: str) -> None:
        """Remove a queue that nobody has used for the `auto_delete_after_s` of its policy."""
        queue = self.queues.get(name)
        if queue is None or name in self.declared:
            return
        patience = queue.settings.auto_delete_after_s
        if patience and self.now - queue.touched_at >= patience and _is_idle(queue):
            self._remove_queue(name, "unused")

    def remove_topic_if_unused(self, name: str) -> int:
        """Forget a topic that nobody has used for a while; return how many listeners it had."""
        topic = self.topics.get(name)
        unused_since = self.now - TOPIC_UNUSED_S
        if topic is None or topic.touched_at > unused_since or topic.named or topic.is_held:
            return 0
        if topic.retained is not None or (topic.audience and self.mirror_of(name) is not None):
            return 0
        audience = topic.audience
        self.delete_topic(name)
        return audience

    # Changes of policies.

    def outdate(self) -> None:
        """Have every queue take the policy that holds now, when it is next touched."""
        self.notes = []
        self.outdated = dict.fromkeys(self.all_queues())
        for queue in self.outdated:
            queue.takes_all = False  # so that every message comes through `queue`, which renews it

    def renew(self, queue: Queue) -> None:
        """Give a queue the policy that holds now; what cannot be changed is noted in `notes`."""
        self.outdated.pop(queue, None)
        limits = self.policies.broker
        queue.membership.selectors_max = limits.selectors_per_queue_max
        queue.discipline.key = key_of(queue.settings, queue.state.strategy, limits)
        settings = self._wanted(queue)
        try:
            if settings.mirrored != queue.settings.mirrored:
                raise RefusedError(f"queue {queue.name}: mirrored is fixed once it exists")
            if settings != queue.settings:
                change_policy(queue, settings, limits, self.now)
        except RefusedError as error:
            self.notes.append(error.text)
        queue.choose_way()

    def _wanted(self, queue: Queue) -> QueueSettings:
        """Return the policy that a queue should have; a declared queue keeps its own."""
        if self.queues.get(queue.name) is not queue:
            return self.policies.durable(queue.name.removeprefix(DURABLE_PREFIX))
        return queue.settings if queue.name in self.declared else self.policies.queue(queue.name)

    def report_to(self, events: EventSink | None) -> None:
        """Send the events of all queues, present and future, to a sink."""
        self.queue_factory.events = events
        for queue in self.queues.values():
            self.queue_factory.report(queue)
        for durable in self.durables.values():
            self.queue_factory.report(durable.queue)


def _is_idle(queue: Queue) -> bool:
    state = queue.state
    has_messages = state.index.count or queue.timers.delayed.count
    is_used = state.consumers or state.browsers or queue.discipline.remembers
    is_stopped = state.parked or queue.pause.way
    return not (has_messages or is_used or is_stopped)
