"""Creation: whether a destination that is not there yet may be made by using it.

A destination is made on first use if the broker's `auto_create` says so and the user may create
it. Without `auto_create` it has to be declared; only a connection's own temporary destinations are
made all the same, since nobody else could declare them. Temporary names are asked about like any
other name (`queue:temp.**`).
"""

from __future__ import annotations

from covey.core.destination import Destination, Kind
from covey.core.errors import RefusedError
from covey.core.host import VirtualHost
from covey.core.security import Verb, authorise
from covey.core.session import Session


def exists(host: VirtualHost, destination: Destination) -> bool:
    """Say whether a queue or topic is there."""
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
