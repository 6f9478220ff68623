# Compiled by mypyc: see setup.py.
"""OutgoingLink: a link on which the peer receives.

The link's consumers (`consumer`) put encoded messages into its outbox. `flush` writes their
transfers when the shell asks for bytes, as far as the session's window reaches. The peer grants the
credit: the core's window is what the peer has granted, minus what waits in the outbox.

A delivery's entry is kept under the delivery's number until the peer has settled it. A message may
still be in the outbox when the link ends, or when the peer takes its credit back. The peer has
never seen that message, so it goes back without being counted as delivered. A message that was sent
counts as delivered only if the connection was lost.

A peer may hold a delivery for longer than its deadline. The broker then settles the delivery as
released, and the peer gets nothing more until it settles something. A later disposition of that
delivery is late. Most clients send none for a delivery that is settled. So if a peer holds nothing
else, new credit from it counts as a settlement.

A peer may ask for a drain (`Drain`): the link's credit must be used up now, or be given back. Every
queue that the link reads is asked to deliver what it has. A topic is not asked, because it keeps
nothing back. The drain ends when all queues have answered that nothing more will come, and when
nothing in the outbox can be sent for the credit. Then a flow gives the link's credit back. That
flow is sent even if no credit is left.

Source: AMQP 1.0 sections 2.6.7, 2.6.12 and 2.7.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from covey.core.errors import BrokerError, RefusedError
from covey.core.host.subscription import settle
from covey.core.model.consumer import Consumer, Window
from covey.core.model.entry import Entry, Outcome
from covey.core.queue.queue import Queue
from covey.core.session import Session
from covey.protocols.amqp.codec.encoder import NULL, boolean, uint
from covey.protocols.amqp.codec.performatives import (
    LAST,
    MASK,
    MORE,
    TAG,
    TRANSFER_HEAD,
    later_by,
    transfer_start,
)
from covey.protocols.amqp.outcomes import (
    OUTCOMES,
    RELEASED,
    TRANSACTIONAL,
    State,
    outcome_of,
    plain,
)
from covey.protocols.amqp.proton_wire import Pointer

if TYPE_CHECKING:
    from covey.protocols.amqp.engine import AmqpEngine
    from covey.protocols.amqp.session import Channel


LATE_MAX: Final = 1000  # late deliveries that one link remembers


class Drain:
    """One link's drain: whether the peer asked for it, and which consumers have still to answer."""

    __slots__ = ("_waiting", "is_asked", "is_due", "link")

    def __init__(self, link: OutgoingLink) -> None:
        self.link = link
        self.is_asked = False  # the peer's last flow asked for a drain
        self.is_due = False  # all queues have answered
        self._waiting: set[Consumer] = set()

    def ask(self) -> None:
        """Ask every queue that the link reads to deliver what it has."""
        self.is_asked = True
        self.is_due = False
        consumers = self.link.window.consumers
        self._waiting = {each for each in consumers if isinstance(each.queue, Queue)}
        for consumer in self._waiting:
            queue = consumer.queue
            assert isinstance(queue, Queue)
            if consumer not in queue.draining:
                queue.draining.append(consumer)
            queue.mark()
        self._look()

    def cancel(self) -> None:
        """Called when the peer's flow asks for no drain: the link keeps its credit."""
        self.is_asked = False
        self.is_due = False
        self._waiting = set()

    def answered(self, consumer: Consumer) -> None:
        """Called when a consumer's queue has nothing more for the credit."""
        if self.link.window.is_paused:
            return  # the outbox is full, the queue may not be empty: `go_on` asks again
        if consumer in self._waiting:
            self._waiting.remove(consumer)
            self._look()

    def go_on(self) -> None:
        """Called when deliveries go on after the outbox was full."""
        if self._waiting:
            self.ask()

    def give_back(self, parts: list[bytes]) -> None:
        """Write the flow that ends the drain: it says that no credit is left."""
        link = self.link
        self.is_due = False
        link.delivery_count = max(link.delivery_count, link.delivery_limit)
        parts.append(link.channel.flow(link.flow_fields()))
        link.window.count = 0

    def _look(self) -> None:
        if not self._waiting:
            self.is_due = True
            self.link.backpressure.queued(self.link)


