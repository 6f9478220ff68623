"""Catalogue: what there is in a virtual host, by type and name.

The types are those of `core.management.describe.ATTRIBUTES`. A group's name is `queue/group`, a
consumer's `source/id`, a connection's its number. Names of queues and topics are canonical. The
caller has checked permissions before (`core.management.admin`).

There may be thousands of anything and a million groups. So answers come in pages, and only the
things on the page are described.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from heapq import nlargest
from itertools import islice

from covey.core.broker.broker import Broker
from covey.core.dispatch.lane import Lane
from covey.core.errors import RefusedError
from covey.core.host.virtual_host import VirtualHost
from covey.core.jobs.job import Job
from covey.core.management import cluster, describe
from covey.core.management.describe import ATTRIBUTES, Attributes
from covey.core.management.overlay import KINDS, overlay_of
from covey.core.management.waiting import longest_waits, urgency
from covey.core.model.consumer import Consumer
from covey.core.queue.queue import Queue
from covey.core.session import Session


class Catalogue:
    """Everything of one virtual host, to be found and described."""

    def __init__(self, broker: Broker, host: VirtualHost) -> None:
        self.broker = broker
        self.host = host

    def entities(self, type_name: str, now: float) -> list[Attributes]:
        """Describe everything of one type."""
        return self.page(type_name, now)[0]

    def page(
        self, type_name: str, now: float, start: int = 0, count: int | None = None
    ) -> tuple[list[Attributes], int]:
        """Describe a page of the things of one type, and return their total; no count: all."""
        if type_name == "group":
            return groups(self.queues(), now, start, count)
        host = self.host
        if type_name == "queue":
            shown = _slice(host.queues, start, count)
            return [describe.queue(host.queues[name], host) for name in shown], len(host.queues)
        if type_name == "topic":
            shown = _slice(host.topics, start, count)
            return [describe.topic(host.topic(name)) for name in shown], len(host.topics)
        return _page(self._describers(type_name, now), start, count)

    def blocked(
        self, now: float, start: int = 0, count: int | None = None
    ) -> tuple[list[Attributes], int]:
        """Describe a page of the connections whose producers wait, and return their total."""
        sessions = [session for session in self.sessions() if session.is_blocked]
        describers = [partial(describe.connection, session, now) for session in sessions]
        return _page(describers, start, count)

    def _describers(self, type_name: str, now: float) -> list[Callable[[], Attributes]]:
        """Return a function for each thing of a type, which describes it when called."""
        host = self.host
        if type_name == "broker":
            return [partial(describe.broker, self.broker, host)]
        if type_name == "subscription":
            return [partial(describe.subscription, durable) for durable in host.durables.values()]
        if type_name == "connection":
            return [partial(describe.connection, session, now) for session in self.sessions()]
        if type_name == "consumer":
            return [partial(_describe, consumer) for consumer in self._consumers()]
        if type_name == "job":
            return [partial(describe.job, job, now) for job in self.jobs()]
        if type_name in cluster.TYPES:
            found = cluster.rows(self.broker.shared.cluster, type_name, now)
            return [partial(dict, row) for row in found]
        if type_name in KINDS:
            return [partial(dict, row) for row in overlay_of(self.broker).describe(type_name)]
        raise RefusedError(
            f"there is no type {type_name}; there are {', '.join(ATTRIBUTES)}", "invalid"
        )

    def read(self, type_name: str, name: str, now: float) -> Attributes:
        """Describe one thing; raises RefusedError if there is none of that name."""
        host = self.host
        if type_name == "queue" and name in host.queues:
            return describe.queue(host.queues[name], host)
        if type_name == "topic" and name in host.topics:
            return describe.topic(host.topic(name))
        if type_name == "subscription" and name in host.durables:
            return describe.subscription(host.durables[name])
        if type_name not in ("queue", "topic", "subscription", "group"):
            for describer in self._describers(type_name, now):
                entity = describer()
                if entity["name"] == name:
                    return entity
        raise RefusedError(f"there is no {type_name} {name}", "not-found")

    def group(self, queue: Queue, group: str, now: float) -> Attributes:
        """Describe one group of a queue; a group without messages is idle."""
        return describe.group(queue, queue.state.lanes.get(group) or Lane(group), now)

    def queue(self, name: str) -> Queue:
        """Return a queue that exists."""
        queue = self.host.queues.get(name)
        if queue is None:
            raise RefusedError(f"there is no queue {name}", "not-found")
        return queue

    def session(self, name: str) -> Session:
        """Return the session of a connection that is open."""
        for session in self.sessions():
            if str(session.id) == name:
                return session
        raise RefusedError(f"there is no connection {name}", "not-found")

    def jobs(self) -> list[Job]:
        """Return the jobs for clients and operators of this host, and the broker's own."""
        running = self.broker.jobs.running()
        return [job for job in running if job.session is None or job.session.host is self.host]

    def job(self, name: str) -> Job:
        """Return a job that is under way."""
        for job in self.jobs():
            if str(job.number) == name:
                return job
        raise RefusedError(f"there is no job {name}", "not-found")

    def sessions(self) -> list[Session]:
        """Return the sessions of all connections."""
        sessions = self.broker.sessions.values()
        return [session for session in sessions if session.host is self.host]

    def queues(self) -> list[Queue]:
        """Return all queues that have groups, with those of durable subscriptions."""
        durables = [durable.queue for durable in self.host.durables.values()]
        return [*self.host.queues.values(), *durables]

    def _consumers(self) -> list[Consumer]:
        subscriptions = [each for s in self.sessions() for each in s.subscriptions.values()]
        return [consumer for each in subscriptions for consumer in each.consumers]


