"""ProducerLink: the peer's messages on their way into queues and topics.

A link has a target, or none: then each message names its own in `properties.to` (the anonymous
relay). A message is answered as accepted when the core has it and, if it is persistent, the store
has it too. The answer comes after the link may be gone, so it goes through an `Answer` that knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cproton_ffi.lib import pn_delivery_remote_state, pn_delivery_settle, pn_delivery_settled

from covey.core.destination import Destination
from covey.core.errors import RefusedError
from covey.protocols.amqp import transfer
from covey.protocols.amqp.incoming import IncomingLink
from covey.protocols.amqp.management import MANAGEMENT_ADDRESS, serve
from covey.protocols.amqp.message import AmqpMessage
from covey.protocols.amqp.wire import Pointer

if TYPE_CHECKING:
    from covey.protocols.amqp.engine import AmqpEngine


class Answer:
    """What tells a producer that its message is safe, whenever that is."""

    __slots__ = ("delivery", "link")

    def __init__(self, link: IncomingLink, delivery: Pointer) -> None:
        self.link = link
        self.delivery = delivery

    def __call__(self) -> None:
        """Accept the message, unless its link has gone."""
        if not self.link.is_ended:
            self.link.answer(self.delivery, transfer.ACCEPTED)


class ProducerLink(IncomingLink):
    """A link to a queue, a topic, several of them, or to wherever each message says."""

    def __init__(
        self,
        engine: AmqpEngine,
        pointer: Pointer,
        name: str,
        targets: tuple[Destination, ...] | None,
    ) -> None:
        """Send to `targets`; None leaves it to each message."""
        super().__init__(engine, pointer, name)
        self.targets = targets
        self.on_end: Callable[[], None] | None = None  # a delete policy, a dynamic node

    def take(self, delivery: Pointer, data: bytes) -> None:
        """Publish a message, at once or with its transaction."""
        engine = self.engine
        session = self.session
        message = engine.heads.repeated(data)
        if message is None:
            message = AmqpMessage.decode(data, engine.wall_ms)
            if message.names_user:
                self._check_user(message)
            engine.heads.learn(message)
        message.sender = session.id
        message.user = session.identity.name
        is_transactional = pn_delivery_remote_state(delivery) == transfer.TRANSACTIONAL
        targets = self.targets
        if targets is None:
            if message.to() == MANAGEMENT_ADDRESS and not is_transactional:
                serve(engine, message)
                self.answer(delivery, transfer.ACCEPTED)
                return
            targets = self._named_by(message)
        if is_transactional:
            engine.coordinator.send(self, delivery, targets, message)
        elif pn_delivery_settled(delivery):
            pn_delivery_settle(delivery)
            engine.broker.publish(session, targets, message)
        else:
            engine.broker.publish(session, targets, message, Answer(self, delivery))

    def end(self, *, is_closed: bool, counted: bool) -> None:
        """Let go, and do what the link's end was to bring."""
        super().end(is_closed=is_closed, counted=counted)
        if self.on_end is not None and is_closed:
            self.on_end()

    def _check_user(self, message: AmqpMessage) -> None:
        user = message.user_id()
        name = self.session.identity.name
        if user and user != name:
            cause = f"link {self.name}: user-id names another user than {name}"
            raise RefusedError(cause, "denied")

    def _named_by(self, message: AmqpMessage) -> tuple[Destination, ...]:
        to = message.to()
        if not to:
            raise RefusedError(
                f"link {self.name} has no target, and the message no `to`", "invalid"
            )
        if to == MANAGEMENT_ADDRESS:
            raise RefusedError(f"{to} takes no part in transactions", "not-implemented")
        return self.engine.nodes.targets(to)
