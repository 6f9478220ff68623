"""IncomingLink: a link on which the peer sends, whatever becomes of its messages.

A message may come in many frames; it is gathered here, within the link's largest size, and handed
on whole. Messages that end up in queues, transaction commands and management requests differ only
in `take`.

Credit is the flow control. A blocked session (a message of it waits for room) reads no further
delivery: what comes stays in proton, bounded by the session's window, and no credit is renewed.
Settlements and flow still get through on the same connection, so a client that has to acknowledge
before there is room can do so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from cproton_ffi import lib

from covey.core.errors import BrokerError, RefusedError
from covey.core.session import Session
from covey.protocols.amqp import transfer
from covey.protocols.amqp.calls import (
    pn_delivery_partial,
    pn_delivery_settle,
    pn_delivery_settled,
    pn_delivery_update,
    pn_event_delivery,
    pn_link_advance,
    pn_link_current,
)
from covey.protocols.amqp.transfer import read
from covey.protocols.amqp.wire import Pointer

if TYPE_CHECKING:
    from covey.protocols.amqp.engine import AmqpEngine


class IncomingLink(ABC):
    """Gathers the peer's transfers and gives it credit."""

    def __init__(self, engine: AmqpEngine, pointer: Pointer, name: str) -> None:
        assert engine.session is not None
        self.engine = engine
        self.session: Session = engine.session
        self.pointer = pointer
        self.name = name
        self.credit = engine.settings.link_credit
        self.used = 0  # of the credit, since it was last renewed
        self.size_max = engine.settings.max_message_size
        self.chunks: list[bytes] = []  # of a message that is not complete yet
        self.size = 0  # bytes of it so far
        self.settles_second = False  # the peer settles after it has seen our answer
        self.answered: set[Pointer] = set()  # those the peer has still to settle
        self.is_ended = False

    @abstractmethod
    def take(self, delivery: Pointer, data: bytes) -> None:
        """Do what a whole message asks for, and settle its delivery now or later."""

    def start(self) -> None:
        """Give the peer its first credit."""
        lib.pn_link_flow(self.pointer, self.credit)

    def flowed(self) -> None:  # noqa: B027 - credit for sending is the other direction's
        """Hear that the peer, which sends here, has told its state: nothing to do."""

    def delivered(self, event: Pointer) -> None:
        """Hear that a delivery changed: it has come, or grown, or the peer has settled it.

        Every one has an event after its last frame, and each event reads the oldest that is there:
        so all are read, and none is asked for by its pointer.
        """
        if self.answered and self._finish(pn_event_delivery(event)):
            return
        session = self.session
        if not session.blocked:
            delivery = pn_link_current(self.pointer)
            if delivery:
                self._read_on(delivery)
        if session.blocked:
            self.engine.pressure.stall(self)
        elif self.used * 2 >= self.credit:
            self._renew_credit()

    def work(self) -> None:
        """Take what had to wait, unless the session has to wait again."""
        while not self.is_ended:
            if self.session.blocked:
                self.engine.pressure.stall(self)
                return
            delivery = pn_link_current(self.pointer)
            if not delivery or not self._read_on(delivery):
                break
        if self.used * 2 >= self.credit:
            self._renew_credit()

    def answer(self, delivery: Pointer, state: int) -> None:
        """Tell the peer what became of its message."""
        pn_delivery_update(delivery, state)
        if self.settles_second and not pn_delivery_settled(delivery):
            self.answered.add(delivery)
        else:
            pn_delivery_settle(delivery)
        if not self.engine.is_receiving:
            self.engine.wake()

    def refuse(self, delivery: Pointer, error: BrokerError) -> None:
        """Say no to one message; a settled one has nobody to say it to."""
        if pn_delivery_settled(delivery):
            transfer.settle(delivery, transfer.REJECTED)
            self.engine.report("message_refused", link=self.name, cause=error.text)
        else:
            transfer.reject(delivery, error)
        self.engine.has_news()

    def end(self, *, is_closed: bool, counted: bool) -> None:
        """Let go: the link is about to be freed, and its deliveries with it."""
        self.is_ended = True
        self.answered.clear()
        self._forget_chunks()

    def _finish(self, delivery: Pointer) -> bool:
        """Settle what the peer has, having seen our answer; False: it has none yet."""
        if delivery not in self.answered:
            return False
        if pn_delivery_settled(delivery):
            self.answered.discard(delivery)
            pn_delivery_settle(delivery)
        return True

    def _read_on(self, delivery: Pointer) -> bool:
        """Read the current delivery; True once it is done with and the next may follow."""
        data = read(self.pointer)
        if not data and lib.pn_delivery_aborted(delivery):
            self._forget_chunks()
            pn_delivery_settle(delivery)
            self.used += 1
            return True
        self.size += len(data)
        if self.size > self.size_max > 0:
            self._refuse_size()
            return False
        if pn_delivery_partial(delivery):
            if data:
                self.chunks.append(data)
            return False
        if self.chunks:
            data = b"".join([*self.chunks, data])
            self.chunks = []
        self.size = 0
        pn_link_advance(self.pointer)
        self.used += 1
        try:
            self.take(delivery, data)
        except BrokerError as error:
            self.refuse(delivery, error)
        return True

    def _refuse_size(self) -> None:
        self._forget_chunks()
        cause = f"link {self.name}: a message has more than {self.size_max} bytes"
        self.engine.close_link(self, RefusedError(cause, "too-large"))

    def _forget_chunks(self) -> None:
        self.chunks = []
        self.size = 0

    def _renew_credit(self) -> None:
        if not self.is_ended:
            lib.pn_link_flow(self.pointer, self.used)
            self.used = 0