class OutgoingLink:
    """One link's outbox, credit and unsettled deliveries."""

    channel: Channel  # set by `Channel.join`

    def __init__(self, engine: AmqpEngine, pointer: Pointer, name: str) -> None:
        assert engine.session is not None
        self.engine = engine
        self.backpressure = engine.backpressure
        self.session: Session = engine.session
        self.pointer = pointer
        self.name = name
        self.handle = 0  # the peer's handle
        self.own_handle = -1  # the broker's handle; below 0 until the attach has left
        self.window = Window(0)
        self.outbox: list[tuple[bytes, Entry | None]] = []
        self.unsettled: dict[int, Entry | None] = {}
        self.late: dict[int, tuple[Consumer, int]] = {}  # consumer and sequence number
        # These two wrap around only on the wire, so the credit is their plain difference.
        self.delivery_count = 0
        self.delivery_limit = 0  # how far the credit reaches
        self.number = 0  # the number of a delivery that needs several transfers
        self.offset = (
            0  # bytes of that delivery that were sent; it is the outbox's first until all were
        )
        self.is_presettled = False
        self.is_browser = False  # a browser holds nothing: its settlements have no effect
        self.is_waiting = False  # the link is in the list of links to flush
        self.drain = Drain(self)
        self.is_ended = False
        self.on_end: Callable[[bool], None] | None = None
        self.complaint: BrokerError | None = None  # why a closed link's subscription stays
        self._start = b""
        # The link's identity across connections. A container without an id can claim none.
        container = engine.container
        self.claim = (self.session.host.id, self.session.identity.name, container, name)

    def take_over(self) -> None:
        """End the link of this name that the same container has on another connection."""
        if self.engine.container:
            self.engine.broker.claims.evict(self.claim)

    def start(self) -> None:
        """Claim the link's name; called when the link is accepted."""
        if self.engine.container:
            self.engine.broker.claims.hold(self.claim, self.stolen)

    def attached(self, handle: int) -> None:
        """Called when the link has got its handle on the broker's side."""
        self.own_handle = handle
        self._start = transfer_start(self.channel.own_number, handle)

    def stolen(self) -> None:
        """Called when another connection of the same container takes the link over."""
        self.engine.links.close(self, RefusedError(f"link {self.name} was taken over", "stolen"))

    # From the core.

    def put(self, payload: bytes, entry: Entry | None) -> None:
        """Put a message into the outbox for the next flush."""
        backpressure = self.backpressure
        self.outbox.append((payload, entry))
        backpressure.outbox_size += len(payload)
        if not self.is_waiting or backpressure.outbox_size > backpressure.outbox_max:
            backpressure.queued(self)

    # To the peer.

    def flush(self, parts: list[bytes], room: int) -> int:
        """Write transfers as far as window, credit and `room` reach; return the payloads' bytes."""
        channel = self.channel
        outbox = self.outbox
        unsettled = self.unsettled
        owners = channel.unsettled.links
        is_presettled = self.is_presettled
        is_browser = self.is_browser
        payload_max = self.engine.frame_max - TRANSFER_HEAD.size
        start = self._start
        number = channel.next_delivery
        taken = 0
        credit = self.delivery_limit - self.delivery_count
        window = min(channel.peer_window, credit) if self.own_handle >= 0 else 0
        size = 0
        if self.offset:
            window = 0  # the rest of the first message goes before all others
        for payload, entry in outbox:
            length = len(payload)
            if taken >= window or size >= room or length > payload_max:
                break
            taken += 1
            is_settled = is_presettled or (entry is None and not is_browser)  # a notice is, too
            last = LAST[is_settled]
            parts.append(
                TRANSFER_HEAD.pack(length + TRANSFER_HEAD.size, start, number, TAG, number, last)
            )
            parts.append(payload)
            if not is_settled:
                unsettled[number] = entry
                owners[number] = self
            number = (number + 1) & MASK
            size += length
        del outbox[:taken]
        channel.next_delivery = number
        channel.next_outgoing = (channel.next_outgoing + taken) & MASK
        channel.peer_window -= taken
        self.delivery_count += taken
        if outbox and size < room and channel.peer_window > 0 and (self.offset or taken < window):
            size += self._flush_part(parts, payload_max)
        if self.drain.is_due and self.own_handle >= 0 and self._is_spent():
            self.drain.give_back(parts)
        return size

    def flow_fields(self) -> tuple[bytes, ...]:
        """Return the fields of a flow that tell the link's state."""
        credit = max(0, self.delivery_limit - self.delivery_count)
        numbers = (uint(self.own_handle), uint(self.delivery_count & MASK), uint(credit), NULL)
        return *numbers, boolean(self.drain.is_asked)

    # From the peer.

    def flowed(self, delivery_count: int, credit: int, *, is_draining: bool) -> None:
        """Called when a flow changes the credit: to more, to less, or to be drained now."""
        window = self.window
        on_the_way = later_by(self.delivery_count & MASK, delivery_count)
        before = self.delivery_limit
        self.delivery_limit = self.delivery_count - on_the_way + credit
        free = self.delivery_limit - self.delivery_count - len(self.outbox) + (self.offset > 0)
        if free > window.count:
            window.grant(free - window.count, 0)
        else:
            window.count = free
            self._give_back(-free)
        if self.delivery_limit > before:
            self._hear_of_credit()
        if is_draining:
            self.drain.ask()
        else:
            self.drain.cancel()

    def decided(self, number: int, state: State, *, is_settled: bool) -> None:
        """Called when the peer sends a state of a delivery, other than settled as accepted."""
        if number in self.late:
            self.forget(number)
            self.heard_late(number)
        elif state.code == TRANSACTIONAL:
            self.engine.coordinator.settle(self, number, state, is_settled=is_settled)
        elif self.engine.coordinator.keeps(self, number, state, is_settled=is_settled):
            pass  # the outcome stays that of the transaction
        elif is_settled:
            entry = self.forget(number)
            self.settle_entry(entry, *outcome_of(state))
        elif state.code in OUTCOMES:
            # The peer waits for the broker's settlement. That is a promise: it leaves when the
            # store has the outcome. From now on the delivery holds no entry: its message may be
            # delivered again.
            entry, self.unsettled[number] = self.unsettled[number], None
            self.settle_entry(entry, *outcome_of(state))
            answer = plain(state.code)
            self.engine.broker.promises.after(self.session, lambda: self.finish(number, answer))

    def run_out(self, consumer: Consumer, entries: list[Entry]) -> None:
        """Release deliveries that the peer has held for too long; drop those still unsent."""
        taken = set(entries)
        first = self.outbox[0] if self.offset else None  # partly sent, so the rest must follow
        kept = [each for each in self.outbox if each is first or each[1] not in taken]
        self.window.count += len(self.outbox) - len(kept)
        for payload, entry in self.outbox:
            if entry in taken and (first is None or entry is not first[1]):
                self.backpressure.outbox_size -= len(payload)
        self.outbox = kept
        left = len(taken)  # most often they are the first: the rest need not be looked at
        for number, held in self.unsettled.items():
            if held is not None and held in taken:
                self.unsettled[number] = None
                self.late[number] = (consumer, held.seq)
                self.channel.releases.add(number, plain(RELEASED), True)
                left -= 1
                if not left:
                    break
        self.channel.touch()
        while len(self.late) > LATE_MAX:
            oldest = next(iter(self.late))
            del self.late[oldest]
            self.forget(oldest)

    def heard_late(self, number: int) -> None:
        """Called when the peer settles a delivery that is late."""
        late = self.late.pop(number, None)
        if late is not None and late[0].queue is not None:
            late[0].queue.heard_late(late[0], late[1], self.engine.now)

    def _hear_of_credit(self) -> None:
        """Let new credit count as an answer from a peer that is late and holds nothing else."""
        for consumer in self.window.consumers:
            if consumer.is_overdue and not consumer.unsettled and consumer.queue is not None:
                consumer.queue.heard(consumer, self.engine.now)

    def settle_entry(self, entry: Entry | None, outcome: Outcome, reason: str = "") -> None:
        """Settle an entry in the core, if this link still holds it."""
        holder = None if entry is None else entry.holder
        if entry is not None and holder is not None and holder.window is self.window:
            settle(entry, outcome, self.engine.now, reason)

    def holds(self, entry: Entry) -> bool:
        """Return True if this link still holds a message, and no transaction settles it yet."""
        holder = entry.holder
        return holder is not None and holder.window is self.window and entry.seq in holder.unsettled

    def forget(self, number: int) -> Entry | None:
        """Forget a delivery that is settled on both sides; return its entry."""
        self.channel.unsettled.links.pop(number, None)
        return self.unsettled.pop(number, None)

    def finish(self, number: int, state: bytes) -> None:
        """Tell the peer that a delivery is settled, unless the link has ended."""
        if number in self.unsettled:
            self.forget(number)
            self.channel.releases.add(number, state, True)
            self.channel.touch()

    def end(self, *, is_closed: bool, counted: bool) -> None:
        """End the link: return what the peer did not settle, and leave the queues."""
        if self.is_ended:
            return
        self.is_ended = True
        self.engine.broker.claims.release(self.claim, self.stolen)
        for number in self.unsettled:
            self.channel.unsettled.links.pop(number, None)
        self.unsettled.clear()
        self.window.count = 0  # else a topic would deliver again at once what is released below
        outbox, self.outbox = self.outbox, []
        self.backpressure.outbox_size += self.offset  # only the rest of the first message is there
        for payload, entry in outbox:
            self.backpressure.outbox_size -= len(payload)
            self.settle_entry(entry, Outcome.RELEASED)
        if self.name in self.session.subscriptions:
            self.engine.broker.unsubscribe(
                self.session, self.name, self.engine.now, counted=counted
            )
        if self.on_end is not None:
            self.on_end(is_closed)

    def _is_spent(self) -> bool:
        """Return True if the outbox has nothing that the credit allows to send."""
        return not self.outbox or (self.delivery_count >= self.delivery_limit and not self.offset)

    def _give_back(self, count: int) -> None:
        """Release the outbox's last messages: the peer has taken back its credit for them.

        A browser's copies, presettled messages and notices cannot be released. They wait in the
        outbox.
        """
        if self.is_browser or self.is_presettled:
            return
        outbox = self.outbox
        notices: list[tuple[bytes, Entry | None]] = []
        while count > 0 and len(outbox) > (self.offset > 0):
            payload, entry = outbox.pop()
            if entry is None:
                notices.append((payload, None))
                continue
            count -= 1
            self.backpressure.outbox_size -= len(payload)
            self.settle_entry(entry, Outcome.RELEASED)
            self.window.count += 1
        outbox.extend(reversed(notices))

    def _flush_part(self, parts: list[bytes], payload_max: int) -> int:
        """Write one transfer of a message that needs several; return the bytes of its payload."""
        channel = self.channel
        payload, entry = self.outbox[0]
        is_settled = self.is_presettled or (entry is None and not self.is_browser)
        if not self.offset:
            self.number = channel.next_delivery
            channel.next_delivery = (self.number + 1) & MASK
            self.delivery_count += 1
            if not is_settled:
                self.unsettled[self.number] = entry
                channel.unsettled.links[self.number] = self
        number = self.number
        part = payload[self.offset : self.offset + payload_max]
        self.offset += len(part)
        is_last = self.offset == len(payload)
        if is_last:
            del self.outbox[0]
            self.offset = 0
        ending = (LAST if is_last else MORE)[is_settled]
        parts.append(
            TRANSFER_HEAD.pack(
                len(part) + TRANSFER_HEAD.size, self._start, number, TAG, number, ending
            )
        )
        parts.append(part)
        channel.next_outgoing = (channel.next_outgoing + 1) & MASK
        channel.peer_window -= 1
        return len(part)
