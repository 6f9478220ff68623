"""Channel: one session of the peer's: its links, its windows, what is unsettled in it.

Proton begins and ends sessions and links; everything that happens on them in between is counted
here. Each side grants the other a window of transfers, and every flow tells both. The peer may
send `SESSION_FRAMES` of them, granted anew when half is used, unless some of them have to wait.

What is to be said is gathered and written once a turn: settlements joined to ranges, then flows.

A session that was ended for what its peer did hears nothing more until the peer ends it, too.

Source: AMQP 1.0 sections 2.5.6, 2.6.7, 2.7.4 and 2.7.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covey.core.errors import ProtocolError, RefusedError
from covey.protocols.amqp.codes import NULL as NULL_CODE
from covey.protocols.amqp.dispositions import Dispositions
from covey.protocols.amqp.encoder import uint
from covey.protocols.amqp.incoming import IncomingLink
from covey.protocols.amqp.outgoing import OutgoingLink
from covey.protocols.amqp.performatives import FLOW, HALF, MASK, frame_of, numbers, performative
from covey.protocols.amqp.states import ACCEPTED, NO_STATE, read_state
from covey.protocols.amqp.transfer import Transfer
from covey.protocols.amqp.unsettled import Unsettled

if TYPE_CHECKING:
    from covey.protocols.amqp.engine import AmqpEngine
    from covey.protocols.amqp.wire import Pointer

AnyLink = IncomingLink | OutgoingLink

SESSION_FRAMES: Final = 2048  # a session's window: twice the default credit of one link
OUTGOING_WINDOW: Final = 2**31 - 1  # what we promise to send: the peer's own window is the limit


class Channel:
    """A session, by the peer's number."""

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
        "peer_window",
        "pointer",
        "releases",
        "unsettled",
    )

    def __init__(self, engine: AmqpEngine, number: int, next_incoming: int, window: int) -> None:
        self.engine = engine
        self.number = number
        self.own_number = -1  # ours, once it has begun
        self.pointer: Pointer = None
        self.links: dict[int, AnyLink | None] = {}  # by the peer's handle; None: it has ended here
        self.incoming: dict[int, IncomingLink] = {}  # those of them on which the peer sends
        self.is_ended = False
        # From the peer.
        self.next_incoming = next_incoming
        self.incoming_window = SESSION_FRAMES
        # To the peer.
        self.next_outgoing = 0
        self.peer_window = window
        self.next_delivery = 0
        self.unsettled = Unsettled()
        # What is to be said.
        self.answers = Dispositions(receives=True)
        self.releases = Dispositions(receives=False)
        self.flows: dict[AnyLink, None] = {}  # to be told of their credit
        self.is_flow_due = False
        self.is_due = False  # in the connection's list of those with something to say

    def join(self, link: AnyLink, handle: int, delivery_count: int) -> None:
        """Let a link in that the peer attaches under a handle; it counts deliveries from there."""
        if isinstance(link, IncomingLink):
            link.delivery_count = delivery_count
            self.incoming[handle] = link
        self.links[handle] = link
        self.engine.channels.joining = link
        link.channel = self
        link.handle = handle

    def leave(self, handle: int) -> None:
        """Let a link go that has ended here; its handle stays in use until the peer ends it."""
        self.links[handle] = None
        self.incoming.pop(handle, None)

    # From the peer.

    def on_transfer(self, transfer: Transfer) -> None:
        """Hand a message, or a part of it, to its link."""
        self.next_incoming = (self.next_incoming + 1) & MASK
        self.incoming_window -= 1
        if self.incoming_window * 2 < SESSION_FRAMES:
            if self.incoming_window < 0:
                cause = f"channel {self.number}: more transfers than its window has room for"
                self.engine.channels.end(self, RefusedError(cause, "window-violation"))
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

    def on_flow(self, data: bytes, at: int, end: int) -> None:
        """Hear of the peer's windows, and of the credit of one link."""
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
        """Hear what became of a range of deliveries."""
        values, place = numbers(data, at, end, 4)
        receives, first, last, settled = values
        if first < 0:
            raise ProtocolError("a disposition of no delivery", "decode-error")
        if last < 0:
            last = first
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
        if settled == 1 and state.code == ACCEPTED:  # nearly always
            self.unsettled.accept(first, count, self.engine.now)
        else:
            for number in self.unsettled.within(first, count):
                link = self.unsettled.links.get(number)
                if link is not None:
                    link.decided(number, state, is_settled=settled == 1)

    # To the peer.

    def touch(self) -> None:
        """Have what there is to say written at the end of this turn."""
        if not self.is_due and not self.is_ended:
            self.is_due = True
            self.engine.channels.due.append(self)
            self.engine.has_news()

    def write(self, parts: list[bytes]) -> None:
        """Write what there is to say, but for messages."""
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
        """Write a flow of the session, and of a link if there are fields of one."""
        self.is_flow_due = False
        session = (
            uint(self.next_incoming),
            uint(self.incoming_window),
            uint(self.next_outgoing),
            uint(OUTGOING_WINDOW),
        )
        return frame_of(self.own_number, performative(FLOW, *session, *fields))

    def _holds(self) -> bool:
        """Say whether something that came on this session has to wait."""
        return any(link.held for link in self.incoming.values())

    def _forget(self, first: int, last: int) -> None:
        """Hear that the peer has settled what it sent."""
        count = ((last - first) & MASK) + 1
        for link in self.incoming.values():
            if link.unsettled:
                link.settled(first, count)

    def miss(self, handle: int) -> None:
        """End the session: the peer has named a link that there is none of."""
        cause = f"channel {self.number}: no link has the handle {handle}"
        self.engine.channels.end(self, RefusedError(cause, "unattached-handle"))
