# Compiled by mypyc: see setup.py.
"""OutgoingLink: a link on which the peer receives.

The consumers behind the link (`consumer`) put encoded messages into its outbox. `flush` writes
their transfers when the shell asks for bytes, as far as the session's window reaches. Credit is the
peer's: the window of the core is what the peer has granted, minus what waits in the outbox.

A delivery's entry is kept under its number until the peer has settled it. A message may still be in
the outbox when the link ends, or when the peer takes its credit back. The peer has never seen it,
so it goes back uncounted. A message that was sent counts as a try only if the connection was lost.

A peer may hold a delivery for longer than its deadline. The broker then settles the delivery as
released, and the peer gets nothing more until it settles something. What it says of the delivery
later is late. Most clients say nothing of a delivery that is settled. So if a peer holds nothing
else, new credit from it counts as well.

A peer may ask for a drain (`Drain`): the credit of its link is to be used up now, or given back.
Every queue that the link reads is asked to deliver what it has. A topic keeps nothing back, so it
is not asked. In the end all have said that nothing more will come, and what waited for the peer has
left. Then a flow gives the link's credit back. That flow is owed also where no credit is left.

Source: AMQP 1.0 sections 2.6.7, 2.6.12 and 2.7.5.
"""

from __future__ import annotations

from collections import deque
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


LATE_MAX: Final = 1000  # deliveries of one link that ran out, and that are remembered


