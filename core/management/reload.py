"""Reload: other settings for a broker that runs.

All or nothing: whatever can be refused is worked out before anything is changed. Then policies,
limits, users and permissions hold at once, for open connections as for new ones:

- a user who is gone, or whose password or roles have changed, has to log in again;
- a connection that reads what its user may no longer read is ended, and no other connection is.
  Connections are checked before anything else, in portions if they read from very many places;
- whoever waits for a limit that has changed goes on, or waits for the new limit;
- a queue takes its new policy. A queue that was declared keeps its own. A queue whose messages
  stand against the change (`core.queue.policy`) keeps the old policy, and that is reported. If
  nothing has changed that a queue could see, no queue is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from covey.config.settings import Settings
from covey.core.broker.broker import Broker
from covey.core.host.subscription import Subscription
from covey.core.host.virtual_host import VirtualHost
from covey.core.jobs.job import Job, Steps
from covey.core.naming.destination import DURABLE_PREFIX, Destination, Kind
from covey.core.naming.policies import Policies
from covey.core.queue.queue import Queue
from covey.core.security.users import may
from covey.core.session import Session

SEEN_BY_QUEUES: Final = ("broker", "queues", "topics", "virtual_hosts")


def reconfigure(
    brokers: Sequence[Broker],
    settings: Settings,
    now: float,
    then: Callable[[list[str]], None] | None = None,
    *,
    are_policies_same: bool = False,
) -> list[str]:
    """Apply the settings to all brokers of a process; return what could not change, and why.

    With very many queues that takes a while: `then` is called with the whole list at the end.
    Raises RefusedError, and changes nothing, if the settings make no sense. If the caller knows
    that `are_policies_same`, no queue is asked to take its policy again.
    """
    are_policies_same = are_policies_same or all(_keeps_queues(each, settings) for each in brokers)
    policies = None if are_policies_same else Policies(settings)
    users = brokers[0].users
    changed_users = users.apply(settings.users, settings.permissions)
    users.throttle.failures_max = settings.broker.login_failures_max
    users.throttle.window_s = settings.broker.login_window_s
    users.throttle.ban_s = settings.broker.login_ban_s
    jobs = [_reconfigure(each, settings, policies, changed_users, now) for each in brokers]
    under_way = [job for job in jobs if not job.is_over]

    def ended() -> None:
        if then is not None and all(job.is_over for job in jobs):
            then([note for job in jobs for note in job.broker.host.notes])

    for job in under_way:
        job.then(ended)
    if not under_way:
        ended()
    return [note for job in jobs for note in job.broker.host.notes]


def _keeps_queues(broker: Broker, settings: Settings) -> bool:
    """Return True if the settings are new only in what no queue and no topic sees.

    A queue that could not take its policy the last time may be able to now.
    """
    old = broker.settings
    return not broker.host.notes and all(
        getattr(old, name) == getattr(settings, name) for name in SEEN_BY_QUEUES
    )


def _reconfigure(
    broker: Broker,
    settings: Settings,
    policies: Policies | None,
    changed_users: frozenset[str],
    now: float,
) -> Reload:
    broker.turn(now)
    broker.settings = settings
    broker.allow(settings.broker)
    broker.publishing.arrivals.limits = settings.broker
    broker.transactions.limits = settings.broker
    if broker.commits.pager is not None:
        broker.commits.pager.window_queue = settings.broker.memory_window_queue
        broker.commits.pager.window_total = settings.broker.memory_window_total
        broker.commits.pager.entries_max = settings.broker.memory_entries_queue
    broker.host.rename(settings.virtual_host(broker.host.id).host_names)
    if policies is not None:
        broker.host.apply(policies)
        broker.host.outdate()
    broker.commits.allow(broker.settings.store)
    broker.rounds.weigh_again()
    job = Reload(broker, changed_users)
    broker.jobs.begin(job)
    return job


class Reload(Job):
    """Gives every queue its new policy, and checks every connection.

    A queue that is used before this job comes to it takes its policy then (`VirtualHost.renew`).
    """

    def __init__(self, broker: Broker, changed_users: frozenset[str]) -> None:
        host = broker.host
        total = len(host.outdated) + len(broker.sessions)
        super().__init__("reload", f"virtual host {host.id}", None, total)
        self.broker = broker
        self.changed_users = changed_users

    def steps(self) -> Steps:
        """Check connections first: nobody must be sent what they may no longer read."""
        broker = self.broker
        sessions = list(broker.sessions.values())
        for session in sessions:
            yield from self._check(session)
        for session in sessions:
            for subscription in list(session.subscriptions.values()):
                session.host.audience.reconsider(subscription)
                yield from self._let_go_on(subscription)
        host = broker.host
        while host.outdated:
            host.renew(next(iter(host.outdated)))
            yield 1

    def _check(self, session: Session) -> Steps:
        """End a connection whose user has changed, or may no longer read what it reads."""
        session.sendable.clear()  # the right to send is checked again for each target
        name = session.identity.name
        yield 1
        if name in self.changed_users:
            session.kick(f"user {name} has changed: log in again")
            return
        for subscription in list(session.subscriptions.values()):
            for place in _places(subscription):
                if not may(session.identity, subscription.verb, str(place)):
                    session.kick(f"user {name} may not read this any more")
                    return
                yield 1

    def _let_go_on(self, subscription: Subscription) -> Steps:
        """Give the new limits to consumers, so that those at the old limit go on."""
        unsettled_max = self.broker.limits.unsettled_max
        for consumer in list(subscription.consumers.values()):
            if consumer.unsettled_max != unsettled_max:
                consumer.unsettled_max = unsettled_max
                if consumer.queue is not None:
                    consumer.queue.credit_changed(consumer)
            yield 1


def _places(subscription: Subscription) -> Iterator[Destination]:
    """Name what a subscription reads now; what it meets later is checked then."""
    host = subscription.session.host
    for topic in list(subscription.topics):
        yield Destination(Kind.TOPIC, topic.name)
    for consumer in list(subscription.consumers.values()):
        queue = consumer.queue
        if isinstance(queue, Queue):
            yield _place(host, queue)


def _place(host: VirtualHost, queue: Queue) -> Destination:
    durable = host.durables.get(queue.name.removeprefix(DURABLE_PREFIX))
    if durable is not None and durable.queue is queue:
        return Destination(Kind.DSUB, durable.name)
    return Destination(Kind.QUEUE, queue.name)
