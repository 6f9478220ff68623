# Compiled by mypyc: see setup.py.
"""IncomingLink: a link on which the peer sends: messages, transaction commands or requests.

A message may come in many frames. The link gathers the frames, up to its largest message size, and
hands the message on whole. What all links of a connection gather at a time is bounded, too. Links
for queues, for transaction commands and for management requests differ mainly in `take`. A delivery
is known by its number in the session. A delivery that came settled gets no answer, so it has the
number `SETTLED`.

Credit is the flow control: a peer that sends more than its credit loses the link (AMQP 1.0 section
2.6.7). A connection is blocked while one of its messages waits for room. Meanwhile messages are
held back, and their credit is not renewed. What takes no room is still handled: settlements, flows,
commands, and sends in a transaction. So a client can settle deliveries to make room.
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

SETTLED: Final = ABSENT  # stands for the number of a delivery that gets no answer
GATHERED_MAX: Final = 4  # incomplete messages of the largest size that a connection may hold


class IncomingLink(ABC):
    """Gathers the peer's transfers and gives it credit."""

    needs_room: ClassVar[bool] = False  # True: its messages wait while the connection is blocked

    channel: Channel  # set by `Channel.join`

    def __init__(self, engine: AmqpEngine, pointer: Pointer, name: str) -> None:
        assert engine.session is not None
        self.engine = engine
        self.session: Session = engine.session
        self.pointer = pointer
        self.name = name
        self.handle = 0  # the peer's handle
        self.own_handle = -1  # the broker's handle; below 0 until the attach has left
        self.credit = engine.settings.link_credit
        self.used = 0  # credit used since it was last renewed
        self.delivery_count = 0  # the peer's count of deliveries, from which credit counts
        self.delivery_limit = 0  # the count up to which the peer was told that it may send
        self.granted = 0  # the count that the next flow will tell
        self.size_max = engine.settings.max_message_size
        # These four belong to the delivery that is not complete yet.
        self.number = ABSENT
        self.chunks: list[bytes] = []
        self.size = 0  # bytes so far
        self.is_settled = False
        self.state = b""  # the current delivery's state, as the peer sent it
        self.format = ABSENT  # the message format of the delivery that is not complete yet
        self.tag = b""  # the current delivery's tag, if errors must name it
        self.held: deque[tuple[int, bytes, bytes, bytes]] = deque()  # number, tag, state, message
        self.can_reject = True  # the peer supports the outcome `rejected`
        self.tells_tag = False  # an error about a delivery names its tag
        self.settles_second = False  # the peer settles after it has seen the broker's answer
        self.unsettled: set[int] = set()  # if so, the deliveries that the peer must still settle
        self.unsettled_max = engine.broker.limits.unsettled_max
        self.is_ended = False

    @abstractmethod
    def take(self, delivery: int, data: bytes) -> None:
        """Handle a whole message, and answer its delivery now or later."""

    def start(self) -> None:
        """Give the peer its first credit; the peer may use it before the flow has told it."""
        self.granted = self.delivery_count + self.credit
        self.delivery_limit = self.granted
        self._tell_credit()

    def attached(self, handle: int) -> None:
        """Called when the link has got its handle on the broker's side."""
        self.own_handle = handle

    def flow_fields(self) -> tuple[bytes, ...]:
        """Return the fields of a flow that tell the link's credit; that credit holds from now."""
        self.delivery_limit = self.granted
        left = max(0, self.delivery_limit - self.delivery_count)
        return uint(self.own_handle), uint(self.delivery_count & MASK), uint(left)

    def transferred(self, transfer: Transfer) -> None:
        """Take a transfer: nearly always a whole message, else a part of one."""
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
        """Called when a flow says that the peer gives up some of its credit."""
        unused = later_by(delivery_count, self.delivery_count & MASK)
        if 0 < unused <= self.delivery_limit - self.delivery_count:
            self.delivery_count += unused
            self.used += unused
            self._look_after()

    def settled(self, first: int, count: int) -> None:
        """Called when the peer has settled a range of the deliveries that it sent."""
        unsettled = self.unsettled
        if count > len(unsettled):
            gone = [each for each in unsettled if (each - first) & MASK < count]
        else:
            gone = [(first + each) & MASK for each in range(count)]
        unsettled.difference_update(gone)
        self._look_after()

    def must_wait(self, state: bytes) -> bool:
        """Return True if a delivery must wait while the connection is blocked."""
        return False

    def work(self) -> None:
        """Handle the messages that were held back, until one has to wait, or the turn is long."""
        while self.held and not self.is_ended:
            number, tag, state, data = self.held[0]
            if self.session.must_wait and self.must_wait(state):
                break
            if self.engine.must_end_turn():
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
        """Refuse one message, by a rejection or by ending the link.

        The link ends if the message came settled, or if its sender does not support rejections. A
        full queue is the exception: it may drop a settled message, whose sender accepts losses.
        """
        if self._may_reject(delivery):
            self.answer(delivery, self._rejection(error))
        elif error.code == "full" and delivery == SETTLED:
            self.engine.report("message_refused", link=self.name, cause=error.text)
        else:
            self._close(error)

    def end(self, *, is_closed: bool, counted: bool) -> None:
        """End the link, and drop what was not handled yet."""
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
        """End the link because of one message."""
        info = {DELIVERY_TAG: self.tag} if self.tells_tag else None
        self.engine.links.close(self, error, info)

    def _spoil(self, state: bytes, cause: str) -> None:
        """Called when a message is dropped: the transaction that it belongs to cannot commit."""
        if state:
            self.engine.coordinator.spoil(read_state(state, 0), cause)

    def _gather(self, transfer: Transfer) -> None:
        """Take a part of a message; hand the message on when its last part has come."""
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
        """Return what is wrong with a transfer, "" if nothing is (AMQP 1.0 section 2.7.5)."""
        if transfer.settles_second and not self.settles_second:
            return "a delivery that is settled second, on a link that settles first"
        if self.number == ABSENT:
            return "" if transfer.has_tag or transfer.number == ABSENT else "no delivery-tag"
        if transfer.format not in (ABSENT, self.format):
            return "the parts of a delivery have two formats"
        return ""

    def _arrived(self, number: int, tag: bytes, state: bytes, data: bytes) -> None:
        """Handle a whole message, or hold it back."""
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
        """Wait if the connection is blocked; else renew the credit when half is used.

        A peer that has too many deliveries still to settle gets no new credit.
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
        """End the link: its peer has broken the rules of the link."""
        self._spoil(state, error.text)
        self.engine.links.close(self, error)

    def _forget_chunks(self) -> None:
        self.engine.backpressure.gathered_size -= self.size
        self.number = ABSENT
        self.chunks = []
        self.size = 0
        self.is_settled = False
        self.state = b""