class Drain:
    """What one link was asked for, and who has still to answer."""

    __slots__ = ("_waiting", "is_asked", "is_due", "link")

    def __init__(self, link: OutgoingLink) -> None:
        self.link = link
        self.is_asked = False  # by the last flow of the peer
        self.is_due = False  # all have answered
        self._waiting: set[Consumer] = set()

    def ask(self) -> None:
        """Have everybody behind the link deliver what there is."""
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
        """Hear that the credit is to last again."""
        self.is_asked = False
        self.is_due = False
        self._waiting = set()

    def answered(self, consumer: Consumer) -> None:
        """Hear that a queue has nothing more for the credit given."""
        if self.link.window.is_paused:
            return  # the outbox is full, not the queue empty: `go_on` asks again
        if consumer in self._waiting:
            self._waiting.remove(consumer)
            self._look()

    def go_on(self) -> None:
        """Hear that deliveries go on after the outbox was full."""
        if self._waiting:
            self.ask()

    def give_back(self, parts: list[bytes]) -> None:
        """Write the answer: no credit is left, whether or not some had to be given back."""
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

    channel: Channel  # given when it joins

    def __init__(self, engine: AmqpEngine, pointer: Pointer, name: str) -> None:
        assert engine.session is not None
        self.engine = engine
        self.backpressure = engine.backpressure
        self.session: Session = engine.session
        self.pointer = pointer
        self.name = name
        self.handle = 0  # the peer's
        self.own_handle = -1  # ours, once the attach has left
        self.window = Window(0)
        self.outbox: deque[tuple[bytes, Entry | None]] = deque()
        self.unsettled: dict[int, Entry | None] = {}
        self.late: dict[int, tuple[Consumer, int]] = {}  # ran out: whose, and which message
        # Neither wraps around but on the wire, so that any credit is a plain difference.
        self.delivery_count = 0
        self.delivery_limit = 0  # how far the credit reaches
        self.number = 0  # of the delivery that needs several transfers
        self.offset = (
            0  # bytes of it that have been sent; it stays the outbox's first until all are
        )
        self.is_presettled = False
        self.is_browser = False  # what it is shown is nobody's: its settlements mean nothing
        self.is_waiting = False  # in the engine's list of links to flush
        self.drain = Drain(self)
        self.is_ended = False
        self.on_end: Callable[[bool], None] | None = None
        self.complaint: BrokerError | None = None  # why its end has not brought what it should
        self._start = b""
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

    def attached(self, handle: int) -> None:
        """Hear which handle the link has on our side."""
        self.own_handle = handle
        self._start = transfer_start(self.channel.own_number, handle)

    def stolen(self) -> None:
        """Hear that another connection of the same container has taken the link over."""
        self.engine.links.close(self, RefusedError(f"link {self.name} was taken over", "stolen"))

    # From the core.

    def put(self, payload: bytes, entry: Entry | None) -> None:
        """Let a message wait for the next flush."""
        backpressure = self.backpressure
        self.outbox.append((payload, entry))
        backpressure.outbox_size += len(payload)
        if not self.is_waiting or backpressure.outbox_size > backpressure.outbox_max:
            backpressure.queued(self)

    # To the peer.

    def flush(self, parts: list[bytes], room: int) -> int:
        """Write transfers as far as window and credit reach; return the bytes of messages."""
        channel = self.channel
        outbox = self.outbox
        unsettled = self.unsettled
        owners = channel.unsettled.links
        is_presettled = self.is_presettled
        payload_max = self.engine.frame_max - TRANSFER_HEAD.size
        start, last = self._start, LAST[is_presettled]
        first = number = channel.next_delivery
        credit = self.delivery_limit - self.delivery_count
        window = min(channel.peer_window, credit) if self.own_handle >= 0 else 0
        size = 0
        while outbox and size < room and window > 0 and not self.offset:
            payload, entry = outbox[0]
            length = len(payload)
            if length > payload_max:
                break
            outbox.popleft()
            parts.append(
                TRANSFER_HEAD.pack(length + TRANSFER_HEAD.size, start, number, TAG, number, last)
            )
            parts.append(payload)
            if not is_presettled:
                unsettled[number] = entry
                owners[number] = self
            number = (number + 1) & MASK
            window -= 1
            size += length
        count = (number - first) & MASK
        channel.next_delivery = number
        channel.next_outgoing = (channel.next_outgoing + count) & MASK
        channel.peer_window -= count
        self.delivery_count += count
        if outbox and size < room and channel.peer_window > 0 and (self.offset or window > 0):
            size += self._flush_part(parts, payload_max)
        if self.drain.is_due and self.own_handle >= 0 and self._is_spent():
            self.drain.give_back(parts)
        return size

    def flow_fields(self) -> tuple[bytes, ...]:
        """Return what a flow says of this link."""
        credit = max(0, self.delivery_limit - self.delivery_count)
        numbers = (uint(self.own_handle), uint(self.delivery_count & MASK), uint(credit), NULL)
        return *numbers, boolean(self.drain.is_asked)

    # From the peer.

    def flowed(self, delivery_count: int, credit: int, *, is_draining: bool) -> None:
        """Hear of the peer's credit: more, less, or to be used up now."""
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
        """Hear what became of a delivery that was not simply accepted."""
        if number in self.late:
            self.forget(number)
            self.heard_late(number)
        elif state.code == TRANSACTIONAL:
            self.engine.coordinator.settle(self, number, state, is_settled=is_settled)
        elif is_settled:
            entry = self.forget(number)
            self.settle_entry(entry, *outcome_of(state))
        elif state.code in OUTCOMES:
            # The peer waits for our settlement, which is a promise: it leaves after the store's.
            # Until then the delivery is decided: its message may be on its way again.
            entry, self.unsettled[number] = self.unsettled[number], None
            self.settle_entry(entry, *outcome_of(state))
            answer = plain(state.code)
            self.engine.broker.promises.after(self.session, lambda: self.finish(number, answer))

    def run_out(self, consumer: Consumer, entries: list[Entry]) -> None:
        """Settle as released what the peer has held for too long; what it never saw is not sent."""
        taken = set(entries)
        first = self.outbox[0] if self.offset else None  # a part of it has been sent
        kept = deque([each for each in self.outbox if each is first or each[1] not in taken])
        self.window.count += len(self.outbox) - len(kept)
        for payload, entry in self.outbox:
            if entry in taken and (first is None or entry is not first[1]):
                self.backpressure.outbox_size -= len(payload)
        self.outbox = kept
        for number, held in list(self.unsettled.items()):
            if held is not None and held in taken:
                self.unsettled[number] = None
                self.late[number] = (consumer, held.seq)
                self.channel.releases.add(number, plain(RELEASED), True)
        self.channel.touch()
        while len(self.late) > LATE_MAX:
            oldest = next(iter(self.late))
            del self.late[oldest]
            self.forget(oldest)

    def heard_late(self, number: int) -> None:
        """Hear that the peer says something of a delivery that has run out."""
        late = self.late.pop(number, None)
        if late is not None and late[0].queue is not None:
            late[0].queue.heard_late(late[0], late[1], self.engine.now)

    def _hear_of_credit(self) -> None:
        """Take new credit for a sign of life, from a peer that has nothing it could settle."""
        for consumer in self.window.consumers:
            if consumer.is_overdue and not consumer.unsettled and consumer.queue is not None:
                consumer.queue.heard(consumer, self.engine.now)

    def settle_entry(self, entry: Entry | None, outcome: Outcome, reason: str = "") -> None:
        """Settle with the core what this link still holds."""
        holder = None if entry is None else entry.holder
        if entry is not None and holder is not None and holder.window is self.window:
            settle(entry, outcome, self.engine.now, reason)

    def holds(self, entry: Entry) -> bool:
        """Return True if a message is still this link's to settle, and in no transaction yet."""
        holder = entry.holder
        return holder is not None and holder.window is self.window and entry.seq in holder.unsettled

    def forget(self, number: int) -> Entry | None:
        """Let go of a delivery that is settled on both sides."""
        self.channel.unsettled.links.pop(number, None)
        return self.unsettled.pop(number, None)

    def finish(self, number: int, state: bytes) -> None:
        """Settle a delivery with the peer, unless the link has gone."""
        if number in self.unsettled:
            self.forget(number)
            self.channel.releases.add(number, state, True)
            self.channel.touch()

    def end(self, *, is_closed: bool, counted: bool) -> None:
        """Give back what the peer did not settle, and leave the queues."""
        if self.is_ended:
            return
        self.is_ended = True
        self.engine.broker.claims.release(self.claim, self.stolen)
        for number in self.unsettled:
            self.channel.unsettled.links.pop(number, None)
        self.unsettled.clear()
        self.window.count = 0  # a topic would send again at once what it gets back
        outbox, self.outbox = self.outbox, deque()
        self.backpressure.outbox_size += self.offset  # of the first one only the rest is there
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
        """Return True if nothing more is to be sent for the credit there is."""
        return not self.outbox or (self.delivery_count >= self.delivery_limit and not self.offset)

    def _give_back(self, count: int) -> None:
        """Return the outbox's last messages: the peer has taken back its credit for them.

        What a browser is shown, or is settled as it is sent, has nowhere to go back to: it waits.
        """
        outbox = self.outbox
        for _ in range(min(count, len(outbox) - (self.offset > 0))):
            payload, entry = outbox[-1]
            if entry is None or self.is_presettled:
                return
            outbox.pop()
            self.backpressure.outbox_size -= len(payload)
            self.settle_entry(entry, Outcome.RELEASED)
            self.window.count += 1

    def _flush_part(self, parts: list[bytes], payload_max: int) -> int:
        """Write one transfer of a message that needs several; return how many bytes it has."""
        channel = self.channel
        payload, entry = self.outbox[0]
        if not self.offset:
            self.number = channel.next_delivery
            channel.next_delivery = (self.number + 1) & MASK
            self.delivery_count += 1
            if not self.is_presettled:
                self.unsettled[self.number] = entry
                channel.unsettled.links[self.number] = self
        number = self.number
        part = payload[self.offset : self.offset + payload_max]
        self.offset += len(part)
        is_last = self.offset == len(payload)
        if is_last:
            self.outbox.popleft()
            self.offset = 0
        ending = (LAST if is_last else MORE)[self.is_presettled]
        parts.append(
            TRANSFER_HEAD.pack(
                len(part) + TRANSFER_HEAD.size, self._start, number, TAG, number, ending
            )
        )
        parts.append(part)
        channel.next_outgoing = (channel.next_outgoing + 1) & MASK
        channel.peer_window -= 1
        return len(part)
