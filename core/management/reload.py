"""Reload: other settings for a broker that runs.

All or nothing: whatever can be refused is worked out before anything is changed. Then policies,
limits, users and permissions hold at once, for open connections as for new ones:

- a user who is gone, or whose password or roles have changed, has to log in again;
- a connection that reads what its user may no longer read is ended, and no other connection is;
- whoever waits for a limit that has changed goes on, or waits for the new limit;
- a queue takes its new policy. A queue that was declared keeps its own. A queue whose messages
  stand against the change (`core.queue.policy`) keeps the old policy, and that is reported.
"""

from __future__ import annotations

from covey.config.queues import QueueSettings
from covey.config.settings import Settings
from covey.core.broker.broker import Broker
from covey.core.errors import RefusedError
from covey.core.host.subscription import Subscription
from covey.core.host.virtual_host import VirtualHost
from covey.core.naming.destination import Destination, Kind
from covey.core.naming.policies import Policies
from covey.core.queue.policy import change_policy, key_of
from covey.core.queue.queue import Queue
from covey.core.security.users import may
from covey.core.session import Session


def reconfigure(broker: Broker, settings: Settings, now: float) -> list[str]:
    """Let the settings hold from now on; return what had to stay as it was, and why.

    Raises RefusedError, and changes nothing, if they make no sense.
    """
    policies = Policies(settings)
    changed_users = broker.users.apply(settings.users, settings.permissions)
    broker.turn(now)
    broker.settings = settings
    broker.limits = settings.broker
    broker.publishing.arrivals.limits = settings.broker
    broker.transactions.limits = settings.broker
    throttle = broker.users.throttle
    throttle.failures_max = settings.broker.login_failures_max
    throttle.window_s = settings.broker.login_window_s
    throttle.ban_s = settings.broker.login_ban_s
    if broker.commits.pager is not None:
        broker.commits.pager.window_queue = settings.broker.memory_window_queue
        broker.commits.pager.window_total = settings.broker.memory_window_total
    notes: list[str] = []
    for host in broker.hosts:
        host.apply(policies)
        notes += _change_queues(host, now)
    for session in list(broker.sessions.values()):
        _check_session(session, is_changed=session.identity.name in changed_users)
    _let_go_on(broker)
    return notes


def _let_go_on(broker: Broker) -> None:
    """Let the new limits be found by whoever waits for the old ones."""
    broker.commits.allow(broker.settings.store)
    broker.rounds.weigh_again()
    for session in broker.sessions.values():
        for subscription in session.subscriptions.values():
            session.host.audience.reconsider(subscription)
            for consumer in subscription.consumers:
                consumer.unsettled_max = broker.limits.unsettled_max
                if consumer.queue is not None:
                    consumer.queue.credit_changed(consumer)


def _change_queues(host: VirtualHost, now: float) -> list[str]:
    notes: list[str] = []
    limits = host.policies.broker
    for queue, settings in _wanted(host):
        queue.membership.selectors_max = limits.selectors_per_queue_max
        queue.discipline.key = key_of(queue.settings, queue.state.strategy, limits)
        if settings == queue.settings:
            continue
        try:
            if settings.mirrored != queue.settings.mirrored:
                raise RefusedError(f"queue {queue.name}: mirrored is fixed once it exists")
            change_policy(queue, settings, limits, now)
        except RefusedError as error:
            notes.append(error.text)
    return notes


def _wanted(host: VirtualHost) -> list[tuple[Queue, QueueSettings]]:
    """Return the policy each queue should have; a declared one's is its own."""
    wanted = [
        (queue, queue.settings if name in host.declared else host.policies.queue(name))
        for name, queue in host.queues.items()
    ]
    durables = host.durables.items()
    return wanted + [(durable.queue, host.policies.durable(name)) for name, durable in durables]


def _check_session(session: Session, *, is_changed: bool) -> None:
    session.sendable.clear()  # each target is asked about again
    if is_changed:
        session.kick(f"user {session.identity.name} has changed: log in again")
    elif not all(_may_go_on(one) for one in session.subscriptions.values()):
        session.kick(f"user {session.identity.name} may not read this any more")


def _may_go_on(subscription: Subscription) -> bool:
    host = subscription.session.host
    places = [Destination(Kind.TOPIC, topic.name) for topic in subscription.topics]
    for consumer in subscription.consumers:
        queue = consumer.queue
        if isinstance(queue, Queue):
            places.append(_place(host, queue))
    identity = subscription.session.identity
    return all(may(identity, subscription.verb, str(place)) for place in places)


def _place(host: VirtualHost, queue: Queue) -> Destination:
    for durable in host.durables.values():
        if durable.queue is queue:
            return Destination(Kind.DSUB, durable.name)
    return Destination(Kind.QUEUE, queue.name)
