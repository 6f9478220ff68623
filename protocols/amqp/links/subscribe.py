"""Subscribe: makes the core's subscription for a link on which the peer receives.

    queue, pattern, several        a consumer in each queue, a feed of the topics
    dynamic                        a node of this connection, removed when the link ends
    $management                    the same, for answers to requests (see `management`)
    topic and durable              a durable subscription, named by container-id and link name
    capability shared              links with one name share a subscription; with `global` those of
                                   all containers; if not durable, it ends with the last link
    no source at all               an existing durable subscription is looked for: a client does
                                   so to end it, by closing the link (Qpid JMS unsubscribes this
                                   way)

A durable subscription stays when its link is detached. It ends when its link is closed, unless
other links use it. A link may ask for it with another topic, selector or no-local filter. Then the
old one ends with all that it holds, and a new one begins (JMS 2.0 section 8.3.3).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from covey.core.errors import RefusedError
from covey.core.host.access import check_one_group
from covey.core.host.subscription import Durable, Subscription
from covey.core.model.consumer import Consumer
from covey.core.naming.destination import Destination, Kind
from covey.core.security.users import Verb, authorise, may
from covey.core.selector import Selector, compile_selector
from covey.protocols.amqp.links.consumer import AmqpConsumer
from covey.protocols.amqp.links.management import MANAGEMENT_ADDRESS
from covey.protocols.amqp.links.nodes import Place
from covey.protocols.amqp.links.receiver_link import OutgoingLink
from covey.protocols.amqp.links.terminus import GROUP_FILTER, RequestedTerminus

if TYPE_CHECKING:
    from covey.protocols.amqp.engine import AmqpEngine

# Links of a shared subscription: Qpid JMS adds this mark and a suffix to make their names unique.
SHARED_NAME_MARK: Final = "|"
VOLATILE_SUFFIX: Final = "|volatile"


def subscribe(engine: AmqpEngine, link: OutgoingLink, requested: RequestedTerminus) -> str | None:
    """Let a link read what it asks for.

    Return the source address of the answer; None: the one that the peer gave.
    """
    if requested.group and (requested.address in (None, MANAGEMENT_ADDRESS)):
        raise RefusedError(f"link {link.name}: filter {GROUP_FILTER} needs a queue", "invalid")
    if requested.is_dynamic:
        return _read_dynamic(engine, link, requested)
    if requested.address is None:
        return _find_durable(engine, link)
    if requested.address == MANAGEMENT_ADDRESS:
        _read_answers(engine, link, requested)
        return None
    place = engine.nodes.place(requested.address, is_topic=requested.is_topic, is_source=True)
    # Every subscriber of a topic gets copies. So the mode `copy`, which Qpid JMS asks for, has no
    # meaning for topics.
    is_topic = all(each.kind is Kind.TOPIC for each in place.destinations)
    if not (is_topic and engine.container):
        requested.forgo_no_local()
    requested.is_browser = not is_topic and (requested.is_browser or place.address.mode == "browse")
    verb = Verb.BROWSE if requested.is_browser else Verb.CONSUME
    engine.broker.check_readable(link.session, place.destinations, verb)
    engine.nodes.provide(place, to_sender=False)
    selector = _selector(engine, requested, place)
    destinations = place.destinations
    if requested.group:
        check_one_group(destinations)
    name = _subscription_name(engine, link, requested, place)
    if name:
        not_from = engine.container if requested.is_no_local else ""
        durable = _durable(engine, name, destinations, selector, not_from)
        destinations = (Destination(Kind.DSUB, durable.name),)
        selector = None  # the subscription's queue holds only messages that match
        is_volatile = name.endswith(VOLATILE_SUFFIX)
        link.on_end = _ending(engine, link, durable, is_volatile=is_volatile)
    else:
        delete = engine.nodes.at_end(place, to_sender=False)
        link.on_end = None if delete is None else _when_closed(delete)
    _read(engine, link, requested, destinations, selector)
    return None


def _read(
    engine: AmqpEngine,
    link: OutgoingLink,
    requested: RequestedTerminus,
    destinations: tuple[Destination, ...],
    selector: Selector | None,
) -> None:
    def make() -> Consumer:
        consumer = AmqpConsumer(link, selector=selector, is_browser=requested.is_browser)
        consumer.is_no_local = requested.is_no_local
        consumer.priority = requested.priority
        consumer.deadline_asked = requested.deadline_s
        consumer.group_asked = requested.group
        consumer.wants_revoked = requested.wants_revoked
        return consumer

    link.is_browser = requested.is_browser
    link.window.is_paused = engine.backpressure.is_paused
    subscription = Subscription(link.session, link.name, link.window, make)
    subscription.lost = partial(engine.links.close_later, link)
    engine.broker.subscribe(
        link.session, subscription, destinations, engine.now, is_browser=requested.is_browser
    )


def _read_dynamic(engine: AmqpEngine, link: OutgoingLink, requested: RequestedTerminus) -> str:
    destination = engine.nodes.dynamic(is_topic=requested.is_topic)
    _read(engine, link, requested, (destination,), None)
    link.on_end = lambda is_closed: engine.nodes.forget_dynamic(destination)
    return engine.nodes.address_of(destination)


def _read_answers(engine: AmqpEngine, link: OutgoingLink, requested: RequestedTerminus) -> None:
    """Let a link read the answers to requests whose reply-to is the link's target or name."""
    nodes = engine.nodes
    name = requested.target or link.name
    if name in nodes.reply_nodes:
        raise RefusedError(f"link {link.name}: answers to {name} go to another link", "exists")
    node = nodes.dynamic(is_topic=False)
    _read(engine, link, requested, (node,), None)
    nodes.reply_nodes[name] = node

    def ended(is_closed: bool) -> None:
        del nodes.reply_nodes[name]
        nodes.forget_dynamic(node)

    link.on_end = ended


