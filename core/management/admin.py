"""Admin: the one API for management; `$management`, HTTP and tests all come through here.

An `Admin` acts for one user in one virtual host, so every verb is authorised. All verbs need the
right `manage`, except `declare`, which needs the right to create: a client's address string may
have a `create` policy. What a declaration causes elsewhere is authorised, too
(`core.management.declaration`). Names are as clients write them, and are read like destinations.

    page, read, trace ...    what there is: `core.management.inspection`
    create / update          queue (by arguments), topic
    delete                   queue, topic, subscription, connection, job (which is stopped)
    the same three           user, permission, policy: set at run time (`core.management.overlay`)
    close_group, rebalance, park, pause, retire     through `core.queue.policy`
    purge                    a job (`core.jobs`): whoever asked waits for it, and nobody else

Every verb that changes something is put on record (`core.events.audit`), also if it fails.

A group's name is `queue/group`. Commands on the messages and groups of a queue also work on those
of a durable subscription, `/dsub/NAME`. Refusals are RefusedError with the codes not-found, exists,
conflict, invalid, denied.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from typing import Final

from covey.config.qpid import DeclareError, changed, declared
from covey.config.queues import QueueSettings
from covey.core.broker.broker import Broker
from covey.core.dispatch.state import ParkRecord
from covey.core.errors import RefusedError
from covey.core.events.audit import Cost, OperatorAction, on_record
from covey.core.host.virtual_host import VirtualHost
from covey.core.jobs.job import Job
from covey.core.management import cluster, describe
from covey.core.management.declaration import REACHING, authorise_caused
from covey.core.management.describe import Attributes
from covey.core.management.inspection import Inspection, canonical, check_group
from covey.core.management.overlay import FILE, KINDS, PERMISSION, POLICY, USER, overlay_of
from covey.core.management.settings_check import dead_letter_flaw
from covey.core.naming.destination import Destination, Kind
from covey.core.queue import policy as commands
from covey.core.queue.balance import plan
from covey.core.queue.pause import WAYS
from covey.core.queue.policy import change_policy
from covey.core.queue.purge import Purge
from covey.core.queue.queue import Queue
from covey.core.security.users import ADMIN, Identity, Verb, authorise, denied
from covey.core.selector import Selector
from covey.core.session import Session

PARK_REASON_MAX: Final = 1024  # characters


class Admin(Inspection):
    """Management of one virtual host, on behalf of somebody."""

    def __init__(
        self,
        broker: Broker,
        host: VirtualHost,
        identity: Identity,
        protocol: str = "",
        session: Session | None = None,
    ) -> None:
        """Act for a user who came by this protocol; answers to `session` wait for its jobs."""
        super().__init__(broker, host, identity)
        self.protocol = protocol
        self.session = session

    # Making and changing.

    def declare(self, name: str, arguments: Mapping[str, object], now: float) -> Queue:
        """Make a queue that stays until it is deleted; raises RefusedError if it exists."""
        with self.acting("declare", "queue", name):
            return self._declare(name, arguments, now)

    def create(
        self, type_name: str, name: str, arguments: Mapping[str, object], now: float
    ) -> Attributes:
        """Make a queue or a topic, or set a user, a permission or a policy."""
        if type_name in KINDS:
            return self._set(type_name, name, arguments, now, is_new=True)
        with self.acting("declare", type_name, name):
            self.check_manage(type_name, name)
            if type_name == "queue":
                return describe.queue(self._declare(name, arguments, now), self.host)
            if type_name != "topic":
                raise RefusedError(f"a {type_name} cannot be created", "invalid")
            name = canonical(Kind.TOPIC, name)
            if name in self.host.topics:
                raise RefusedError(f"topic {name} exists already", "exists")
            return describe.topic(self.host.topic(name, self.identity.name))

    def update(
        self, type_name: str, name: str, arguments: Mapping[str, object], now: float
    ) -> Attributes:
        """Change some arguments of a queue in use; None removes one, those not named stay."""
        if type_name in KINDS:
            return self._set(type_name, name, arguments, now, is_new=False)
        with self.acting("change", type_name, name):
            self.check_manage(type_name, name)
            if type_name in cluster.TYPES:
                return cluster.change(self.broker.shared.cluster, type_name, name, arguments, now)
            if type_name != "queue":
                raise RefusedError(f"a {type_name} cannot be updated", "invalid")
            queue = self.queue(name)
            policy = self.host.policies.queue(queue.name)
            settings = _changed(queue, arguments, policy)
            given = (queue.settings, policy)
            authorise_caused(self.identity, self.host, queue.name, settings, given)
            if settings.mirrored != queue.settings.mirrored:
                raise RefusedError(
                    f"queue {queue.name}: mirrored is fixed once it exists", "conflict"
                )
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
        """Remove a thing; refuse if it has messages (`if_empty`) or consumers (`if_unused`)."""
        action = {"connection": "close", "job": "stop"}.get(type_name, "delete")
        with self.acting(action, type_name, name) as cost:
            self.check_manage(type_name, name)
            self.broker.turn(now)
            if type_name == "queue":
                cost.count = self._delete_queue(name, if_empty=if_empty, if_unused=if_unused)
            elif type_name == "topic":
                self._delete_topic(canonical(Kind.TOPIC, name), if_unused=if_unused)
            elif type_name == "subscription":
                queue = self.host.durable(name).queue
                _refuse_in_use(queue, if_empty=if_empty, if_unused=if_unused)
                cost.count = _count(queue)
                self.host.delete_durable(name)
            elif type_name == "connection":
                self.catalogue.session(name).kick(f"closed by {self.identity.name}")
            elif type_name == "job":
                self._stop(self.catalogue.job(name))
            elif type_name in KINDS:
                self._check_admin(type_name)
                overlay_of(self.broker).remove(type_name, name, now)
            else:
                raise RefusedError(f"a {type_name} cannot be deleted", "invalid")

    def delete_queue(self, name: str, *, if_empty: bool = False, if_unused: bool = False) -> None:
        """Remove a queue on behalf of somebody who may destroy it."""
        with self.acting("delete", "queue", name) as cost:
            cost.count = self._delete_queue(name, if_empty=if_empty, if_unused=if_unused)

    def delete_durable(self, name: str) -> None:
        """End a durable subscription on behalf of somebody who may destroy it."""
        with self.acting("delete", "subscription", name) as cost:
            authorise(self.identity, Verb.DESTROY, str(Destination(Kind.DSUB, name)))
            cost.count = _count(self.host.durable(name).queue)
            self.host.delete_durable(name)

    def make_durable(
        self,
        said: str,
        name: str,
        topics: tuple[Destination, ...],
        selector: Selector | None,
        now: float,
    ) -> None:
        """Make a durable subscription for the user who asks, with this user's permissions."""
        with self.acting("declare", "subscription", said):
            session = self.session or self.broker.open(self.host, self.identity, now)
            try:
                self.broker.make_durable(session, name, topics, selector, now)
            finally:
                if session is not self.session:
                    self.broker.drop(session, now)

    def settings_with(self, queue: Queue, arguments: Mapping[str, object]) -> QueueSettings:
        """Return what a queue's settings would be with other arguments."""
        return _changed(queue, arguments, self.host.policies.queue(queue.name))

    # Operating.

    def purge(self, name: str, now: float) -> Purge:
        """Drop every message that no consumer holds, delayed ones too; the job counts them."""
        with self.acting("purge", "queue", name) as cost:
            self.check_manage("queue", name)
            self.broker.turn(now)
            purge = Purge(self.backlog(name), session=self.session)
            cost.is_told_later = True
            purge.then(lambda: cost.tell(purge.count))
            self.broker.jobs.begin(purge)
            return purge

    def close_group(self, name: str, group: str, now: float) -> bool:
        """Take a group from its owner once its messages are settled."""
        with self.acting("close", "group", name, group):
            self.check_manage("queue", name)
            return commands.close_group(self.backlog(name), group, now)

    def rebalance(self, name: str, now: float) -> int:
        """Distribute a queue's groups anew; each moves when drained; return how many move."""
        with self.acting("rebalance", "queue", name):
            self.check_manage("queue", name)
            return commands.rebalance(self.backlog(name), now)

    def rebalance_plan(self, name: str) -> list[Attributes]:
        """Return the groups that a rebalance would move, each with its old and its new owner."""
        self.check_manage("queue", name)
        return [
            {
                "group": lane.name,
                "from": step.unit.owner.id,
                "to": step.target.id,
                "messages": lane.count,
                "unsettled": lane.unsettled,
            }
            for step in plan(self.backlog(name))
            for lane in step.unit.lanes
        ]

    def park(self, name: str, group: str, now: float, *, parked: bool, reason: str = "") -> None:
        """Stop one group, or let it go on, also after a restart; the group may have no message."""
        with self.acting("park" if parked else "unpark", "group", name, group):
            self.check_manage("queue", name)
            check_group(group)
            check_reason(reason)
            self.broker.turn(now)
            queue = self.backlog(name)
            if parked:
                self._check_length(queue, group)
            record = ParkRecord(self.identity.name, self.broker.clock.wall_ms, reason)
            commands.park(queue, group, now, parked=parked, record=record)
            if parked:
                self.host.queue_factory.parked.keep(queue.name, group, record)
            else:
                self.host.queue_factory.parked.end(queue.name, group)

    def pause(self, name: str, way: str, now: float, reason: str = "") -> str:
        """Pause a queue, also after a restart; return what is paused now: in, out or both."""
        with self.acting("pause", "queue", name):
            check_reason(reason)
            record = ParkRecord(self.identity.name, self.broker.clock.wall_ms, reason)
            return self._pause(name, way, now, record)

    def resume(self, name: str, way: str, now: float) -> str:
        """Let a queue go on; return what is still paused: in, out, both or nothing."""
        with self.acting("resume", "queue", name):
            return self._pause(name, way, now, None)

    def retire(self, name: str, consumer_id: int, now: float) -> None:
        """Give a consumer no new groups, so that a rolling deploy can empty it first."""
        with self.acting("retire", "consumer", name, str(consumer_id)):
            self.check_manage("queue", name)
            queue = self.backlog(name)
            consumer = queue.state.consumers.get(consumer_id)
            if consumer is None:
                raise RefusedError(f"queue {queue.name} has no consumer {consumer_id}", "not-found")
            commands.retire(queue, consumer, now)

    def _check_length(self, queue: Queue, group: str) -> None:
        """Raise RefusedError if no message can be of a group: it would be remembered for ever."""
        most = self.broker.limits.group_id_length_max
        if group not in queue.state.lanes and len(group.encode("utf-8", "surrogatepass")) > most:
            text = f"queue {queue.name}: the group has more than {most} bytes"
            raise RefusedError(f"{text}, the most that group_id_length_max allows", "limit")

    # On record.

    def acting(
        self, action: str, kind: str, name: str, part: str = ""
    ) -> AbstractContextManager[Cost]:
        """Put on record what the block does; `part` is a group or consumer of the queue `name`."""
        with suppress(RefusedError):  # not a valid name: the record has it as it was written
            if kind == "topic":
                name = canonical(Kind.TOPIC, name)
            elif kind in ("queue", "group", "consumer"):
                place = self.destination(name)
                name = str(place) if place.kind is Kind.DSUB else place.name
        what = OperatorAction(
            user=self.identity.name,
            remote=self.identity.remote,
            protocol=self.protocol,
            action=action,
            kind=kind,
            host=self.host.id,
            name=f"{name}/{part}" if part else name,
        )
        return on_record(self.broker.audit, what)

    # Inside.

    def _pause(self, name: str, way: str, now: float, record: ParkRecord | None) -> str:
        self.check_manage("queue", name)
        if way not in WAYS:
            raise RefusedError(f"a queue is paused {', '.join(WAYS)}, not {way!r}", "invalid")
        self.broker.turn(now)
        queue = self.backlog(name)
        paused = self.host.queue_factory.paused
        commands.pause(queue, way, now, record)
        for one in WAYS[way]:
            if record is None:
                paused.end(queue.name, one)
            else:
                paused.keep(queue.name, one, record)
        return queue.pause.way

    def _declare(self, name: str, arguments: Mapping[str, object], now: float) -> Queue:
        name = canonical(Kind.QUEUE, name)
        authorise(self.identity, Verb.CREATE, str(Destination(Kind.QUEUE, name)))
        host = self.host
        self.broker.turn(now)
        if name in host.queues:
            raise RefusedError(f"queue {name} exists already", "exists")
        settings = self._declared(name, arguments, host.policies.queue(name))
        queue = host.queue(name, settings, self.identity.name)
        host.declare(queue)
        return queue

    def _delete_queue(self, name: str, *, if_empty: bool, if_unused: bool) -> int:
        """Remove a queue; return how many messages it held."""
        queue = self.queue(name)
        authorise(self.identity, Verb.DESTROY, str(Destination(Kind.QUEUE, queue.name)))
        _refuse_in_use(queue, if_empty=if_empty, if_unused=if_unused)
        count = _count(queue)
        self.host.delete_queue(queue.name, f"queue {queue.name} was deleted")
        return count

    def _declared(
        self, name: str, arguments: Mapping[str, object], base: QueueSettings
    ) -> QueueSettings:
        """Return the settings of a queue with these arguments; raises RefusedError if not allowed.

        What the queue does to other destinations is authorised, too
        (`core.management.declaration`).
        """
        settings = _declared(name, arguments, base)
        given = (base, self.host.policies.queue(name))
        authorise_caused(self.identity, self.host, name, settings, given)
        return settings

    def _stop(self, job: Job) -> None:
        """Stop a job; what is done stays done; raises RefusedError if it cannot be stopped."""
        if not job.is_stoppable:
            raise RefusedError(f"{job.verb} of {job.target} cannot be stopped half-way", "conflict")
        self.broker.jobs.stop(job)

    def _set(
        self, kind: str, name: str, fields: Mapping[str, object], now: float, *, is_new: bool
    ) -> Attributes:
        """Set a user, a permission or a policy, from now on and also after restarts."""
        with self.acting("declare" if is_new else "change", kind, name):
            self.check_manage(kind)
            self._check_admin(kind)
            overlay = overlay_of(self.broker)
            self._check_reaching(kind, name, fields)
            known = {str(row["name"]): row for row in overlay.describe(kind)}
            if is_new and known.get(name, {}).get("origin", FILE) != FILE:
                raise RefusedError(f"{kind} {name} exists already", "exists")
            if not is_new and name not in known:
                raise RefusedError(f"there is no {kind} {name}", "not-found")
            if is_new and kind == USER and "password" not in fields:
                raise RefusedError(f"user {name} needs a password", "invalid")
            self.broker.turn(now)
            overlay.put(kind, name, fields, now)
            return self.catalogue.read(kind, name, now)

    def _check_admin(self, kind: str) -> None:
        """Only an admin may give rights: anybody else could give more rights to themselves."""
        if kind in (USER, PERMISSION) and not self.identity.has_role(ADMIN):
            raise denied(self.identity, Verb.MANAGE, f"{kind}s")

    def _check_reaching(self, kind: str, name: str, fields: Mapping[str, object]) -> None:
        """Only an admin may have queues feed others by a policy: it is for queues of all users."""
        reaching = [each for each in REACHING if fields.get(each)] if kind == POLICY else []
        if reaching and not self.identity.has_role(ADMIN):
            raise denied(self.identity, Verb.MANAGE, f"{reaching[0]} in a policy")

    def _delete_topic(self, name: str, *, if_unused: bool) -> None:
        if name not in self.host.topics:
            raise RefusedError(f"there is no topic {name}", "not-found")
        topic = self.host.topic(name)
        if if_unused and topic.audience:
            raise RefusedError(f"topic {name} has {topic.audience} subscribers", "conflict")
        self.host.delete_topic(name)


