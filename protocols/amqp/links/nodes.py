"""Nodes: finds the queue or topic that an address means, and creates or checks it.

Addresses are names (`x`), names with a prefix (`queue://x`, `/topic/x`, ...), or Qpid address
strings. A queue or topic is created on first use if the broker's `auto_create` allows it. In an
address string its `create` policy decides instead; its `assert` and `delete` policies are followed,
too. A dynamic node is a queue or topic that only the connection which asked for it can read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from covey.config.qpid import DeclareError, declared
from covey.config.settings import BrokerSettings
from covey.core.errors import BrokerError, RefusedError
from covey.core.management.admin import Admin
from covey.core.naming.destination import Destination, Kind, Syntax
from covey.core.security.users import Verb, authorise
from covey.protocols.amqp.links.address import Address, AddressError, parse_address

if TYPE_CHECKING:
    from covey.protocols.amqp.engine import AmqpEngine

TARGETS_MAX: Final = 1024  # parsed addresses that an anonymous relay remembers


@dataclass(frozen=True, slots=True)
class Place:
    """A parsed address, and the destinations that it means."""

    address: Address
    destinations: tuple[Destination, ...]


class Nodes:
    """The addresses of one connection."""

    def __init__(self, engine: AmqpEngine) -> None:
        assert engine.session is not None
        limits = engine.broker.limits
        self.engine = engine
        self.session = engine.session
        self.auto_create = limits.auto_create
        self.broker_id = limits.id
        session = self.session
        self.admin = Admin(engine.broker, session.host, session.identity, session.protocol, session)
        self.queue_syntax = _syntax(limits, Kind.QUEUE)
        self.topic_syntax = _syntax(limits, Kind.TOPIC)
        self.dynamic_number = 0
        self._targets: dict[str, tuple[Destination, ...]] = {}
        self.reply_nodes: dict[str, Destination] = {}  # by the client's name for it

    def targets(self, to: str) -> tuple[Destination, ...]:
        """Return the destinations that a message of the anonymous relay names."""
        known = self._targets.get(to)
        if known is None:
            place = self.place(to, is_topic=False, is_source=False)
            self.provide(place, to_sender=True)
            known = place.destinations
            if len(self._targets) >= TARGETS_MAX:
                self._targets.clear()
            self._targets[to] = known
        return known

    def replies(self, reply_to: str) -> tuple[Destination, ...]:
        """Return the destinations of an answer to a management request."""
        node = self.reply_nodes.get(reply_to)
        return self.targets(reply_to) if node is None else (node,)

    def place(self, text: str, *, is_topic: bool, is_source: bool) -> Place:
        """Read an address; only a source may hold wildcards."""
        try:
            address = parse_address(text)
        except AddressError as error:
            raise RefusedError(str(error), "invalid") from error
        is_topic = address.node_type == "topic" or (is_topic and address.node_type != "queue")
        syntax = self.topic_syntax if is_topic else self.queue_syntax
        found = syntax.parse(address.name, allow_patterns=is_source)
        return Place(address, tuple([self._real(each) for each in found]))

    def provide(self, place: Place, *, to_sender: bool) -> None:
        """Create what is missing, if the policy allows it; check what the address asserts."""
        address = place.address
        for destination in place.destinations:
            if destination.is_pattern or destination.kind is Kind.DSUB:
                continue
            if not self._exists(destination):
                self._create(destination, address, to_sender=to_sender)
            elif address.applies(address.asserted, to_sender=to_sender):
                self._assert(destination, address)

    def at_end(self, place: Place, *, to_sender: bool) -> Callable[[], None] | None:
        """Return the call that deletes the queues when the link closes; None: they stay."""
        address = place.address
        if not address.applies(address.delete, to_sender=to_sender):
            return None
        return lambda: self._delete(place.destinations)

    def dynamic(self, *, is_topic: bool) -> Destination:
        """Create a dynamic node, which belongs to this connection."""
        self.dynamic_number += 1
        kind = Kind.TOPIC if is_topic else Kind.QUEUE
        number = f"amqp-{self.dynamic_number}"
        session = self.session
        found = self.queue_syntax.temporary(kind, number, self.broker_id, session.own_id)
        authorise(session.identity, Verb.CREATE, str(found))
        session.temporary.add(found)
        self.engine.broker.turn(self.engine.now)
        if is_topic:
            session.host.topic(found.name)
        else:
            session.host.queue(found.name)
        return found

    def forget_dynamic(self, destination: Destination) -> None:
        """Remove a dynamic node: its link has ended."""
        host = self.session.host
        self.session.temporary.discard(destination)
        if destination.kind is Kind.TOPIC:
            host.delete_topic(destination.name)
        elif destination.name in host.queues:
            host.delete_queue(destination.name, "the link that asked for it closed")

    def address_of(self, destination: Destination) -> str:
        """Return an address that this connector reads as that destination."""
        text = self.queue_syntax.render(destination)
        if destination.kind is Kind.QUEUE:
            return text.removeprefix(self.queue_syntax.queue_prefix)
        return text

    def _real(self, destination: Destination) -> Destination:
        if not destination.is_temporary:
            return destination
        own = self.session.own_id
        return self.queue_syntax.temporary(destination.kind, destination.name, self.broker_id, own)

    def _exists(self, destination: Destination) -> bool:
        host = self.session.host
        known = host.queues if destination.kind is Kind.QUEUE else host.topics
        return destination.name in known

    def _create(self, destination: Destination, address: Address, *, to_sender: bool) -> None:
        may = self.auto_create
        if address.has_options:
            may = address.applies(address.create, to_sender=to_sender)
        if not may:
            raise RefusedError(
                f"there is no {destination.kind.value} {destination.name}", "not-found"
            )
        if address.has_options and destination.kind is Kind.QUEUE:
            self.admin.declare(destination.name, address.arguments, self.engine.now)
        elif address.has_options:
            authorise(self.session.identity, Verb.CREATE, str(destination))
            self.session.host.topic(destination.name)

    def _assert(self, destination: Destination, address: Address) -> None:
        queue = self.session.host.queues.get(destination.name)
        if queue is None:
            return  # a topic has no settings that could differ
        try:
            wanted = declared(destination.name, address.arguments, queue.settings)
        except DeclareError as error:
            raise RefusedError(str(error), "invalid") from error
        if wanted != queue.settings.model_copy(update={"id": destination.name}):
            raise RefusedError(f"queue {queue.name} is not as the address asserts", "conflict")

    def _delete(self, destinations: tuple[Destination, ...]) -> None:
        for destination in destinations:
            if destination.kind is Kind.QUEUE and self._exists(destination):
                try:
                    self.admin.delete_queue(destination.name, if_unused=True)
                except BrokerError as error:
                    # The queue is in use, or this user may not delete it: the queue stays.
                    self.engine.report("queue_kept", queue=destination.name, cause=error.text)


@lru_cache(maxsize=2)  # all connections of a broker share these two
def _syntax(limits: BrokerSettings, default_kind: Kind) -> Syntax:
    return Syntax(
        default_kind=default_kind,
        name_length_max=limits.destination_length_max,
        levels_max=limits.destination_levels_max,
        parts_max=limits.composite_parts_max,
        wildcards_max=limits.wildcards_max,
        pattern_length_max=limits.pattern_length_max,
    )