def _find_durable(engine: AmqpEngine, link: OutgoingLink) -> str:
    """Find a durable subscription by the link's name; return its topic's name."""
    host = link.session.host
    base = link.name.partition(SHARED_NAME_MARK)[0]
    for name in (f"{engine.container}.{link.name}", f"{engine.container}.{base}", base):
        durable = host.durables.get(engine.nodes.queue_syntax.durable(name).name)
        if durable is not None and durable.destinations:
            authorise(
                link.session.identity, Verb.DESTROY, str(Destination(Kind.DSUB, durable.name))
            )
            link.on_end = _ending(engine, link, durable, is_volatile=False)
            return durable.destinations[0].name
    raise RefusedError(f"link {link.name} has no source and no subscription", "not-found")


def _subscription_name(
    engine: AmqpEngine, link: OutgoingLink, requested: RequestedTerminus, place: Place
) -> str:
    """Return the name of the durable or shared subscription; "" if none is asked for."""
    options = place.address.link
    is_durable = requested.is_durable or options.get("durable") is True
    is_topic = all(each.kind is Kind.TOPIC for each in place.destinations)
    if not is_topic or not (is_durable or requested.is_shared):
        return ""
    name = str(options.get("name") or link.name)
    if requested.is_shared:
        name = name.partition(SHARED_NAME_MARK)[0]
    if not requested.is_global:
        name = f"{engine.container}.{name}"
    return name if is_durable else name + VOLATILE_SUFFIX


def _durable(
    engine: AmqpEngine,
    name: str,
    destinations: tuple[Destination, ...],
    selector: Selector | None,
    not_from: str,
) -> Durable:
    """Create a durable subscription, or re-attach to one that has the same properties."""
    assert engine.session is not None
    known = engine.nodes.queue_syntax.durable(name).name
    return engine.broker.renew_durable(
        engine.session, known, destinations, selector, engine.now, not_from=not_from
    )


def _ending(
    engine: AmqpEngine, link: OutgoingLink, durable: Durable, *, is_volatile: bool
) -> Callable[[bool], None]:
    """Return the call that ends a subscription, or keeps it, when one of its links ends."""

    def ended(is_closed: bool) -> None:
        assert engine.session is not None
        host = engine.session.host
        is_used = bool(durable.queue.state.consumers)
        if is_used and is_closed and not is_volatile:
            cause = f"durable subscription {durable.name} is in use, and stays"
            link.complaint = RefusedError(cause, "locked")
        if is_used or not (is_closed or is_volatile):
            return
        place = str(Destination(Kind.DSUB, durable.name))
        if not (is_volatile or may(engine.session.identity, Verb.DESTROY, place)):
            engine.report("subscription_kept", subscription=durable.name)
        elif host.durables.get(durable.name) is not durable:
            return
        elif is_volatile:
            host.delete_durable(durable.name)
        else:
            engine.nodes.admin.delete_durable(durable.name)

    return ended


def _when_closed(act: Callable[[], None]) -> Callable[[bool], None]:
    def ended(is_closed: bool) -> None:
        if is_closed:
            act()

    return ended


def _selector(engine: AmqpEngine, requested: RequestedTerminus, place: Place) -> Selector | None:
    """Compile one selector from the filter, the address string's selector, and its subject."""
    conditions = [text for text in (requested.selector, place.address.selector) if text]
    if place.address.subject:
        subject = place.address.subject.replace("'", "''")
        conditions.append(f"amqp.subject = '{subject}'")
    if not conditions:
        return None
    text = conditions[0] if len(conditions) == 1 else " AND ".join(f"({c})" for c in conditions)
    limits = engine.broker.limits
    return compile_selector(
        text, length_max=limits.selector_length_max, depth_max=limits.selector_depth_max
    )
