"""Access: what a connection must be allowed, and how much of everything it may have.

A session is checked before it reads. A durable subscription goes on hearing its topics when nobody
is connected, and nobody is checked then. So its pattern has to be allowed for every name that the
pattern may ever match.

The limits on connections and subscriptions are the broker's (`connections_max`,
`connections_per_user_max`, `subscriptions_max`). A client that is over one of them is told which.
"""

from __future__ import annotations

from collections.abc import Collection

from covey.config.settings import BrokerSettings
from covey.core.errors import RefusedError
from covey.core.host.subscription import Durable
from covey.core.host.temporary import check_made, check_readable
from covey.core.naming.destination import TEMPORARY_ROOT, Destination, Kind
from covey.core.security.users import (
    Identity,
    Verb,
    authorise,
    authorise_forever,
    authorise_pattern,
)
from covey.core.selector import Selector
from covey.core.session import Session


def check_reading(
    session: Session, destinations: tuple[Destination, ...], verb: Verb, broker_id: str
) -> None:
    """Raise RefusedError if this user or this connection may not read one of the destinations."""
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
    not_from: str | None = None,
) -> Durable:
    """Make a durable subscription, or change what an existing one hears, for everybody.

    `not_from` is a client whose own messages it does not take, "" for none; None changes nothing.
    """
    _check_durable(session, topics, broker_id)
    host = session.host
    known = host.durables.get(name)
    if known is None or not known.is_already(topics, selector):
        authorise(session.identity, Verb.CREATE, str(Destination(Kind.DSUB, name)))
    durable = host.make_durable(name, session.identity.name)
    durable.binding.selector = selector
    if not_from is not None:
        durable.binding.not_from = not_from
    host.bind(durable, topics)
    return durable


def renew_durable(
    session: Session,
    name: str,
    topics: tuple[Destination, ...],
    selector: Selector | None,
    broker_id: str,
    not_from: str,
) -> Durable:
    """Return a durable subscription that hears exactly this; a different one of its name ends.

    That is what JMS says of a change: the backlog is lost, and the change is refused while somebody
    reads.
    """
    host = session.host
    known = host.durables.get(name)
    if known is not None and not (
        known.is_already(topics, selector) and known.binding.not_from == not_from
    ):
        _check_durable(session, topics, broker_id)  # before anything is lost
        place = str(Destination(Kind.DSUB, name))
        authorise(session.identity, Verb.DESTROY, place)
        authorise(session.identity, Verb.CREATE, place)
        if known.queue.state.consumers:
            raise RefusedError(
                f"durable subscription {name} is in use, with other wishes", "locked"
            )
        host.delete_durable(name)
    return make_durable(session, name, topics, selector, broker_id, not_from)


def _check_durable(session: Session, topics: tuple[Destination, ...], broker_id: str) -> None:
    """Raise RefusedError unless the session may hear these topics for ever."""
    for topic in topics:
        if topic.kind is not Kind.TOPIC:
            raise RefusedError(
                f"a durable subscription listens to topics, {topic} is not one", "invalid"
            )
    check_reading(session, topics, Verb.CONSUME, broker_id)
    for topic in topics:
        # After a restart its name could belong to another connection.
        if topic.name.startswith(TEMPORARY_ROOT):
            raise RefusedError(
                f"a durable subscription outlives its connection, {topic} does not", "invalid"
            )
        if topic.is_pattern:
            authorise_forever(session.identity, Verb.CONSUME, topic)
        check_made(session, topic)


def check_connection(
    sessions: Collection[Session], identity: Identity, limits: BrokerSettings
) -> None:
    """Raise RefusedError if there are too many connections for one more of this user."""
    if len(sessions) >= limits.connections_max:
        raise RefusedError(
            f"there are {limits.connections_max} connections already,"
            " the most that connections_max allows",
            "limit",
        )
    own_max = limits.connections_per_user_max
    if own_max and sum(one.identity.name == identity.name for one in sessions) >= own_max:
        raise RefusedError(
            f"user {identity.name} has {own_max} connections already,"
            " the most that connections_per_user_max allows",
            "limit",
        )


def check_patterns(
    count: int, destinations: tuple[Destination, ...], limits: BrokerSettings
) -> None:
    """Raise RefusedError if there would be too many patterns; `count` are subscribed to already."""
    count += sum([each.is_pattern for each in destinations])
    if count > limits.pattern_subscriptions_max:
        raise RefusedError(
            f"there are {limits.pattern_subscriptions_max} subscriptions by pattern already,"
            " the most that pattern_subscriptions_max allows",
            "limit",
        )


def check_one_group(destinations: tuple[Destination, ...]) -> None:
    """Raise RefusedError unless there is exactly one destination, and it can have groups."""
    is_one = len(destinations) == 1 and not destinations[0].is_pattern
    if not is_one or destinations[0].kind is Kind.TOPIC:
        raise RefusedError(
            "a consumer of one group reads one queue, or one durable subscription", "invalid"
        )


def check_subscription(session: Session, name: str, limits: BrokerSettings) -> None:
    """Raise RefusedError if the session has a subscription of this name, or too many."""
    if name in session.subscriptions:
        raise RefusedError(f"subscription {name} exists already", "exists")
    if len(session.subscriptions) >= limits.subscriptions_max:
        raise RefusedError(
            f"the connection has {limits.subscriptions_max} subscriptions already,"
            " the most that subscriptions_max allows",
            "limit",
        )
