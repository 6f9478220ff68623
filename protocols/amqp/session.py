# Compiled by mypyc: see setup.py.
"""Channel: one AMQP session: its links, its windows, its unsettled deliveries.

AMQP's session is called Channel here, after the channel number that it has on the wire: the core's
`Session` is the whole connection.

Proton begins and ends sessions and links. This file counts everything in between. Each side grants
the other a window of transfers, and every flow tells both windows. The peer may send
`SESSION_FRAMES` transfers. The window is renewed when half is used, unless messages are held back.
If the broker ends a session because of an error, it ignores the session's frames until the peer
ends it, too.

Frames to the peer are gathered and written once a turn, settlements first, then flows. Most
deliveries are answered in order and with the same outcome. `Dispositions` joins such answers to
ranges, so one frame can answer all messages of a read. Answers for the same delivery keep their
order.

Deliveries are numbered per session, so one disposition can cover deliveries of several links.
`Unsettled` knows the link of each delivery. Nearly all dispositions of a peer accept a range: the
core settles what one consumer holds of the range in one call. Very many, and those with another
outcome, are settled in portions (`settling`). A range may be far larger than the
number of unsettled deliveries. Then the loop goes over the unsettled deliveries, not over the
range.

Source: AMQP 1.0 sections 2.5.6, 2.6.7, 2.7.4 and 2.7.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Final

from covey.core.errors import ProtocolError, RefusedError
from covey.core.model.consumer import Consumer
from covey.core.model.entry import Entry
from covey.core.queue.acceptance import AT_ONCE, Acceptance
from covey.protocols.amqp.codec.encoder import NULL, boolean, uint
from covey.protocols.amqp.codec.performatives import (
    DISPOSITION,
    FLOW,
    HALF,
    MASK,
    frame_of,
    numbers,
    performative,
)
from covey.protocols.amqp.codec.transfer import Transfer
from covey.protocols.amqp.codec.types import NULL as NULL_CODE
from covey.protocols.amqp.links.receiver_link import OutgoingLink
from covey.protocols.amqp.links.sender_link import IncomingLink
from covey.protocols.amqp.outcomes import ACCEPTED, IS_ACCEPTED, NO_STATE, read_state
from covey.protocols.amqp.settling import AT_ONCE as FEW
from covey.protocols.amqp.settling import Range, Settling

if TYPE_CHECKING:
    from covey.protocols.amqp.engine import AmqpEngine
    from covey.protocols.amqp.framing import LifecycleFrame
    from covey.protocols.amqp.proton_wire import Pointer


class Unsettled:
    """The links of unsettled deliveries, by number; the links keep the entries."""

    __slots__ = ("links",)

    def __init__(self) -> None:
        self.links: dict[int, OutgoingLink] = {}

    def within(self, first: int, count: int) -> Sequence[int]:
        """Return the numbers of a range; numbers that are already settled may be among them."""
        if count > len(self.links):
            return [each for each in self.links if (each - first) & MASK < count]
        if first + count <= MASK:
            return range(first, first + count)
        return [(first + each) & MASK for each in range(count)]

    def accept(self, first: int, count: int, now: float) -> None:
        """Accept a range of deliveries; neighbours of one consumer are settled together."""
        for reader, row in self.take_rows(first, count):
            if reader.queue is not None:
                reader.queue.accept(reader, row, now)

    def take_rows(self, first: int, count: int) -> list[tuple[Consumer, list[Entry]]]:
        """Take a range of deliveries that the peer accepts; return rows, each of a consumer."""
        rows: list[tuple[Consumer, list[Entry]]] = []
        numbers = self.within(first, count)
        owners = list(map(self.links.pop, numbers, repeat(None)))
        start = 0
        while start < len(owners):
            link = owners[start]
            stop = start + 1
            while stop < len(owners) and owners[stop] is link:
                stop += 1
            if link is not None:
                _take(link, numbers[start:stop], rows)
            start = stop
        return rows


def _take(
    link: OutgoingLink, numbers: Sequence[int], rows: list[tuple[Consumer, list[Entry]]]
) -> None:
    """Take deliveries of one link; add their entries to rows, each of a consumer."""
    window = link.window
    coordinator = link.engine.coordinator
    has_transactions = coordinator.is_any
    row: list[Entry] = []
    reader: Consumer | None = None
    for place, entry in enumerate(list(map(link.unsettled.pop, numbers))):
        if has_transactions and coordinator.keeps(
            link, numbers[place], IS_ACCEPTED, is_settled=True
        ):
            continue
        if entry is None:
            link.heard_late(numbers[place])
            continue
        holder = entry.holder
        if holder is None or holder.window is not window:
            continue
        if holder is not reader:
            reader = holder
            row = []
            rows.append((holder, row))
        row.append(entry)


class Dispositions:
    """The dispositions that one session will send, as a receiver or as a sender."""

    __slots__ = ("_first", "_following", "_is_settled", "_ranges", "_state", "receives")

    def __init__(self, *, receives: bool) -> None:
        self.receives = receives
        self._ranges: list[tuple[int, int, bool, bytes]] = []
        self._state: bytes | None = None  # the last range's, which may still grow; None: no range
        self._is_settled = False
        self._first = 0
        self._following = 0

    def add(self, number: int, state: bytes, is_settled: bool) -> None:
        """Add a disposition of one delivery."""
        if number == self._following and state == self._state and is_settled == self._is_settled:
            self._following = (number + 1) & MASK
            return
        self._finish()
        self._state = state
        self._is_settled = is_settled
        self._first = number
        self._following = (number + 1) & MASK

    def write(self, channel: int, parts: list[bytes]) -> None:
        """Write all dispositions that were added."""
        if self._state is None:
            return
        self._finish()
        for first, last, is_settled, state in self._ranges:
            fields = (
                boolean(self.receives),
                uint(first),
                uint(last) if last != first else NULL,
                boolean(is_settled),
                state,
            )
            parts.append(frame_of(channel, performative(DISPOSITION, *fields)))
        self._ranges.clear()

    def _finish(self) -> None:
        if self._state is not None:
            last = (self._following - 1) & MASK
            self._ranges.append((self._first, last, self._is_settled, self._state))
            self._state = None


AnyLink = IncomingLink | OutgoingLink

SESSION_FRAMES: Final = 2048  # a session's window: twice the default credit of one link
OUTGOING_WINDOW: Final = 2**31 - 1  # no limit: only the peer's own window limits what is sent


class Channel:
    """One AMQP session; `number` is the peer's channel number."""

    __slots__ = (
        "answers",
        "engine",
        "flows",
        "incoming",
        "incoming_window",
        "is_due",
        "is_ended",
        "is_flow_due",
        "links",
        "next_delivery",
        "next_incoming",
        "next_outgoing",
        "number",
        "own_number",
        "peer_handle_max",
        "peer_window",
        "pointer",
        "releases",
        "unsettled",
    )

    def __init__(self, engine: AmqpEngine, number: int, next_incoming: int, window: int) -> None:
        self.engine = engine
        self.number = number
        self.own_number = -1  # the broker's channel number; below 0 until proton has chosen it
        self.pointer: Pointer = None
        self.links: dict[int, AnyLink | None] = {}  # by the peer's handle; None: the link has ended
        self.incoming: dict[int, IncomingLink] = {}  # the links on which the peer sends
        self.is_ended = False
        # From the peer.
        self.next_incoming = next_incoming
        self.incoming_window = SESSION_FRAMES
        # To the peer.
        self.next_outgoing = 0
        self.peer_window = window
        self.peer_handle_max = MASK  # the highest handle that the peer accepts
        self.next_delivery = 0
        self.unsettled = Unsettled()
        # What is to be written.
        self.answers = Dispositions(receives=True)
        self.releases = Dispositions(receives=False)
        self.flows: dict[AnyLink, None] = {}  # links whose credit is to be told
        self.is_flow_due = False
        self.is_due = False  # in the connection's list of sessions with something to write

    def join(self, link: AnyLink, attach: LifecycleFrame) -> None:
        """Add a link that the peer attaches; the attach gives its initial delivery-count."""
        if isinstance(link, IncomingLink):
            link.delivery_count = attach.delivery_count
            self.incoming[attach.handle] = link
        self.links[attach.handle] = link
        attach.link = link
        link.channel = self
        link.handle = attach.handle

    def leave(self, handle: int) -> None:
        """Remove a link that has ended; its handle stays in use until the peer ends it, too."""
        self.links[handle] = None
        self.incoming.pop(handle, None)

    # From the peer.

    def on_transfer(self, transfer: Transfer) -> None:
        """Pass a message, or a part of it, to its link."""
        self.next_incoming = (self.next_incoming + 1) & MASK
        self.incoming_window -= 1
        if self.incoming_window * 2 < SESSION_FRAMES:
            if self.incoming_window < 0:
                cause = f"channel {self.number}: more transfers than its window has room for"
                self.engine.framing.end(self, RefusedError(cause, "window-violation"))
                return
            self.touch()
        link = self.incoming.get(transfer.handle)
        if link is not None:
            link.transferred(transfer)
        elif self.links.get(transfer.handle) is not None:
            cause = f"channel {self.number}: a transfer on a link on which the peer receives"
            raise ProtocolError(cause, "illegal-state")
        elif transfer.handle not in self.links:
            self.miss(transfer.handle)
        elif transfer.state:
            state = read_state(transfer.state, 0)
            self.engine.coordinator.spoil(state, "a message came on a link that had ended")

    def on_flow(self, data: bytes, at: int, end: int) -> None:
        """Handle a flow: the peer's windows, and perhaps the credit of one link."""
        values, _ = numbers(data, at, end, 10)
        next_incoming, window, _next, _window, handle, count, credit, _, drain, echo = values
        if window < 0:
            raise ProtocolError("a flow without a window", "decode-error")
        self.peer_window = max(0, window) - ((self.next_outgoing - max(0, next_incoming)) & MASK)
        if handle < 0:
            self.is_flow_due = self.is_flow_due or echo == 1
        elif handle not in self.links:
            self.miss(handle)
            return
        else:
            link = self.links[handle]
            if isinstance(link, OutgoingLink):
                link.flowed(max(0, count), max(0, credit), is_draining=drain == 1)
            elif link is not None and count >= 0:
                link.flowed(count)
            if link is not None and echo == 1:
                self.flows[link] = None
        if echo == 1:
            self.touch()

    def on_disposition(self, data: bytes, at: int, end: int) -> None:
        """Handle a disposition: the state of a range of deliveries."""
        values, place = numbers(data, at, end, 4)
        receives, first, last, settled = values
        if first < 0:
            raise ProtocolError("a disposition of no delivery", "decode-error")
        if last < 0:
            last = first
        self.engine.broker.turn_lengths.pieces += min(((last - first) & MASK), AT_ONCE)
        state = NO_STATE
        if place and data[place] != NULL_CODE:
            state = read_state(data, place)
        if receives != 1:
            if settled == 1:
                self._forget(first, last)
            return
        count = ((last - first) & MASK) + 1
        if count > (self.next_delivery - first) & MASK or count > HALF:
            raise ProtocolError(f"a disposition of {first} to {last}, which were not all sent")
        session = self.engine.session
        if settled == 1 and state.code == ACCEPTED:  # nearly always
            if count > AT_ONCE and session is not None:
                rows = self.unsettled.take_rows(first, count)
                self.engine.work_on(Acceptance(session, rows))
            else:
                self.unsettled.accept(first, count, self.engine.now)
        elif session is not None:
            given = Range(self.engine, self.unsettled, first, count, state, is_settled=settled == 1)
            if len(given.numbers) > FEW:
                self.engine.work_on(Settling(session, given))
            else:
                given.decide(given.numbers)
                given.end()

    # To the peer.

    def touch(self) -> None:
        """Arrange that this session's frames are written at the end of this turn."""
        if not self.is_due and not self.is_ended:
            self.is_due = True
            self.engine.framing.due.append(self)
            self.engine.has_news()

    def write(self, parts: list[bytes]) -> None:
        """Write dispositions and flows."""
        self.answers.write(self.own_number, parts)
        self.releases.write(self.own_number, parts)
        if self.is_ended:
            return
        if self.incoming_window * 2 < SESSION_FRAMES and not self._holds():
            self.is_flow_due = True
            self.incoming_window = SESSION_FRAMES
        flows, self.flows = self.flows, {}
        parts += [self.flow(link.flow_fields()) for link in flows if not link.is_ended]
        if self.is_flow_due:
            parts.append(self.flow(()))

    def flow(self, fields: tuple[bytes, ...]) -> bytes:
        """Write a flow of the session; `fields` are those of a link, or empty."""
        self.is_flow_due = False
        session = (
            uint(self.next_incoming),
            uint(self.incoming_window),
            uint(self.next_outgoing),
            uint(OUTGOING_WINDOW),
        )
        return frame_of(self.own_number, performative(FLOW, *session, *fields))

    def _holds(self) -> bool:
        """Return True if messages of this session are held back."""
        return any(link.held for link in self.incoming.values())

    def _forget(self, first: int, last: int) -> None:
        """Tell the links that the peer has settled a range of deliveries that it sent."""
        count = ((last - first) & MASK) + 1
        for link in self.incoming.values():
            if link.unsettled:
                link.settled(first, count)

    def miss(self, handle: int) -> None:
        """End the session: the peer has used a handle that no link has."""
        cause = f"channel {self.number}: no link has the handle {handle}"
        self.engine.framing.end(self, RefusedError(cause, "unattached-handle"))
