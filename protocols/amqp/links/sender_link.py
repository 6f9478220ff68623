# Compiled by mypyc: see setup.py.
"""IncomingLink: a link on which the peer sends, whatever becomes of its messages.

A message may come in many frames. It is gathered here, within the link's largest size, and handed
on whole. All that the links of a connection gather at a time is bounded, too. Messages that end up
in queues, transaction commands and management requests differ only in `take`. A delivery is known
by its number in the session. One that came settled has none, since there is nothing to say of it.

Credit is the flow control: whoever sends beyond it loses the link (AMQP 1.0 section 2.6.7). A
connection is blocked while one of its messages waits for room. Meanwhile messages are held back,
and no credit is renewed for them. What takes no room still gets through: settlements, flow,
commands, and sends in a transaction. So a client that has to acknowledge before there is room can
do so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, ClassVar, Final

from covey.core.errors import BrokerError, ProtocolError, RefusedError
from covey.core.session import Session
from covey.protocols.amqp.codec.encoder import uint
from covey.protocols.amqp.codec.performatives import ABSENT, MASK, later_by
from covey.protocols.amqp.conditions import DELIVERY_TAG
from covey.protocols.amqp.outcomes import read_state, rejected
from covey.protocols.amqp.proton_wire import Pointer

if TYPE_CHECKING:
    from covey.protocols.amqp.codec.transfer import Transfer
    from covey.protocols.amqp.engine import AmqpEngine
    from covey.protocols.amqp.session import Channel

SETTLED: Final = ABSENT  # the number of a delivery that is to have no answer
GATHERED_MAX: Final = 4  # largest messages that may be on their way in parts on one connection


class IncomingLink(ABC):
    """Gathers the peer's transfers and gives it credit."""

    needs_room: ClassVar[bool] = False  # what comes here waits while the connection is blocked

    channel: Channel  # given when it joins

    def __init__(self, engine: AmqpEngine, pointer: Pointer, name: str) -> None:
        assert engine.session is not None
        self.engine = engine
        self.session: Session = engine.session
        self.pointer = pointer
        self.name = name
        self.handle = 0  # the peer's
        self.own_handle = -1  # ours, once the attach has left
        self.credit = engine.settings.link_credit
        self.used = 0  # of the credit, since it was last renewed
        self.delivery_count = 0  # the peer's: where its credit counts from
        self.delivery_limit = 0  # how far it reaches, as far as the peer was told
        self.granted = 0  # how far it is to reach
        self.size_max = engine.settings.max_message_size
        self.number = ABSENT  # of the delivery that is not complete yet
        self.chunks: list[bytes] = []  # of it
        self.size = 0  # bytes of it so far
        self.is_settled = False
        self.state = b""  # what the peer says of the delivery at hand
        self.format = ABSENT  # of the delivery that is not complete yet
        self.tag = b""  # of the delivery at hand, where the link has to tell it
        self.held: deque[tuple[int, bytes, bytes, bytes]] = deque()  # number, tag, state, message
        self.can_reject = True  # the peer knows that outcome
        self.tells_tag = False  # an error that a delivery makes has its tag
        self.settles_second = False  # the peer settles after it has seen our answer
        self.unsettled: set[int] = set()  # on such a link: those the peer has still to settle
        self.unsettled_max = engine.broker.limits.unsettled_max
        self.is_ended = False

    @abstractmethod
    def take(self, delivery: int, data: bytes) -> None:
        """Do what a whole message asks for, and answer its delivery now or later."""

    def start(self) -> None:
        """Give the peer its first credit; one that does not wait to be told may use it, too."""
        self.granted = self.delivery_count + self.credit
        self.delivery_limit = self.granted
        self._tell_credit()

    def attached(self, handle: int) -> None:
        """Hear which handle the link has on our side."""
        self.own_handle = handle

    def flow_fields(self) -> tuple[bytes, ...]:
        """Return what a flow says of this link; from now on that holds."""
        self.delivery_limit = self.granted
        left = max(0, self.delivery_limit - self.delivery_count)
        return uint(self.own_handle), uint(self.delivery_count & MASK), uint(left)

    def transferred(self, transfer: Transfer) -> None:
        """Take a transfer: nearly always a message, else a part of one."""
        if self.number != ABSENT or not transfer.is_whole:
            self._gather(transfer)
            return
        self.delivery_count += 1
        payload = transfer.payload
        if self.delivery_count > self.delivery_limit:
            self._refuse_more(transfer.state)
        elif len(payload) > self.size_max > 0:
            self._refuse_size(transfer.state)
        else:
            number = SETTLED if transfer.is_settled else transfer.number
            self._arrived(number, transfer.tag, transfer.state, payload)

    def flowed(self, delivery_count: int) -> None:
        """Hear that the peer has let some of its credit go unused."""
        unused = later_by(delivery_count, self.delivery_count & MASK)
        if 0 < unused <= self.delivery_limit - self.delivery_count:
            self.delivery_count += unused
            self.used += unused
            self._look_after()

    def settled(self, first: int, count: int) -> None:
        """Hear that the peer has settled a range of what it sent."""
        unsettled = self.unsettled
        if count > len(unsettled):
            gone = [each for each in unsettled if (each - first) & MASK < count]
        else:
            gone = [(first + each) & MASK for each in range(count)]
        unsettled.difference_update(gone)
        self._look_after()

    def must_wait(self, state: bytes) -> bool:
        """Return True if what came is to wait for the end of the block."""
        return False

    def work(self) -> None:
        """Take what had to wait, unless it has to wait again."""
        while self.held and not self.is_ended:
            number, tag, state, data = self.held[0]
            if self.session.must_wait and self.must_wait(state):
                break
            self.held.popleft()
            self.engine.backpressure.let_go(state, data)
            self._take(number, tag, state, data)
        self._look_after()

    def answer(self, delivery: int, state: bytes) -> None:
        """Tell the peer what became of its message."""
        if delivery == SETTLED:
            return
        channel = self.channel
        if not self.settles_second:
            channel.answers.add(delivery, state, True)
        elif delivery in self.unsettled:
            channel.answers.add(delivery, state, False)
        if not channel.is_due:
            channel.touch()

    def refuse(self, delivery: int, error: BrokerError) -> None:
        """Say no to one message, if only by ending the link.

        That is all that the sender of a settled message hears, or one that knows no rejections. A
        queue that is full may drop what is settled: such a sender has agreed to losses.
        """
        if self._may_reject(delivery):
            self.answer(delivery, self._rejection(error))
        elif error.code == "full" and delivery == SETTLED:
            self.engine.report("message_refused", link=self.name, cause=error.text)
        else:
            self._close(error)

    def end(self, *, is_closed: bool, counted: bool) -> None:
        """Let go of what has come and was not taken."""
        self.is_ended = True
        self.unsettled.clear()
        self._forget_chunks()
        for _, _, state, data in self.held:
            self.engine.backpressure.let_go(state, data)
            self._spoil(state, f"link {self.name} ended before a message was taken")
        self.held.clear()

    def _may_reject(self, delivery: int) -> bool:
        return self.can_reject and delivery != SETTLED

    def _rejection(self, error: BrokerError) -> bytes:
        return rejected(error, self.tag if self.tells_tag else b"")

    def _close(self, error: BrokerError) -> None:
        """End the link for what one message has done."""
        info = {DELIVERY_TAG: self.tag} if self.tells_tag else None
        self.engine.links.close(self, error, info)

    def _spoil(self, state: bytes, cause: str) -> None:
        """Hear that a message will not be taken, perhaps one of a transaction."""
        if state:
            self.engine.coordinator.spoil(read_state(state, 0), cause)

    def _gather(self, transfer: Transfer) -> None:
        """Take a part of a message; hand it on with the last one."""
        flaw = self._flaw_of(transfer)
        if flaw:
            self._refuse_all(transfer.state, RefusedError(f"link {self.name}: {flaw}", "invalid"))
            return
        if self.number == ABSENT:
            if transfer.number == ABSENT:
                raise ProtocolError(f"link {self.name}: a transfer without a number", "invalid")
            self.number = transfer.number
            self.delivery_count += 1
            self.tag = transfer.tag
            self.format = transfer.format
            if self.delivery_count > self.delivery_limit:
                self._refuse_more(transfer.state)
                return
        elif transfer.number not in (ABSENT, self.number):
            cause = f"link {self.name}: a delivery begins before the last one is complete"
            raise ProtocolError(cause, "invalid")
        if transfer.is_aborted:
            self._forget_chunks()
            self.used += 1
            self._look_after()
            return
        self.size += len(transfer.payload)
        self.engine.backpressure.gathered_size += len(transfer.payload)
        self.is_settled = self.is_settled or transfer.is_settled
        self.state = transfer.state or self.state
        if self.size > self.size_max > 0:
            self._refuse_size(self.state)
            return
        if self.engine.backpressure.gathered_size > GATHERED_MAX * self.size_max > 0:
            self._refuse_parts(self.state)
            return
        self.chunks.append(transfer.payload)
        if not transfer.has_more:
            number = SETTLED if self.is_settled else self.number
            data, state, tag = b"".join(self.chunks), self.state, self.tag
            self._forget_chunks()
            self._arrived(number, tag, state, data)

    def _flaw_of(self, transfer: Transfer) -> str:
        """Say what is wrong with a transfer, "" for nothing (AMQP 1.0 section 2.7.5)."""
        if transfer.settles_second and not self.settles_second:
            return "a delivery that is settled second, on a link that settles first"
        if self.number == ABSENT:
            return "" if transfer.has_tag or transfer.number == ABSENT else "no delivery-tag"
        if transfer.format not in (ABSENT, self.format):
            return "the parts of a delivery have two formats"
        return ""

    def _arrived(self, number: int, tag: bytes, state: bytes, data: bytes) -> None:
        """Take a message, or hold it back."""
        if self.held or (self.session.must_wait and self.must_wait(state)):
            self.held.append((number, tag, state, data))
            self.engine.backpressure.hold(state, data)
        else:
            self._take(number, tag, state, data)
        if self.session.must_wait or self.used * 2 >= self.credit:
            self._look_after()

    def _take(self, number: int, tag: bytes, state: bytes, data: bytes) -> None:
        if self.settles_second and number != SETTLED:
            self.unsettled.add(number)
        self.used += 1
        self.tag = tag
        self.state = state
        try:
            self.take(number, data)
        except BrokerError as error:
            self.refuse(number, error)

    def _look_after(self) -> None:
        """Wait with a connection that is blocked; else renew the credit when half is used.

        A peer that has far too much still to settle is given none.
        """
        if self.is_ended:
            return
        if self.held or (self.session.must_wait and self.needs_room):
            self.engine.backpressure.stall(self)
        elif self.used * 2 >= self.credit and len(self.unsettled) < self.unsettled_max:
            self.granted += self.used
            self.used = 0
            self._tell_credit()

    def _tell_credit(self) -> None:
        self.channel.flows[self] = None
        self.channel.touch()

    def _refuse_more(self, state: bytes) -> None:
        cause = f"link {self.name}: more transfers than it has credit for"
        self._refuse_all(state, RefusedError(cause, "no-credit"))

    def _refuse_size(self, state: bytes) -> None:
        cause = f"link {self.name}: a message has more than {self.size_max} bytes"
        self._refuse_all(state, RefusedError(cause, "too-large"))

    def _refuse_parts(self, state: bytes) -> None:
        limit = GATHERED_MAX * self.size_max
        cause = f"link {self.name}: the connection's incomplete messages have over {limit} bytes"
        self._refuse_all(state, RefusedError(cause, "limit"))

    def _refuse_all(self, state: bytes, error: RefusedError) -> None:
        """End the link: its peer sends what it must not."""
        self._spoil(state, error.text)
        self.engine.links.close(self, error)

    def _forget_chunks(self) -> None:
        self.engine.backpressure.gathered_size -= self.size
        self.number = ABSENT
        self.chunks = []
        self.size = 0
        self.is_settled = False
        self.state = b""
