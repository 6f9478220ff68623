"""Admin: the one API for management; `$management`, HTTP and tests all come through here.

An `Admin` is bound to who asks and in which virtual host, so every verb is authorised: `manage` for
all of them, but `declare`, which any client may use that is allowed to create (an address string
with a `create` policy, for one). What a declaration causes elsewhere is authorised, too
(`core.management.declaration`). Names are as clients write them and are read like destinations.

    page / read           any type of `describe.ATTRIBUTES` (`core.management.catalogue`)
    groups / consumers    those of one queue
    trace                 what happens on a queue (`core.broker.trace`)
    create / update       queue (by arguments), topic
    delete                queue, topic, subscription, connection
    purge, close_group, rebalance, park, retire     through `core.queue.policy`

A group's name is `queue/group`. What is done to a queue's messages and groups can be done to those
of a durable subscription, `/dsub/NAME`. Refusals are RefusedError with the codes not-found, exists,
conflict, invalid, denied.
"""

from __future__ import annotations

from collections.abc import Mapping

from covey.config.qpid import DeclareError, declared
from covey.config.queues import QueueSettings
from covey.core.broker.broker import Broker
from covey.core.errors import RefusedError
from covey.core.host.virtual_host import VirtualHost
from covey.core.management import catalogue, describe
from covey.core.management.catalogue import Catalogue
from covey.core.management.declaration import authorise_caused
from covey.core.management.describe import Attributes
from covey.core.management.settings_check import dead_letter_flaw
from covey.core.naming.destination import DURABLE_PREFIX, Destination, Kind, Syntax
from covey.core.queue import policy as commands
from covey.core.queue.policy import change_policy
from covey.core.queue.queue import Queue
from covey.core.security.users import Identity, Verb, authorise

SYNTAX = Syntax()

# What a thing's name is the name of, for permissions; a group's starts with its queue's.
DESTINATIONS = {
    "queue": Kind.QUEUE,
    "group": Kind.QUEUE,
    "topic": Kind.TOPIC,
    "subscription": Kind.DSUB,
}


