"""Temporary destinations, `temp.<broker id>.<connection id>.<name>`, and how destinations are made.

The connection's id is its number and a mark of this start of the broker (`23-9f1c6a02`). A broker
that is restarted counts connections from the beginning. Without the mark, an answer to a request
from before the restart could reach another connection.

Anybody may send to a temporary destination. Only the connection in its name may read from it, and
it ends with that connection (the Apollo STOMP manual, Temporary Destinations). A message to a
destination that has ended is taken and dropped, as if it had come a moment earlier. So a service
does not lose its connection because a client that asked it has gone. While its connection is there,
a temporary queue keeps messages like any other queue, even before it has a reader, and even after
it was swept away: an answer may come before the SUBSCRIBE of the client that asked.

No pattern ever matches a temporary destination, so a pattern needs no owner.

A destination is made on first use if the broker's `auto_create` is set and the user may create it.
Without `auto_create` it has to be declared. A connection's own temporary destinations are the
exception, since nobody else could declare them. Permissions apply to temporary names like to any
other name (`queue:temp.**`).
"""

from __future__ import annotations

from collections.abc import Mapping

from covey.core.errors import RefusedError
from covey.core.host.virtual_host import VirtualHost
from covey.core.naming.destination import TEMPORARY_ROOT, Destination, Kind
from covey.core.security.users import Verb, authorise, may
from covey.core.session import Session


def exists(host: VirtualHost, destination: Destination) -> bool:
    """Return True if a queue or topic exists."""
    known = host.queues if destination.kind is Kind.QUEUE else host.topics
    return destination.name in known


def check_made(session: Session, destination: Destination) -> None:
    """Raise RefusedError unless the destination exists, or the session may make it."""
    if destination.is_pattern or destination.kind is Kind.DSUB:
        return
    host = session.host
    if exists(host, destination):
        return
    authorise(session.identity, Verb.CREATE, str(destination))
    if not host.policies.broker.auto_create and destination not in session.temporary:
        raise RefusedError(f"there is no {destination.kind.value} {destination.name}", "not-found")


SENDABLE_MAX = 1024  # destinations remembered as allowed for a session; a client may name millions
NOBODY = 0  # it is not a temporary destination
UNKNOWN = -1  # the name begins like a temporary one, but no connection of ours can have made it
ENDED = -2  # it was made before the broker was restarted


def owner_of(destination: Destination, broker_id: str, run: str) -> int:
    """Return the connection that a destination belongs to, or NOBODY, UNKNOWN or ENDED."""
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
    """Claim those of a session's reply destinations that are its own: answers will come there."""
    for place in places:
        if owner_of(place, broker_id, session.run) == session.id:
            claim(session, place)


def claim(session: Session, destination: Destination) -> None:
    """Note that a temporary destination is the session's; if too many, forget swept ones."""
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
    """Return the targets that can get a message; raises RefusedError if one is not allowed."""
    return tuple([target for target in targets if _admit(session, target, broker_id, sessions)])


def _admit(
    session: Session, target: Destination, broker_id: str, sessions: Mapping[int, Session]
) -> bool:
    """Check that a session may send to a target; False if a temporary target has ended."""
    if target in session.sendable and exists(session.host, target):
        return True
    authorise(session.identity, Verb.SEND, str(target))
    if target.kind is Kind.DSUB:
        session.host.durable(target.name)
        return True  # checked each time: a durable subscription may be destroyed
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
    """Return True if the owner of a temporary queue expects messages, though it does not exist."""
    if owner is None or owner.host is not session.host or target not in owner.temporary:
        return False
    return target.kind is Kind.QUEUE and may(owner.identity, Verb.CREATE, str(target))


def check_readable(session: Session, destination: Destination, broker_id: str) -> None:
    """Raise RefusedError if the destination belongs to another connection."""
    owner = owner_of(destination, broker_id, session.run)
    if owner == session.id:
        claim(session, destination)
    elif owner != NOBODY:
        raise RefusedError(
            f"{destination.name} can be read by the connection that made it, no other", "denied"
        )
