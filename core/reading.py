"""Reading: what a session has to be allowed before it reads, for once or for good.

A durable subscription goes on hearing its topics when nobody is connected, so a pattern of it has
to be allowed for every name that it may ever mean.
"""

from __future__ import annotations

from covey.core.creation import check_made
from covey.core.destination import TEMPORARY_ROOT, Destination, Kind
from covey.core.durable import Durable
from covey.core.errors import RefusedError
from covey.core.security import Verb, authorise, authorise_forever, authorise_pattern
from covey.core.selector import Selector
from covey.core.session import Session
from covey.core.temporary import check_readable


def check_reading(
    session: Session, destinations: tuple[Destination, ...], verb: Verb, broker_id: str
) -> None:
    """Raise RefusedError if one of them may not be read by this user or this connection."""
    for destination in destinations:
        if destination.is_pattern:
            authorise_pattern(session.identity, verb, destination)
        else:
            authorise(session.identity, verb, str(destination))
        check_readable(session, destination, broker_id)


def make_durable(
    session: Session,
    name: str,
    topics: tuple[Destination, ...],
    selector: Selector | None,
    broker_id: str,
) -> Durable:
    """Make a durable subscription, or change what an existing one hears, for everybody."""
    for topic in topics:
        if topic.kind is not Kind.TOPIC:
            raise RefusedError(
                f"a durable subscription listens to topics, {topic} is not one", "invalid"
            )
    check_reading(session, topics, Verb.CONSUME, broker_id)
    for topic in topics:
        # Its name would be another connection's after a restart.
        if topic.name.startswith(TEMPORARY_ROOT):
            raise RefusedError(
                f"a durable subscription outlives its connection, {topic} does not", "invalid"
            )
        if topic.is_pattern:
            authorise_forever(session.identity, Verb.CONSUME, topic)
        check_made(session, topic)
    host = session.host
    known = host.durables.get(name)
    if known is None or not known.is_already(topics, selector):
        authorise(session.identity, Verb.CREATE, str(Destination(Kind.DSUB, name)))
    durable = host.make_durable(name)
    durable.tap.selector = selector
    host.bind(durable, topics)
    return durable
