"""Inspection: what a user with the right `manage` may look at, in one virtual host.

Every request is authorised. Whoever may manage a queue may see it with its groups and consumers.
Lists of everything need the right to manage the broker. Names are written as clients write them,
and read like destinations.

    page / read           any type of `describe.ATTRIBUTES` (`core.management.catalogue`)
    groups / consumers    those of one queue
    trace                 what happens on a queue (`core.broker.trace`)

A group's name is `queue/group`. The messages and groups of a durable subscription are shown like
those of a queue, under `/dsub/NAME`.
"""

from __future__ import annotations

from covey.core.broker.broker import Broker
from covey.core.errors import RefusedError
from covey.core.host.virtual_host import VirtualHost
from covey.core.management import catalogue, describe
from covey.core.management.catalogue import Catalogue
from covey.core.management.describe import Attributes
from covey.core.management.group_lists import all_groups, parked_groups, waiting_groups
from covey.core.management.pages import Listing, Walk, whole
from covey.core.naming.destination import (
    DURABLE_PREFIX,
    TEMPORARY_ROOT,
    Destination,
    Kind,
    Syntax,
)
from covey.core.queue.queue import Queue
from covey.core.security.users import Identity, Verb, authorise
from covey.core.session import Session

SYNTAX = Syntax()

# By the type of a thing: the kind of destination whose permissions decide. A group's name starts
# with its queue's.
DESTINATIONS = {
    "queue": Kind.QUEUE,
    "group": Kind.QUEUE,
    "topic": Kind.TOPIC,
    "subscription": Kind.DSUB,
}


