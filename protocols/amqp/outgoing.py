"""OutgoingLink: a link on which the peer receives.

The consumers behind it (`consumer`) put encoded messages into its outbox; `flush` hands them to
proton when the shell asks for bytes. Credit is the peer's: the window of the core is what proton
says minus what waits in the outbox.

A delivery's entry is kept under proton's pointer until the peer has settled it. What was still in
the outbox when the link ends was never seen, so it goes back uncounted; what was sent counts as a
try only if the connection was lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cproton_ffi import lib

from covey.core.consumer import Consumer, Window
from covey.core.entry import ACCEPTED, Entry, Outcome
from covey.core.errors import ProtocolError, RefusedError
from covey.core.queue import Queue
from covey.core.session import Session
from covey.core.subscription import settle
from covey.protocols.amqp import transfer
from covey.protocols.amqp.calls import (
    pn_delivery_remote_state,
    pn_delivery_settle,
    pn_delivery_settled,
    pn_event_delivery,
    pn_link_advance,
)
from covey.protocols.amqp.outcomes import OUTCOMES, outcome_of
from covey.protocols.amqp.transfer import ACCEPTED as ACCEPTED_STATE
from covey.protocols.amqp.transfer import send
from covey.protocols.amqp.wire import Pointer

if TYPE_CHECKING:
    from covey.protocols.amqp.engine import AmqpEngine

SESSION_SIZE_MAX: Final = 1024 * 1024  # bytes in proton while the peer's session window is closed


class OutgoingLink:
    """One link's outbox, credit and unsettled deliveries."""

    def __init__(self, engine: AmqpEngine, pointer: Pointer, name: str) -> None:
        assert engine.session is not None
        self.engine = engine
        self.pressure = engine.pressure
        self.session: Session = engine.session
        self.pointer = pointer
        self.session_pointer: Pointer = lib.pn_link_session(pointer)
        self.name = name
        self.window = Window(0)
        self.outbox: deque[tuple[bytes, Entry | None]] = deque()
        self.unsettled: dict[Pointer, Entry | None] = {}
        self.last_tag = 0
        self.is_presettled = False
        self.is_waiting = False  # in the engine's list of links to flush
        self.draining: set[Consumer] = set()
        self.is_drain_due = False
        self.is_ended = False
        self.on_end: Callable[[bool], None] | None = None
        # Whose it is over connections; a container without an id has no claim to anything.
        container = engine.container
        self.claim = (self.session.host.id, self.session.identity.name, container, name)

    def take_over(self) -> None:
        """End the link of this name that the container has elsewhere."""
        if self.engine.container:
            self.engine.broker.claims.evict(self.claim)

    def start(self) -> None:
        """Claim the link's name, once it is known to be let in."""
        if self.engine.container:
            self.engine.broker.claims.hold(self.claim, self.stolen)

    def stolen(self) -> None:
        """Hear that another connection of the same container has taken the link over."""
        self.engine.close_link(self, RefusedError(f"link {self.name} was taken over", "stolen"))

    # From the core.

    def put(self, payload: bytes, entry: Entry | None) -> None:
        """Let a message wait for the next flush."""
        pressure = self.pressure
        self.outbox.append((payload, entry))
        pressure.outbox_size += len(payload)
        if not self.is_waiting or pressure.outbox_size > pressure.outbox_max:
            pressure.queued(self)

    def drained(self, consumer: Consumer) -> None:
        """Hear that a queue has nothing more for the credit given."""
        if self.window.is_paused:
            return  # the outbox is full, not the queue empty: `go_on` asks again
        self.draining.discard(consumer)
        if not self.draining:
            self.is_drain_due = True
            self.pressure.queued(self)

    def go_on(self) -> None:
        """Hear that deliveries go on after the outbox was full."""
        if self.draining:
            self._drain()

    # To the peer.

    def flush(self) -> int:
        """Hand messages to proton while it can pass them on; return the bytes handed over."""
        outbox = self.outbox
        pointer = self.pointer
        is_presettled = self.is_presettled
        unsettled = self.unsettled
        size = 0
        room = SESSION_SIZE_MAX - lib.pn_session_outgoing_bytes(self.session_pointer)
        tag = self.last_tag
        while outbox and size < room:
            payload, entry = outbox.popleft()
            tag += 1
            delivery = send(pointer, tag, payload)
            if is_presettled:
                pn_delivery_settle(delivery)  # which goes on to the next
            else:
                pn_link_advance(pointer)
                unsettled[delivery] = entry
            size += len(payload)
        self.last_tag = tag
        if self.is_drain_due and not outbox:
            self.is_drain_due = False
            transfer.give_back_credit(pointer)
            self.window.count = 0
        return size

    # From the peer.

    def flowed(self) -> None:
        """Hear of the peer's credit: more, less, or to be used up now."""
        window = self.window
        credit = lib.pn_link_credit(self.pointer) - len(self.outbox)
        if credit > window.count:
            window.grant(credit - window.count, 0)
        else:
            window.count = credit
        if lib.pn_link_get_drain(self.pointer):
            self._drain()

    def delivered(self, event: Pointer) -> None:
        """Hear what became of a delivery."""
        delivery = pn_event_delivery(event)
        state = pn_delivery_remote_state(delivery)
        is_settled = bool(pn_delivery_settled(delivery))
        if is_settled and state == ACCEPTED_STATE:  # nearly always
            entry = self.unsettled.pop(delivery, None)
            pn_delivery_settle(delivery)
            holder = None if entry is None else entry.holder
            if entry is not None and holder is not None and holder.window is self.window:
                source = holder.queue
                if source is not None:
                    source.settle(entry, ACCEPTED, self.engine.now)
        elif delivery not in self.unsettled:
            self._check_direction()
        elif state == transfer.TRANSACTIONAL:
            self.engine.coordinator.settle(self, delivery, is_settled=is_settled)
        elif is_settled or state in OUTCOMES:
            self._settle(delivery, state, is_settled=is_settled)

    def settle_entry(self, entry: Entry | None, outcome: Outcome, reason: str = "") -> None:
        """Settle with the core what this link still holds."""
        holder = None if entry is None else entry.holder
        if entry is not None and holder is not None and holder.window is self.window:
            settle(entry, outcome, self.engine.now, reason)

    def finish(self, delivery: Pointer, state: int) -> None:
        """Settle a delivery with the peer, unless the link has gone."""
        if not self.is_ended and self.unsettled.pop(delivery, self) is not self:
            transfer.settle(delivery, state)
            self.engine.has_news()

    def end(self, *, is_closed: bool, counted: bool) -> None:
        """Give back what the peer did not settle, and leave the queues."""
        if self.is_ended:
            return
        self.is_ended = True
        self.engine.broker.claims.release(self.claim, self.stolen)
        self.unsettled.clear()
        outbox, self.outbox = self.outbox, deque()
        for payload, entry in outbox:
            self.pressure.outbox_size -= len(payload)
            self.settle_entry(entry, Outcome.RELEASED)
        if self.name in self.session.subscriptions:
            self.engine.broker.unsubscribe(
                self.session, self.name, self.engine.now, counted=counted
            )
        if self.on_end is not None:
            self.on_end(is_closed)

    def _check_direction(self) -> None:
        """Refuse a peer's own transfer: it would be the current delivery, and take our next one."""
        if lib.pn_link_current(self.pointer):
            cause = f"link {self.name}: a transfer on a link on which the peer receives"
            raise ProtocolError(cause, "illegal-state")

    def _settle(self, delivery: Pointer, state: int, *, is_settled: bool) -> None:
        entry = self.unsettled[delivery]
        outcome = outcome_of(delivery, state)
        reason = transfer.rejection(delivery) if outcome is Outcome.REJECTED else ""
        if is_settled:
            del self.unsettled[delivery]
            pn_delivery_settle(delivery)
            self.settle_entry(entry, outcome, reason)
            return
        # The peer waits for our settlement, which is a promise: it leaves after the store's.
        self.settle_entry(entry, outcome, reason)
        self.engine.broker.promises.after(self.session, lambda: self.finish(delivery, state))

    def _drain(self) -> None:
        self.draining = set(self.window.consumers)
        for consumer in self.window.consumers:
            queue = consumer.queue
            if isinstance(queue, Queue):
                queue.draining.append(consumer)
                queue.mark()
            else:
                self.draining.discard(consumer)  # a topic keeps nothing back
        if not self.draining:
            self.is_drain_due = True
            self.pressure.queued(self)