class Admin:
    """Management of one virtual host, on behalf of somebody."""

    def __init__(self, broker: Broker, host: VirtualHost, identity: Identity) -> None:
        self.broker = broker
        self.host = host
        self.identity = identity
        self.catalogue = Catalogue(broker, host)

    # Looking.

    def entities(self, type_name: str, now: float) -> list[Attributes]:
        """Describe everything of one type."""
        self._may_manage(type_name)
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
    ) -> tuple[list[Attributes], int]:
        """Describe some things of one type, or of one type and queue; return how many there are.

        Who manages a queue may see its groups and consumers; other lists are the broker's. Groups
        and connections that wait can be asked for alone.
        """
        if queue and type_name == "group":
            return self.groups(queue, now, start, count, waiting=waiting)
        if queue and type_name == "consumer":
            return self.consumers(queue, start, count)
        if queue:
            raise RefusedError(f"a {type_name} is not of a queue", "invalid")
        self._may_manage(type_name)
        if waiting and type_name == "connection":
            return self.catalogue.blocked(now, start, count)
        if waiting and type_name == "group":
            return catalogue.waiting_groups(self.catalogue.queues(), now, start, count)
        return self.catalogue.page(type_name, now, start, count)

    def groups(
        self, name: str, now: float, start: int, count: int | None, *, waiting: bool
    ) -> tuple[list[Attributes], int]:
        """Describe some groups of a queue, or of those that wait; return how many there are."""
        self._may_manage("queue", name)
        chosen = catalogue.waiting_groups if waiting else catalogue.groups
        return chosen([self.backlog(name)], now, start, count)

    def consumers(self, name: str, start: int, count: int | None) -> tuple[list[Attributes], int]:
        """Describe some of a queue's consumers; return how many there are, too."""
        self._may_manage("queue", name)
        return catalogue.consumers(self.backlog(name), start, count)

    def read(self, type_name: str, name: str, now: float) -> Attributes:
        """Describe one thing; raises RefusedError if there is none of that name."""
        if type_name == "group":
            queue_name, _, group = name.partition("/")
            self._may_manage(type_name, queue_name)
            return self.catalogue.group(self.backlog(queue_name), group, now)
        self._may_manage(type_name, name)
        if type_name == "queue":
            return describe.queue(self.backlog(name), self.host)
        if type_name == "topic":
            name = canonical(Kind.TOPIC, name)
        return self.catalogue.read(type_name, name, now)

    def trace(self, name: str, after: int, now: float) -> Attributes:
        """Tell what happened on a queue since event `after`; the first question starts it."""
        self._may_manage("queue", name)
        place = self._place(name)
        name = str(place) if place.kind is Kind.DSUB else place.name
        broker = self.broker
        return describe.trace(broker.traces.ask(self.host, name, after, broker.limits, now))

    def queue(self, name: str) -> Queue:
        """Return a queue that exists."""
        return self.catalogue.queue(canonical(Kind.QUEUE, name))

    def backlog(self, name: str) -> Queue:
        """Return a queue that exists; `/dsub/NAME` is that of a durable subscription."""
        place = self._place(name)
        if place.kind is Kind.DSUB:
            return self.host.durable(place.name).queue
        return self.queue(place.name)

    # Making and changing.

    def declare(self, name: str, arguments: Mapping[str, object], now: float) -> Queue:
        """Make a queue that stays until it is deleted; raises RefusedError if it exists."""
        name = canonical(Kind.QUEUE, name)
        authorise(self.identity, Verb.CREATE, str(Destination(Kind.QUEUE, name)))
        host = self.host
        host.now = now
        if name in host.queues:
            raise RefusedError(f"queue {name} exists already", "exists")
        queue = host.queue(name, self._declared(name, arguments, host.policies.queue(name)))
        host.declare(queue)
        return queue

    def create(
        self, type_name: str, name: str, arguments: Mapping[str, object], now: float
    ) -> Attributes:
        """Make a queue or a topic."""
        self._may_manage(type_name, name)
        if type_name == "queue":
            return describe.queue(self.declare(name, arguments, now), self.host)
        if type_name != "topic":
            raise RefusedError(f"a {type_name} cannot be created", "invalid")
        name = canonical(Kind.TOPIC, name)
        if name in self.host.topics:
            raise RefusedError(f"topic {name} exists already", "exists")
        return describe.topic(self.host.topic(name))

    def update(
        self, type_name: str, name: str, arguments: Mapping[str, object], now: float
    ) -> Attributes:
        """Change some arguments of a queue while it works; the others stay."""
        self._may_manage(type_name, name)
        if type_name != "queue":
            raise RefusedError(f"a {type_name} cannot be updated", "invalid")
        queue = self.queue(name)
        settings = self._declared(queue.name, arguments, queue.settings)
        if settings.mirrored != queue.settings.mirrored:
            raise RefusedError(f"queue {queue.name}: mirrored is fixed once it exists", "conflict")
        change_policy(queue, settings, self.broker.limits, now)
        self.host.declare(queue)
        return describe.queue(queue, self.host)

    def delete(
        self,
        type_name: str,
        name: str,
        now: float,
        *,
        if_empty: bool = False,
        if_unused: bool = False,
    ) -> None:
        """Remove a thing; `if_empty` and `if_unused` refuse to lose messages or consumers."""
        self._may_manage(type_name, name)
        self.host.now = now
        if type_name == "queue":
            self.delete_queue(name, if_empty=if_empty, if_unused=if_unused)
        elif type_name == "topic":
            self._delete_topic(canonical(Kind.TOPIC, name), if_unused=if_unused)
        elif type_name == "subscription":
            durable = self.host.durable(name)
            _refuse_in_use(durable.queue, if_empty=if_empty, if_unused=if_unused)
            self.host.delete_durable(name)
        elif type_name == "connection":
            session = self.catalogue.session(name)
            if session.kick is not None:
                session.kick(f"closed by {self.identity.name}")
        else:
            raise RefusedError(f"a {type_name} cannot be deleted", "invalid")

    def delete_queue(self, name: str, *, if_empty: bool = False, if_unused: bool = False) -> None:
        """Remove a queue on behalf of somebody who may destroy it."""
        queue = self.queue(name)
        authorise(self.identity, Verb.DESTROY, str(Destination(Kind.QUEUE, queue.name)))
        _refuse_in_use(queue, if_empty=if_empty, if_unused=if_unused)
        self.host.delete_queue(queue.name, f"queue {queue.name} was deleted")

    # Operating.

    def purge(self, name: str, now: float) -> int:
        """Drop every message nobody has acquired, delayed ones too; return how many."""
        self._may_manage("queue", name)
        queue = self.backlog(name)
        return commands.purge(queue, now) + self.broker.commits.give_up(queue)

    def close_group(self, name: str, group: str, now: float) -> bool:
        """Take a group from its owner once its messages are settled."""
        self._may_manage("queue", name)
        return commands.close_group(self.backlog(name), group, now)

    def rebalance(self, name: str, now: float) -> None:
        """Share out a queue's groups anew, each as it drains."""
        self._may_manage("queue", name)
        commands.rebalance(self.backlog(name), now)

    def park(self, name: str, group: str, now: float, *, parked: bool) -> bool:
        """Stop one group, or let it go on; False if it has no message."""
        self._may_manage("queue", name)
        return commands.park(self.backlog(name), group, now, parked=parked)

    def retire(self, name: str, consumer_id: int, now: float) -> None:
        """Give a consumer no new groups: a rolling deploy empties it in peace."""
        self._may_manage("queue", name)
        queue = self.backlog(name)
        consumer = queue.board.consumers.get(consumer_id)
        if consumer is None:
            raise RefusedError(f"queue {queue.name} has no consumer {consumer_id}", "not-found")
        commands.retire(queue, consumer, now)

    # Finding.

    def _declared(
        self, name: str, arguments: Mapping[str, object], base: QueueSettings
    ) -> QueueSettings:
        """Return what the arguments make of a queue; raises RefusedError unless all of it may be.

        What it does to other destinations is authorised, too (`core.management.declaration`).
        """
        settings = _declared(name, arguments, base)
        given = (base, self.host.policies.queue(name))
        authorise_caused(self.identity, self.host, name, settings, given)
        return settings

    def check_manage(self, type_name: str, name: str = "") -> None:
        """Raise RefusedError if who asks may not manage a thing, or without a name all of them."""
        self._may_manage(type_name, name)

    def _may_manage(self, type_name: str, name: str = "") -> None:
        """Ask about one queue or topic, or about the broker: a list, a connection."""
        what = "broker"
        if name and type_name in DESTINATIONS:
            kind = DESTINATIONS[type_name]
            if kind is Kind.QUEUE:
                what = str(self._place(name))
            else:
                what = str(Destination(kind, name if kind is Kind.DSUB else canonical(kind, name)))
        authorise(self.identity, Verb.MANAGE, what)

    def _place(self, name: str) -> Destination:
        """Return whose messages a name means: a queue's, or a durable subscription's.

        The latter's queue is listed as `dsub:NAME`; a queue that is really called so comes first.
        """
        if name.startswith(SYNTAX.dsub_prefix):
            return SYNTAX.parse(name, allow_patterns=False)[0]
        name = canonical(Kind.QUEUE, name)
        durable = name.removeprefix(DURABLE_PREFIX)
        if durable != name and name not in self.host.queues and durable in self.host.durables:
            return Destination(Kind.DSUB, durable)
        return Destination(Kind.QUEUE, name)

    def _delete_topic(self, name: str, *, if_unused: bool) -> None:
        if name not in self.host.topics:
            raise RefusedError(f"there is no topic {name}", "not-found")
        topic = self.host.topic(name)
        if if_unused and topic.audience:
            raise RefusedError(f"topic {name} has {topic.audience} subscribers", "conflict")
        self.host.delete_topic(name)


