"""Temporary destinations: `temp.<broker id>.<connection id>.<name>`, whose they are.

Anybody may send to one, only the connection in its name may read from it, and it ends with that
connection (the Apollo STOMP manual, Temporary Destinations). A message to one that has ended is
taken and dropped, as it would have been had it come a moment earlier: a service that answers
must not lose its connection because one of its askers went away.

No pattern ever means a temporary destination, so a pattern needs no owner.
"""

from __future__ import annotations

from covey.core.creation import check_made, exists
from covey.core.destination import TEMPORARY_ROOT, Destination, Kind
from covey.core.errors import RefusedError
from covey.core.security import Verb, authorise
from covey.core.session import Session

SENDABLE_MAX = 1024  # destinations a session need not ask for again; a client may name millions
NOBODY = 0
UNKNOWN = -1  # the name starts like a temporary one, but no connection of ours can have made it


def owner_of(destination: Destination, broker_id: str) -> int:
    """Return the number of the connection a destination belongs to, or NOBODY, or UNKNOWN."""
    name = destination.name
    if destination.kind is Kind.DSUB or not name.startswith(TEMPORARY_ROOT):
        return NOBODY
    parts = name.split(".", 3)
    if len(parts) < 4 or parts[1] != broker_id or not parts[2].isdigit():
        return UNKNOWN
    return int(parts[2])


def admitted(
    session: Session, targets: tuple[Destination, ...], broker_id: str
) -> tuple[Destination, ...]:
    """Return the targets that are there to get a message; raises RefusedError if one says no."""
    return tuple([target for target in targets if _admits(session, target, broker_id)])


def _admits(session: Session, target: Destination, broker_id: str) -> bool:
    if target in session.sendable and exists(session.host, target):
        return True
    authorise(session.identity, Verb.SEND, str(target))
    if target.kind is Kind.DSUB:
        session.host.durable(target.name)
        return True  # asked each time: it may be destroyed
    owner = owner_of(target, broker_id)
    if owner == UNKNOWN:
        raise RefusedError(f"{target.name} is no connection's temporary destination", "not-found")
    if owner not in (NOBODY, session.id):
        return exists(session.host, target)
    if owner == session.id:
        session.temporary.add(target)
    check_made(session, target)
    if len(session.sendable) >= SENDABLE_MAX:
        session.sendable.clear()
    session.sendable.add(target)
    return True


def check_readable(session: Session, destination: Destination, broker_id: str) -> None:
    """Raise RefusedError if the destination is another connection's."""
    owner = owner_of(destination, broker_id)
    if owner == session.id:
        session.temporary.add(destination)
    elif owner != NOBODY:
        raise RefusedError(
            f"{destination.name} can be read by the connection that made it, no other", "denied"
        )


def delete_temporaries(session: Session) -> None:
    """End the temporary destinations of a connection that goes."""
    host = session.host
    for destination in session.temporary:
        if destination.kind is Kind.TOPIC:
            host.delete_topic(destination.name)
        elif destination.name in host.queues:
            host.delete_queue(destination.name, "its connection is gone")