class Inspection:
    """A look at one virtual host, on behalf of somebody."""

    def __init__(self, broker: Broker, host: VirtualHost, identity: Identity) -> None:
        self.broker = broker
        self.host = host
        self.identity = identity
        self.catalogue = Catalogue(broker, host)

    def entities(self, type_name: str, now: float) -> list[Attributes]:
        """Describe everything of one type."""
        self.check_manage(type_name)
        return self.catalogue.entities(type_name, now)

    def page(
        self,
        type_name: str,
        now: float,
        start: int = 0,
        count: int | None = None,
        *,
        queue: str = "",
        waiting: bool = False,
        parked: bool = False,
    ) -> tuple[list[Attributes], int]:
        """Describe a page of the things of one type, or of one queue, and return their total."""
        walk = self.walk(type_name, now, start, count, queue=queue, waiting=waiting, parked=parked)
        return whole(walk)

    def walk(
        self,
        type_name: str,
        now: float,
        start: int = 0,
        count: int | None = None,
        *,
        queue: str = "",
        waiting: bool = False,
        parked: bool = False,
    ) -> Walk:
        """Return a walk through a page of the things of one type, or of one queue.

        Groups and consumers of a queue need the right to manage the queue. Other lists need the
        right to manage the broker. Groups and connections that wait can be asked for alone.
        """
        if queue and type_name == "group":
            return self.groups(queue, now, start, count, waiting=waiting, parked=parked)
        if queue and type_name == "consumer":
            return self.consumers(queue, start, count)
        if queue:
            raise RefusedError(f"a {type_name} is not of a queue", "invalid")
        self.check_manage(type_name)
        return self.catalogue.walk(type_name, now, start, count, waiting=waiting, parked=parked)

    def listing(self, target: str, walk: Walk, session: Session | None = None) -> Listing:
        """Begin a walk as a job."""
        job = Listing(target, session, walk)
        self.broker.jobs.begin(job)
        return job

    def groups(
        self,
        name: str,
        now: float,
        start: int,
        count: int | None,
        *,
        waiting: bool = False,
        parked: bool = False,
    ) -> Walk:
        """Return a walk through a page of a queue's groups: all, those that wait, or the parked."""
        self.check_manage("queue", name)
        chosen = parked_groups if parked else waiting_groups if waiting else all_groups
        return chosen([self.backlog(name)], now, start, count)

    def consumers(self, name: str, start: int, count: int | None) -> Walk:
        """Return a walk through a page of a queue's consumers."""
        self.check_manage("queue", name)
        return catalogue.consumers(self.backlog(name), start, count)

    def read(self, type_name: str, name: str, now: float) -> Attributes:
        """Describe one thing; raises RefusedError if there is none of that name."""
        if type_name == "group":
            queue_name, _, group = name.partition("/")
            return self.group(queue_name, group, now)
        self.check_manage(type_name, name)
        if type_name == "queue":
            return describe.queue(self.backlog(name), self.host)
        if type_name == "topic":
            name = canonical(Kind.TOPIC, name)
        return self.catalogue.read(type_name, name, now)

    def group(self, name: str, group: str, now: float) -> Attributes:
        """Describe one group of a queue; it may have no message."""
        self.check_manage("queue", name)
        queue = self.backlog(name)
        check_group(group)
        return self.catalogue.group(queue, group, now)

    def trace(self, name: str, after: int, now: float) -> Attributes:
        """Return what happened on a queue since event `after`; the first request starts a trace."""
        self.check_manage("queue", name)
        place = self.destination(name)
        name = str(place) if place.kind is Kind.DSUB else place.name
        broker = self.broker
        return describe.trace(broker.traces.ask(self.host, name, after, broker.limits, now))

    def queue(self, name: str) -> Queue:
        """Return a queue that exists."""
        return self.catalogue.queue(canonical(Kind.QUEUE, name))

    def backlog(self, name: str) -> Queue:
        """Return a queue that exists; `/dsub/NAME` means the queue of a durable subscription."""
        place = self.destination(name)
        if place.kind is Kind.DSUB:
            return self.host.durable(place.name).queue
        return self.queue(place.name)

    def check_manage(self, type_name: str, name: str = "") -> None:
        """Raise RefusedError if this user may not manage one queue, topic or subscription.

        Without a name (a list), and for any other type (a connection), the right to manage the
        broker is needed.
        """
        what = "broker"
        if name and type_name in DESTINATIONS:
            kind = DESTINATIONS[type_name]
            if kind is Kind.QUEUE:
                what = str(self.destination(name))
            else:
                what = str(Destination(kind, name if kind is Kind.DSUB else canonical(kind, name)))
        authorise(self.identity, Verb.MANAGE, what)

    def place(self, name: str) -> str:
        """Return the name in permission rules of a queue or durable subscription."""
        return str(self.destination(name))

    def destination(self, name: str) -> Destination:
        """Return the queue or the durable subscription that a name means.

        Lists show the queue of a durable subscription as `dsub:NAME`, so that name is understood,
        too.
        """
        if name.startswith(DURABLE_PREFIX):
            name = SYNTAX.dsub_prefix + name.removeprefix(DURABLE_PREFIX)
        if name.startswith(SYNTAX.dsub_prefix):
            return SYNTAX.parse(name, allow_patterns=False)[0]
        return Destination(Kind.QUEUE, canonical(Kind.QUEUE, name))


def canonical(kind: Kind, name: str) -> str:
    """Return the canonical form of a queue's or topic's name; raises RefusedError if invalid."""
    prefix = SYNTAX.queue_prefix if kind is Kind.QUEUE else SYNTAX.topic_prefix
    has_prefix = name.startswith("/") or "://" in name
    found = SYNTAX.parse(name if has_prefix else prefix + name, allow_patterns=False)
    if len(found) > 1 or found[0].kind is not kind:
        raise RefusedError(f"{name!r} is not the name of one {kind.value}", "invalid")
    if found[0].is_temporary:
        text = f"{name!r} belongs to one connection: its real name begins with {TEMPORARY_ROOT}"
        raise RefusedError(text, "invalid")
    return found[0].name


def check_group(group: str) -> None:
    """Raise RefusedError if the name of a group is empty: no message is of such a group."""
    if not group:
        raise RefusedError("which group is not said", "invalid")
