"""Catalogue: what there is in a virtual host, by type and name.

The types are those of `core.describe.ATTRIBUTES`. A group's name is `queue/group`, a consumer's
`source/id`, a connection's its number; names of queues and topics are canonical. Who may look is
asked before (`core.admin`).
"""

from __future__ import annotations

from covey.core import describe
from covey.core.broker import Broker
from covey.core.consumer import Consumer
from covey.core.describe import ATTRIBUTES, Attributes
from covey.core.errors import RefusedError
from covey.core.host import VirtualHost
from covey.core.queue import Queue
from covey.core.session import Session


class Catalogue:
    """Everything of one virtual host, to be found and described."""

    def __init__(self, broker: Broker, host: VirtualHost) -> None:
        self.broker = broker
        self.host = host

    def entities(self, type_name: str, now: float) -> list[Attributes]:
        """Describe everything of one type."""
        host = self.host
        if type_name == "broker":
            return [describe.broker(self.broker, host)]
        if type_name == "queue":
            return [describe.queue(queue, host) for queue in host.queues.values()]
        if type_name == "topic":
            return [describe.topic(host.topic(name)) for name in list(host.topics)]
        if type_name == "subscription":
            return [describe.subscription(durable) for durable in host.durables.values()]
        if type_name == "group":
            return [
                group
                for queue in self._queues()
                for group in describe.groups(queue, queue.board.lanes.values(), now)
            ]
        if type_name == "connection":
            return [describe.connection(session, now) for session in self.sessions()]
        if type_name == "consumer":
            return [_describe(consumer) for consumer in self._consumers()]
        raise RefusedError(
            f"there is no type {type_name}; there are {', '.join(ATTRIBUTES)}", "invalid"
        )

    def read(self, type_name: str, name: str, now: float) -> Attributes:
        """Describe one thing; raises RefusedError if there is none of that name."""
        for entity in self.entities(type_name, now):
            if entity["name"] == name:
                return entity
        raise RefusedError(f"there is no {type_name} {name}", "not-found")

    def group(self, queue: Queue, group: str, now: float) -> Attributes:
        """Describe one group of a queue; raises RefusedError if it has no message."""
        lane = queue.board.lanes.get(group)
        if lane is None:
            raise RefusedError(f"queue {queue.name} has no message of group {group}", "not-found")
        return describe.group(queue, lane, now)

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

    def sessions(self) -> list[Session]:
        """Return the sessions of all connections."""
        sessions = self.broker.sessions.values()
        return [session for session in sessions if session.host is self.host]

    def _queues(self) -> list[Queue]:
        durables = [durable.queue for durable in self.host.durables.values()]
        return [*self.host.queues.values(), *durables]

    def _consumers(self) -> list[Consumer]:
        subscriptions = [each for s in self.sessions() for each in s.subscriptions.values()]
        return [consumer for each in subscriptions for consumer in each.consumers]


def _describe(consumer: Consumer) -> Attributes:
    source = consumer.queue
    assert source is not None, "a subscription keeps only consumers that read"
    return describe.consumer(consumer, source)
