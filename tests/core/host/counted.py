"""Counted: whether what the broker counts of its consumers is what there is.

A subscription's consumers are those that it keeps: from the moment it reads a queue until a job has
let go of them, one after the other. So the truth is found at any moment, between any two portions.
"""

from __future__ import annotations

from collections import Counter

from covey.core.broker.broker import Broker
from covey.core.host.attachment import Disconnect, Unsubscribe
from covey.core.host.subscription import Subscription


def subscriptions_of(broker: Broker) -> set[Subscription]:
    """Find all subscriptions, those too that are being let go of."""
    found = {each for s in broker.sessions.values() for each in s.subscriptions.values()}
    for job in broker.jobs.running():
        if job.session is not None:  # it may have gone, and its end waits for this job
            found.update(job.session.subscriptions.values())
        if isinstance(job, Disconnect):
            found.update(job.subscriptions)
        elif isinstance(job, Unsubscribe):
            found.add(job.subscription)
    return found


def check_counts(broker: Broker) -> None:
    """Count the consumers of each user, and compare."""
    truth: Counter[str] = Counter()
    for each in subscriptions_of(broker):
        queues = [source for source in each.consumers if source is not each.feed]
        truth[each.session.identity.name] += len(queues)
    counted = broker.host.consumers
    assert counted.count == truth.total(), f"{counted.count} consumers counted of {truth.total()}"
    for user, count in truth.items():
        assert counted.of(user) == count, f"{counted.of(user)} counted of {count} of {user}"
