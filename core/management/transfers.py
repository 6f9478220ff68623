"""Transfers: what an operator does with one group, with single messages and with dead letters.

Each function begins a job (`core.publishing.transfer`) for the user that an `Admin` acts for, and
returns the job. Its `answer` is available when the job is over. All of them need `manage` on the
queue, and on each queue that gets messages. A target queue that does not exist yet is made, as by a
SEND. Each command is put on record, with the number of messages that it concerned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from covey.core.errors import RefusedError
from covey.core.events.audit import Cost
from covey.core.host.temporary import check_made
from covey.core.management.admin import Admin, check_reason
from covey.core.management.message_view import Look
from covey.core.model.message import Message
from covey.core.naming.destination import TEMPORARY_ROOT, Destination, Kind
from covey.core.publishing.transfer import (
    Bury,
    Choice,
    Discard,
    Group,
    Letters,
    Move,
    Numbered,
    Transfer,
)
from covey.core.queue.queue import Queue
from covey.core.security.users import Verb, authorise
from covey.core.selector import compile_selector
from covey.core.session import Session

NUMBERS_MAX = 10_000  # of one command
LOOK_MAX = 1000  # messages shown by one command
T = TypeVar("T", bound=Transfer)


def move_group(
    admin: Admin, name: str, group: str, to: str, now: float, *, waits: bool = False
) -> Transfer:
    """Move all messages of a group to another queue."""
    with admin.acting("move", "group", name, group) as cost:
        queue = _managed(admin, name, now)
        _target(admin, queue, to)  # it is there before a group is stopped for it
        choice = Group(queue, group, waits=waits)
        job = _mover(admin, choice, _size_of(choice), to)
        return _begun(admin, job, cost)


def purge_group(
    admin: Admin, name: str, group: str, now: float, *, waits: bool = False
) -> Transfer:
    """Drop all messages of a group."""
    with admin.acting("purge", "group", name, group) as cost:
        choice = Group(_managed(admin, name, now), group, waits=waits)
        job = Discard("purge", choice, admin.session, _size_of(choice))
        return _begun(admin, job, cost)


def dead_letter_group(
    admin: Admin, name: str, group: str, now: float, *, reason: str = "", waits: bool = False
) -> Transfer:
    """Send all messages of a group to the queue's dead-letter queue."""
    with admin.acting("dead-letter", "group", name, group) as cost:
        queue = _with_dlq(_managed(admin, name, now))
        choice = Group(queue, group, waits=waits)
        job = Bury(choice, admin.session, _size_of(choice), _reason(admin, reason))
        return _begun(admin, job, cost)


def move_messages(admin: Admin, name: str, numbers: Sequence[int], to: str, now: float) -> Transfer:
    """Move messages by their numbers to another queue."""
    with admin.acting("move", "queue", name) as cost:
        queue = _managed(admin, name, now)
        _target(admin, queue, to)
        job = _mover(admin, _numbers(queue, numbers), len(numbers), to)
        return _begun(admin, job, cost)


def delete_messages(admin: Admin, name: str, numbers: Sequence[int], now: float) -> Transfer:
    """Drop messages by their numbers."""
    with admin.acting("purge", "queue", name) as cost:
        choice = _numbers(_managed(admin, name, now), numbers)
        job = Discard("delete", choice, admin.session, len(numbers))
        return _begun(admin, job, cost)


def dead_letter_messages(
    admin: Admin, name: str, numbers: Sequence[int], now: float, *, reason: str = ""
) -> Transfer:
    """Send messages by their numbers to the queue's dead-letter queue."""
    with admin.acting("dead-letter", "queue", name) as cost:
        queue = _with_dlq(_managed(admin, name, now))
        choice = _numbers(queue, numbers)
        job = Bury(choice, admin.session, len(numbers), _reason(admin, reason))
        return _begun(admin, job, cost)


def retry(
    admin: Admin,
    name: str,
    now: float,
    *,
    group: str = "",
    selector: str = "",
    count: int = 0,
    last: int = 0,
) -> Move:
    """Send dead letters back to where each came from, at most `count` and up to number `last`."""
    with admin.acting("retry", "group" if group else "queue", name, group) as cost:
        queue = _managed(admin, name, now)
        limits = admin.broker.limits
        wanted = None
        if selector:
            wanted = compile_selector(
                selector,
                length_max=limits.selector_length_max,
                depth_max=limits.selector_depth_max,
            )
        choice = Letters(queue, group, wanted, last)
        job = Move(
            choice,
            admin.session,
            queue.state.index.count,
            admin.broker.publishing.arrivals,
            _Targets(admin, queue).origin_of,
            "retry",
            count,
        )
        return _begun(admin, job, cost)


