"""Temporary destinations, `temp.<broker id>.<connection id>.<name>`, and what is made by using it.

The connection's id is its number and a mark of this start of the broker (`23-9f1c6a02`). Numbers
begin anew with a broker, and an answer to a request from before must reach nobody else.

Anybody may send to a temporary destination. Only the connection in its name may read from it, and
it ends with that connection (the Apollo STOMP manual, Temporary Destinations). A message to one
that has ended is taken and dropped, as it would have been had it come a moment earlier: a service
that answers must not lose its connection because one of its askers went away. While its connection
is there, a temporary queue keeps what comes like any other queue. It does so before its reader
comes, and after it was swept away: an answer may be quicker than the SUBSCRIBE of who has asked.

No pattern ever means a temporary destination, so a pattern needs no owner.

A destination is made on first use if the broker's `auto_create` says so and the user may create it.
Without `auto_create` it has to be declared. Only a connection's own temporary destinations are made
all the same, since nobody else could declare them. Temporary names are asked about like any other
name (`queue:temp.**`).
"""

from __future__ import annotations

from collections.abc import Mapping

from covey.core.errors import RefusedError
from covey.core.host.virtual_host import VirtualHost
from covey.core.naming.destination import TEMPORARY_ROOT, Destination, Kind
from covey.core.security.users import Verb, authorise, may
from covey.core.session import Session


def exists(host: VirtualHost, destination: Destination) -> bool:
    """Return True if a queue or topic is there."""
    known = host.queues if destination.kind is Kind.QUEUE else host.topics
    return destination.name in known


def check_made(session: Session, destination: Destination) -> None:
    """Raise RefusedError unless the destination is there, or the session may make it."""
    if destination.is_pattern or destination.kind is Kind.DSUB:
        return
    host = session.host
    if exists(host, destination):
        return
    authorise(session.identity, Verb.CREATE, str(destination))
    if not host.policies.broker.auto_create and destination not in session.temporary:
        raise RefusedError(f"there is no {destination.kind.value} {destination.name}", "not-found")


SENDABLE_MAX = 1024  # destinations a session need not ask for again; a client may name millions
NOBODY = 0
UNKNOWN = -1  # the name starts like a temporary one, but no connection of ours can have made it
ENDED = -2  # it was made before the broker was started again


def owner_of(destination: Destination, broker_id: str, run: str) -> int:
    """Return the number of the connection a destination belongs to, or one of the above."""
    name = destination.name
    if destination.kind is Kind.DSUB or not name.startswith(TEMPORARY_ROOT):
        return NOBODY
    parts = name.split(".", 3)
    if len(parts) < 4 or parts[1] != broker_id:
        return UNKNOWN
    number, _, made_in = parts[2].partition("-")
    if not number.isdigit():
        return UNKNOWN
    return int(number) if made_in == run else ENDED


def announce(session: Session, places: tuple[Destination, ...], broker_id: str) -> None:
    """Hear which destinations a session has named to others: its own will get answers."""
    for place in places:
        if owner_of(place, broker_id, session.run) == session.id:
            claim(session, place)


def claim(session: Session, destination: Destination) -> None:
    """Note that a temporary destination is the session's; of very many, forget those swept away."""
    own = session.temporary
    if len(own) >= session.temporary_max and destination not in own:
        own.intersection_update([one for one in own if exists(session.host, one)])
        session.temporary_max = max(session.temporary_max, 2 * len(own))
    own.add(destination)


def admitted(
    session: Session,
    targets: tuple[Destination, ...],
    broker_id: str,
    sessions: Mapping[int, Session],
) -> tuple[Destination, ...]:
    """Return the targets that are there to get a message; raises RefusedError if one says no."""
    return tuple([target for target in targets if _admit(session, target, broker_id, sessions)])


def _admit(
    session: Session, target: Destination, broker_id: str, sessions: Mapping[int, Session]
) -> bool:
    """Let a session send to a target, and remember that it may; False if nobody is there."""
    if target in session.sendable and exists(session.host, target):
        return True
    authorise(session.identity, Verb.SEND, str(target))
    if target.kind is Kind.DSUB:
        session.host.durable(target.name)
        return True  # asked each time: it may be destroyed
    owner = owner_of(target, broker_id, session.run)
    if owner == UNKNOWN:
        raise RefusedError(f"{target.name} is no connection's temporary destination", "not-found")
    if owner not in (NOBODY, session.id):
        return exists(session.host, target) or _is_awaited(session, target, sessions.get(owner))
    if owner == session.id:
        claim(session, target)
    check_made(session, target)
    if len(session.sendable) >= SENDABLE_MAX:
        session.sendable.clear()
    session.sendable.add(target)
    return True


def _is_awaited(session: Session, target: Destination, owner: Session | None) -> bool:
    """Return True if the owner of a temporary queue has named it, though it is not there."""
    if owner is None or owner.host is not session.host or target not in owner.temporary:
        return False
    return target.kind is Kind.QUEUE and may(owner.identity, Verb.CREATE, str(target))


def check_readable(session: Session, destination: Destination, broker_id: str) -> None:
    """Raise RefusedError if the destination is another connection's."""
    owner = owner_of(destination, broker_id, session.run)
    if owner == session.id:
        claim(session, destination)
    elif owner != NOBODY:
        raise RefusedError(
            f"{destination.name} can be read by the connection that made it, no other", "denied"
        )
