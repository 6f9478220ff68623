# Compiled by mypyc: see setup.py.
"""ProducerLink: publishes the messages that the peer sends on a link.

On a link without a target, each message names its own target in `properties.to` (the anonymous
relay). A message is answered as accepted when the core has it. A persistent message is answered
only when the store has it, too. The link may have ended by then: `PendingAccepts` checks that
before it answers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from covey.core.errors import BrokerError, RefusedError
from covey.core.naming.destination import TEMPORARY_ROOT, Destination, Kind
from covey.protocols.amqp.links.management import MANAGEMENT_ADDRESS, serve
from covey.protocols.amqp.links.sender_link import SETTLED, IncomingLink
from covey.protocols.amqp.messages.message import AmqpMessage
from covey.protocols.amqp.outcomes import (
    ACCEPTED_STATE,
    NO_STATE,
    TRANSACTIONAL,
    read_state,
    within,
)
from covey.protocols.amqp.proton_wire import Pointer

if TYPE_CHECKING:
    from covey.protocols.amqp.engine import AmqpEngine


class PendingAccepts:
    """A call that accepts deliveries; it is made when their messages are safe."""

    __slots__ = ("deliveries", "link")

    def __init__(self, link: IncomingLink, delivery: int) -> None:
        self.link = link
        self.deliveries: list[int] = [delivery]

    def __call__(self) -> None:
        """Accept the deliveries, unless their link has ended."""
        link = self.link
        for delivery in self.deliveries:
            if not link.is_ended:
                link.answer(delivery, ACCEPTED_STATE)


class ProducerLink(IncomingLink):
    """A link to queues and topics, or to the target that each message names."""

    needs_room: ClassVar[bool] = True

    def __init__(
        self,
        engine: AmqpEngine,
        pointer: Pointer,
        name: str,
        targets: tuple[Destination, ...] | None,
    ) -> None:
        """Publish to `targets`; None: each message names its own."""
        super().__init__(engine, pointer, name)
        self.targets = targets
        self.tells_tag = targets is None  # "Using the Anonymous Terminus", section 2.2.2
        self.user = self.session.identity.name
        self._publishing = engine.broker.publishing
        self._promises = engine.broker.promises
        self._heads = engine.heads
        self._pending: PendingAccepts | None = None  # the last deliveries that wait for the store
        self.on_end: Callable[[], None] | None = None  # deletes a queue or a dynamic node

    def take(self, delivery: int, data: bytes) -> None:
        """Publish a message, at once or with its transaction."""
        message = self._heads.repeated(data)
        if message is None:
            message = self._decoded(data)
        session = self.session
        message.sender = session.id
        message.user = self.user
        targets = self.targets
        if targets is None or self.state:
            self._take_elsewhere(delivery, message)
        elif not self._publishing.try_put(session, targets, message):
            self._place(delivery, targets, message)
        elif delivery == SETTLED:
            return
        elif self._promises.claim_safe(session):
            self.answer(delivery, ACCEPTED_STATE)
        else:
            self._owe(delivery)

    def start(self) -> None:
        """Give credit, and ask to be told when somebody deletes a target queue."""
        super().start()
        for name in self._queues():
            self.session.host.senders.add(name, self.deleted)

    def deleted(self, name: str, reason: str) -> None:
        """End the link: its queue was deleted. Later messages must not create the queue anew."""
        self.engine.coordinator.deleted(Destination(Kind.QUEUE, name), reason)
        self.channel.leave(self.handle)
        self.engine.links.close_later(self, RefusedError(reason, "deleted"))

    def must_wait(self, state: bytes) -> bool:
        """Return True if a message must wait for room.

        A message in a transaction takes only memory before the commit. It must wait only if the
        broker is overloaded.
        """
        return not state or self._publishing.commits.overload.is_shut

    def refuse(self, delivery: int, error: BrokerError) -> None:
        """Refuse one message.

        In a transaction the rejection is part of it, and the sender may still commit. If no
        rejection can be sent, the transaction cannot be committed.
        """
        state = read_state(self.state, 0) if self.state else NO_STATE
        id = self.engine.coordinator.named_by(state)
        if not id:
            super().refuse(delivery, error)
        elif self._may_reject(delivery):
            self.answer(delivery, within(id, self._rejection(error)))
        else:
            self.engine.coordinator.spoil(state, error.text)
            if delivery != SETTLED:
                self._close(error)

    def end(self, *, is_closed: bool, counted: bool) -> None:
        """End the link, and make the call that belongs to its end."""
        super().end(is_closed=is_closed, counted=counted)
        for name in self._queues():
            self.session.host.senders.discard(name, self.deleted)
        if self.on_end is not None and is_closed:
            self.on_end()

    def _queues(self) -> list[str]:
        """Return the link's target queues, without temporary ones: their readers may go away."""
        places = [each for each in self.targets or () if each.kind is Kind.QUEUE]
        return [each.name for each in places if not each.name.startswith(TEMPORARY_ROOT)]

    def _decoded(self, data: bytes) -> AmqpMessage:
        """Read a message whose head is new."""
        message = AmqpMessage.decode(data, self.engine.wall_ms)
        if message.names_user:
            self._check_user(message)
        self._heads.learn(message)
        return message

    def _take_elsewhere(self, delivery: int, message: AmqpMessage) -> None:
        """Take a message that is sent in a transaction, or that names its own target."""
        state = read_state(self.state, 0) if self.state else NO_STATE
        is_transactional = state.code == TRANSACTIONAL
        targets = self.targets
        if targets is None:
            if message.to() == MANAGEMENT_ADDRESS and not is_transactional:
                serve(self.engine, message)
                self.answer(delivery, ACCEPTED_STATE)
                return
            targets = self._named_by(message)
        if is_transactional:
            id = self.engine.coordinator.send(state, targets, message)
            self.answer(delivery, within(id))
        else:
            self._place(delivery, targets, message)

    def _place(self, delivery: int, targets: tuple[Destination, ...], message: AmqpMessage) -> None:
        """Publish a message that may have to wait for room, or goes to several places."""
        done = None if delivery == SETTLED else PendingAccepts(self, delivery)
        told = partial(self._refused, delivery, self.tag, self.state)
        self._publishing.publish(self.session, targets, message, done, told)

    def _refused(self, delivery: int, tag: bytes, state: bytes, error: BrokerError) -> None:
        """Refuse a message that was published in portions."""
        if not self.is_ended:
            self.tag = tag
            self.state = state
            self.refuse(delivery, error)

    def _owe(self, delivery: int) -> None:
        """Accept a delivery when its message is safe."""
        if self._pending is not None and self._promises.claim_behind(self.session, self._pending):
            self._pending.deliveries.append(delivery)
        else:
            self._pending = PendingAccepts(self, delivery)
            self._promises.after(self.session, self._pending)

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