def canonical(kind: Kind, name: str) -> str:
    """Return the one form of a queue's or topic's name; raises RefusedError if it is none."""
    prefix = SYNTAX.queue_prefix if kind is Kind.QUEUE else SYNTAX.topic_prefix
    has_prefix = name.startswith("/") or "://" in name
    found = SYNTAX.parse(name if has_prefix else prefix + name, allow_patterns=False)
    if len(found) > 1 or found[0].kind is not kind:
        raise RefusedError(f"{name!r} is not the name of one {kind.value}", "invalid")
    return found[0].name


def _declared(name: str, arguments: Mapping[str, object], base: QueueSettings) -> QueueSettings:
    try:
        settings = declared(name, arguments, base)
    except DeclareError as error:
        raise RefusedError(str(error), "invalid") from error
    flaw = dead_letter_flaw(settings)
    if flaw:
        raise RefusedError(f"queue {name}: the queue for its dead messages: {flaw}", "invalid")
    return settings


def _refuse_in_use(queue: Queue, *, if_empty: bool, if_unused: bool) -> None:
    board = queue.board
    users = len(board.consumers) + len(board.browsers)
    if if_unused and users:
        raise RefusedError(f"queue {queue.name} has {users} consumers", "conflict")
    count = board.index.count + queue.timers.delayed.count
    if if_empty and count:
        raise RefusedError(f"queue {queue.name} holds {count} messages", "conflict")
