"""Catalogue: what there is in a virtual host, by type and name.

The types are those of `core.management.describe.ATTRIBUTES`. A group's name is `queue/group`, a
consumer's `source/id`, a connection's its number. Names of queues and topics are canonical. The
caller has checked permissions before (`core.management.admin`).

There may be thousands of anything and a million groups. So answers come in pages, and only the
things on the page are described.
"""

from __future__ import annotations

from functools import partial
from itertools import islice

from covey.core.broker.broker import Broker
from covey.core.dispatch.lane import Lane
from covey.core.errors import RefusedError
from covey.core.host.topic import Topic
from covey.core.host.virtual_host import VirtualHost
from covey.core.jobs.job import Job
from covey.core.management import cluster, describe
from covey.core.management.describe import ATTRIBUTES, Attributes
from covey.core.management.group_lists import all_groups, parked_groups, waiting_groups
from covey.core.management.overlay import KINDS, overlay_of
from covey.core.management.pages import Walk, describing, whole
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
        return whole(self.walk(type_name, now, start, count))

    def walk(
        self,
        type_name: str,
        now: float,
        start: int = 0,
        count: int | None = None,
        *,
        waiting: bool = False,
        parked: bool = False,
    ) -> Walk:
        """Return a walk through a page of the things of one type, or of those that wait."""
        stop = None if count is None else start + count
        if type_name == "group":
            chosen = parked_groups if parked else waiting_groups if waiting else all_groups
            return chosen(self.queues(), now, start, count)
        if type_name == "queue":
            return self._queues(start, stop)
        if type_name == "topic":
            topics = self.host.topics
            return describing(list(islice(topics.values(), start, stop)), self._topic, len(topics))
        if waiting and type_name == "connection":
            sessions = [session for session in self.sessions() if session.is_blocked]
            show = partial(describe.connection, now=now)
            return describing(sessions[start:stop], show, len(sessions))
        return self._few(type_name, now, start, stop)

    def _queues(self, start: int, stop: int | None) -> Walk:
        host = self.host

        def show(queue: Queue) -> Attributes:
            return describe.queue(queue, host)

        return describing(list(islice(host.queues.values(), start, stop)), show, len(host.queues))

    def _topic(self, topic: Topic) -> Attributes:
        """Describe a topic, with the listeners that it has yet to meet."""
        is_there = self.host.topics.get(topic.name) is topic
        return describe.topic(self.host.topic(topic.name) if is_there else topic)

    def _few(self, type_name: str, now: float, start: int, stop: int | None) -> Walk:
        """Return a walk through a page of things that there are not so many of."""
        host = self.host
        if type_name == "subscription":
            durables = list(islice(host.durables.values(), start, stop))
            return describing(durables, describe.subscription, len(host.durables))
        if type_name == "connection":
            sessions = self.sessions()
            show = partial(describe.connection, now=now)
            return describing(sessions[start:stop], show, len(sessions))
        if type_name == "consumer":
            readers = self._consumers()
            return describing(readers[start:stop], _describe, len(readers))
        rows = self._rows(type_name, now)
        return describing(rows[start:stop], dict, len(rows))

    def _rows(self, type_name: str, now: float) -> list[Attributes]:
        """Describe all things of a type that there are few of."""
        if type_name == "broker":
            return [describe.broker(self.broker, self.host)]
        if type_name == "job":
            return [describe.job(job, now) for job in self.jobs()]
        if type_name in cluster.TYPES:
            return cluster.rows(self.broker.shared.cluster, type_name, now)
        if type_name in KINDS:
            return overlay_of(self.broker).describe(type_name)
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
        if type_name == "connection":
            return describe.connection(self.session(name), now)
        if type_name == "consumer":
            return describe_consumer(self._consumer(name))
        if type_name not in ("queue", "topic", "subscription", "group"):
            for row in self._rows(type_name, now):
                if row["name"] == name:
                    return row
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
        return [consumer for each in subscriptions for consumer in each.consumers.values()]

    def _consumer(self, name: str) -> Consumer:
        source, _, number = name.rpartition("/")
        for consumer in self._consumers():
            if str(consumer.id) == number:
                if consumer.queue is not None and consumer.queue.name == source:
                    return consumer
        raise RefusedError(f"there is no consumer {name}", "not-found")


def consumers(queue: Queue, start: int = 0, count: int | None = None) -> Walk:
    """Return a walk through a page of a queue's consumers and browsers."""
    state = queue.state
    readers = [*state.consumers.values(), *state.browsers]
    stop = None if count is None else start + count
    return describing(readers[start:stop], _describe, len(readers))


def consumers_of(session: Session, start: int, count: int) -> tuple[list[Attributes], int]:
    """Describe a page of what a connection reads, with how much it may hold of each at once."""
    found = [each for one in session.subscriptions.values() for each in one.consumers.values()]
    found = [each for each in found if each.queue is not None]
    rows = [
        describe_consumer(each) | {"unsettled_max": each.unsettled_max}
        for each in found[start : start + count]
    ]
    return rows, len(found)


def _describe(consumer: Consumer) -> Attributes | None:
    """Describe a consumer, unless it has gone."""
    return None if consumer.queue is None else describe_consumer(consumer)


def describe_consumer(consumer: Consumer) -> Attributes:
    """Describe a consumer that reads."""
    source = consumer.queue
    assert source is not None, "a subscription keeps only consumers that read"
    return describe.consumer(consumer, source)