def groups(
    queues: Sequence[Queue], now: float, start: int = 0, count: int | None = None
) -> tuple[list[Attributes], int]:
    """Describe a page of the groups of these queues, and return their total."""
    found: list[Attributes] = []
    total = 0
    for queue in queues:
        lanes = queue.state.lanes.values()
        first = max(0, start - total)
        stop = None if count is None else first + count - len(found)
        total += len(lanes)
        if stop is None or first < min(stop, len(lanes)):
            found += describe.groups(queue, islice(lanes, first, stop), now)
    return found, total


def waiting_groups(
    queues: Iterable[Queue], now: float, start: int = 0, count: int | None = None
) -> tuple[list[Attributes], int]:
    """Describe a page of the groups that wait, the most urgent first, and return their total."""
    found: list[tuple[tuple[float, Lane], Queue]] = []
    total = 0
    for queue in queues:
        stop = len(queue.state.lanes) if count is None else start + count
        longest, waiting = longest_waits(queue, now, stop)
        found += [(wait, queue) for wait in longest]
        total += waiting
    stop = total if count is None else start + count
    shown = nlargest(stop, found, key=lambda each: urgency(each[0]))[start:]
    return described([(queue, lane) for (_, lane), queue in shown], now), total


def parked_groups(
    queues: Iterable[Queue], now: float, start: int = 0, count: int | None = None
) -> tuple[list[Attributes], int]:
    """Describe a page of the groups that are parked, and return their total."""
    found = [
        (queue, lane) for queue in queues for lane in queue.state.lanes.values() if lane.is_parked
    ]
    stop = None if count is None else start + count
    return described(found[start:stop], now), len(found)


def described(shown: Sequence[tuple[Queue, Lane]], now: float) -> list[Attributes]:
    """Describe groups of several queues, in this order; those of one queue in one call."""
    lanes: dict[Queue, list[Lane]] = {}
    for queue, lane in shown:
        lanes.setdefault(queue, []).append(lane)
    rows = {
        lane: row
        for queue, own in lanes.items()
        for lane, row in zip(own, describe.groups(queue, own, now), strict=True)
    }
    return [rows[lane] for _, lane in shown]


def consumers(
    queue: Queue, start: int = 0, count: int | None = None
) -> tuple[list[Attributes], int]:
    """Describe a page of a queue's consumers and browsers, and return their total."""
    state = queue.state
    readers = [*state.consumers.values(), *state.browsers]
    return _page([partial(describe.consumer, reader, queue) for reader in readers], start, count)


def _page(
    describers: Sequence[Callable[[], Attributes]], start: int, count: int | None
) -> tuple[list[Attributes], int]:
    stop = None if count is None else start + count
    return [describer() for describer in describers[start:stop]], len(describers)


def _slice(names: Mapping[str, object], start: int, count: int | None) -> list[str]:
    """Return some of the names, in the order of the table; `islice` skips the first ones in C."""
    stop = None if count is None else start + count
    return list(islice(names, start, stop))


def _describe(consumer: Consumer) -> Attributes:
    source = consumer.queue
    assert source is not None, "a subscription keeps only consumers that read"
    return describe.consumer(consumer, source)