def retry_messages(admin: Admin, name: str, numbers: Sequence[int], now: float) -> Transfer:
    """Send dead letters by their numbers back to where each came from; other messages stay."""
    with admin.acting("retry", "queue", name) as cost:
        queue = _managed(admin, name, now)
        arrivals = admin.broker.publishing.arrivals
        origin = _Targets(admin, queue).origin_of
        choice = _numbers(queue, numbers)
        job = Move(choice, admin.session, len(numbers), arrivals, origin, "retry")
        return _begun(admin, job, cost)


def look(
    admin: Admin,
    name: str,
    now: float,
    *,
    group: str = "",
    numbers: Sequence[int] = (),
    count: int = 0,
) -> Look:
    """Show messages of a group, or of some numbers."""
    queue = _managed(admin, name, now)
    _check_numbers(numbers)
    count = min(count, LOOK_MAX)
    job = Look(queue, admin.session, group=group, numbers=numbers, count=count)
    admin.broker.jobs.begin(job)
    return job


class _Targets:
    """Finds the queues that get messages, each once; one that has ended meanwhile is made anew."""

    def __init__(self, admin: Admin, source: Queue) -> None:
        self._admin = admin
        self._source = source
        self._known: dict[str, Queue] = {}

    def named(self, name: str) -> Queue | None:
        """Return the queue of a name; None if it cannot be made by name, and is gone for good."""
        known = self._known.get(name)
        if known is None or known.is_ended:
            place = self._admin.destination(name)
            if _is_made_otherwise(place) and not _is_there(self._admin, place):
                return None  # a temporary queue or a durable subscription that has ended
            known = _target(self._admin, self._source, name)
            self._known[name] = known
        return known

    def origin_of(self, message: Message) -> Queue | None:
        """Return the queue a dead letter came from; None if there is none, or it is gone."""
        origin = message.origin()
        if origin is None or origin.queue == self._source.name:
            return None
        return self.named(origin.queue)


def _begun(admin: Admin, job: T, cost: Cost) -> T:
    """Begin a job; its number of messages is put on record when the job is over."""
    cost.is_told_later = True
    job.then(lambda: cost.tell(job.count))
    admin.broker.jobs.begin(job)
    return job


def _mover(admin: Admin, choice: Choice, total: int, to: str) -> Move:
    targets = _Targets(admin, choice.queue)

    def to_target(message: Message) -> Queue | None:
        found = targets.named(to)
        if found is None:
            raise RefusedError(f"{to} has ended", "not-found")
        return found

    return Move(choice, admin.session, total, admin.broker.publishing.arrivals, to_target)


def _managed(admin: Admin, name: str, now: float) -> Queue:
    admin.check_manage("queue", name)
    admin.broker.turn(now)
    return admin.backlog(name)


def _target(admin: Admin, source: Queue, name: str) -> Queue:
    """Return the queue that gets messages, made if need be; raises RefusedError if not allowed."""
    if not name:
        raise RefusedError("to which queue is not said", "invalid")
    place = admin.destination(name)
    authorise(admin.identity, Verb.MANAGE, str(place))
    if _is_made_otherwise(place) or _is_there(admin, place):
        target = admin.backlog(name)  # or refused, if it is not there
    else:
        check_made(Session(0, admin.host, admin.identity), place)
        target = admin.host.queue(place.name)
    if target is source:
        raise RefusedError(f"queue {target.name} is where they are", "invalid")
    return target


def _is_made_otherwise(place: Destination) -> bool:
    """Return True if a place cannot be made by name: somebody else's way makes it, and ends it."""
    return place.kind is Kind.DSUB or place.name.startswith(TEMPORARY_ROOT)


def _is_there(admin: Admin, place: Destination) -> bool:
    host = admin.host
    return place.name in (host.durables if place.kind is Kind.DSUB else host.queues)


def _with_dlq(queue: Queue) -> Queue:
    if queue.settings.dlq is None:
        raise RefusedError(f"queue {queue.name} has no dlq to send dead letters to", "conflict")
    return queue


def _numbers(queue: Queue, numbers: Sequence[int]) -> Numbered:
    _check_numbers(numbers)
    return Numbered(queue, numbers)


def _check_numbers(numbers: Sequence[int]) -> None:
    if len(numbers) > NUMBERS_MAX:
        raise RefusedError(f"{len(numbers)} numbers are above the {NUMBERS_MAX} allowed", "limit")


def _size_of(choice: Group) -> int:
    return 0 if choice.lane is None else choice.lane.count


def _reason(admin: Admin, reason: str) -> str:
    check_reason(reason)
    by = f"by {admin.identity.name}"
    return f"{reason} ({by})" if reason else f"dead-lettered {by}"