def check_reason(reason: str) -> None:
    """Raise RefusedError if a reason is too long: it is kept, and shown in tables."""
    if len(reason) > PARK_REASON_MAX:
        raise RefusedError(f"a reason has {PARK_REASON_MAX} characters at most", "invalid")


def _declared(name: str, arguments: Mapping[str, object], base: QueueSettings) -> QueueSettings:
    try:
        return _without_flaw(declared(name, arguments, base))
    except DeclareError as error:
        raise RefusedError(str(error), "invalid") from error


def _changed(queue: Queue, arguments: Mapping[str, object], policy: QueueSettings) -> QueueSettings:
    try:
        return _without_flaw(changed(queue.name, arguments, queue.settings, policy))
    except DeclareError as error:
        raise RefusedError(str(error), "invalid") from error


def _without_flaw(settings: QueueSettings) -> QueueSettings:
    flaw = dead_letter_flaw(settings)
    if flaw:
        named = f"queue {settings.id}: the queue for its dead messages"
        raise RefusedError(f"{named}: {flaw}", "invalid")
    return settings


def _refuse_in_use(queue: Queue, *, if_empty: bool, if_unused: bool) -> None:
    state = queue.state
    users = len(state.consumers) + len(state.browsers)
    if if_unused and users:
        raise RefusedError(f"queue {queue.name} has {users} consumers", "conflict")
    count = _count(queue)
    if if_empty and count:
        raise RefusedError(f"queue {queue.name} holds {count} messages", "conflict")


def _count(queue: Queue) -> int:
    """Return how many messages a queue holds, delayed ones too."""
    return queue.state.index.count + queue.timers.delayed.count
