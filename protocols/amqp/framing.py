# Compiled by mypyc: see setup.py.
"""Framing: cuts a connection's bytes into frames, and passes each frame to its handler.

Transfers, flows and dispositions go to their session (`session`), and never to proton. Nearly all
frames are of these three kinds. Calls of proton's library for each of them would cost more than
everything else.

All other frames go to proton, one at a time, so that proton's events belong to one frame
(`LifecycleFrame`). Such a frame also tells the peer's channel number or handle. Proton's own
channel number or handle is read from proton's answer, which it gives at once.

Some frames never reach proton:
- A malformed frame ends the connection here. Proton accepts some frames that this file does not. It
  would then report links for which no frame is known here.
- A session or a link that the peer cannot number (`channel-max`, `handle-max`) is refused here.
  Proton would stop for good, without a word.

Frames that do not reach proton, and incomplete frames, are signs of life, too. Proton gets a
heart-beat for them instead.

Source: AMQP 1.0 sections 2.3, 2.5 and 2.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covey.core.errors import BrokerError, ProtocolError, RefusedError
from covey.core.jobs.turn_length import LOOK_EVERY
from covey.protocols.amqp.codec import encoder
from covey.protocols.amqp.codec.performatives import (
    ATTACH,
    BEGIN,
    CHANNEL,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    HEAD,
    HEAD_SIZE,
    NUMBER_SIZE,
    OPEN,
    TRANSFER,
    TRANSFER_STARTS,
    USUAL,
    WORD,
    code_of,
    frame_of,
    numbers,
    read_attach,
)
from covey.protocols.amqp.codec.transfer import Transfer
from covey.protocols.amqp.conditions import condition_of
from covey.protocols.amqp.login.sasl import AMQP_HEADER
from covey.protocols.amqp.proton_wire import session_at
from covey.protocols.amqp.session import AnyLink, Channel

if TYPE_CHECKING:
    from covey.protocols.amqp.engine import AmqpEngine

LIVES: Final = (BEGIN, ATTACH, DETACH, END)  # frames that begin or end sessions and links
NO_TRANSFER: Final = 8  # pieces of work (`core.jobs.turn_length`) that another frame counts for
UNREAD_MAX: Final = 4 * 1024 * 1024  # bytes of waiting answers; a proper client reads its answers


class LifecycleFrame:
    """What is known of a frame that was passed to proton, and the link that it makes.

    Proton's events do not name their frame, so the handlers of events look here.
    """

    __slots__ = ("channel", "delivery_count", "handle", "has_source", "link")

    def __init__(self, channel: Channel | None) -> None:
        self.channel = channel  # the frame's session, or the one that it begins
        # Fields of an attach; a detach has a handle, too.
        self.handle = 0
        self.delivery_count = 0
        self.has_source = False
        self.link: AnyLink | None = None  # the new link, until proton has chosen its handle


class Framing:
    """Cuts one connection's bytes into frames; knows its sessions by the peer's channel numbers."""

    def __init__(self, engine: AmqpEngine) -> None:
        self.engine = engine
        self.channels: dict[int, Channel] = {}
        self.due: list[Channel] = []  # sessions that have something to write
        self.frame_max = engine.settings.max_frame_size
        self.peer_number_max = CHANNEL  # the highest channel number that the peer accepts
        self.said: list[bytes] = []  # frames that wait to be sent
        self._unread = 0  # bytes of these frames
        self.current: LifecycleFrame | None = None  # the last frame that was passed to proton
        self._transfer = Transfer()
        self._rest = b""  # the beginning of a frame that is not complete yet
        self._has_begun = False  # the protocol's header has come
        self._is_quiet = True  # no frame was handled without proton since the last heart-beat

    def keep_tags(self) -> None:
        """From now on, read the tags of deliveries, too."""
        self._transfer.keeps_tag = True

    # From the peer.

    def keep(self, data: bytes) -> None:
        """Keep bytes for a later turn."""
        self._rest += data

    def receive(self, data: bytes) -> None:
        """Handle every frame that is complete now, as far as there is time in this turn."""
        try:
            self._receive(self._rest + data if self._rest else data)
        except BrokerError as error:
            self.engine.fail(error)

    def _receive(self, data: bytes) -> None:
        self._rest = b""
        at = 0
        if not self._has_begun:
            if len(data) < len(AMQP_HEADER):
                self._rest = data
                return
            self._has_begun = True
            at = len(AMQP_HEADER)
            self.engine.push(data[:at])
        at = len(data) if self.engine.is_closed else self._cut(data, at)
        if at < len(data):
            self._rest = data[at:]

    def _cut(self, data: bytes, at: int) -> int:
        """Handle the complete frames from `at` on; return where the first incomplete one begins."""
        engine = self.engine
        transfer = self._transfer
        end = len(data)
        size: int
        rest: int
        last = -1  # the second number of the head of the last frame
        channel: Channel | None = None  # that frame's, if it was usual
        handled = 0  # since the last look: each is a piece of work
        lengths = engine.broker.turn_lengths
        while end - at >= HEAD_SIZE and not engine.is_closed:
            if handled + lengths.pieces >= LOOK_EVERY:
                handled = 0
                if engine.is_behind or lengths.look():
                    engine.is_behind = True
                    break
            handled += 1
            following = transfer.repeats(data, at, end)
            if following:
                size = following - at
                rest = transfer.rest
            else:
                size, rest = HEAD.unpack_from(data, at)
            if rest != last:
                channel = self.channels.get(rest & CHANNEL) if rest >> 16 == USUAL else None
                last = rest
            if channel is not None and size <= self.frame_max:
                if not following and _is_transfer(data, at, size, end):
                    following = at + size
                    transfer.read(data, at + HEAD_SIZE + NUMBER_SIZE, following, rest)
                if following:
                    self._is_quiet = False
                    channel.on_transfer(transfer)
                    at = following
                    continue
            lengths.pieces += NO_TRANSFER
            following = self._handle(data, at, end)
            if following == at:
                break
            at = following
            last = -1  # its session may have ended
        if at < end or not self._is_quiet:
            self._is_quiet = True
            engine.show_life()
        return at

    def _handle(self, data: bytes, at: int, end: int) -> int:
        """Handle a frame that is not a transfer in the usual form; return where the next begins."""
        size: int
        rest: int
        size, rest = HEAD.unpack_from(data, at)
        start = WORD * (rest >> 24)
        if rest >> 16 & 0xFF or not HEAD_SIZE <= start <= size <= self.frame_max:
            raise ProtocolError("a frame that is none of AMQP's", "framing-error")
        if at + size > end:
            return at  # it is not complete
        frame = data[at : at + size]
        channel = self.channels.get(rest & CHANNEL)
        code, place = code_of(frame, start, size)
        if channel is None or code not in (TRANSFER, FLOW, DISPOSITION):
            if place - start > NUMBER_SIZE:  # proton does not read all forms of the code
                frame = frame_of(rest & CHANNEL, encoder.section(code, frame[place:]))
                place = HEAD_SIZE + NUMBER_SIZE
            self._pass_on(channel, rest & CHANNEL, frame, code, place)
            return at + size
        self._is_quiet = False
        if channel.is_ended:
            return at + size
        if code == TRANSFER:
            self._transfer.read(frame, place, size)
            channel.on_transfer(self._transfer)
        elif code == FLOW:
            channel.on_flow(frame, place, size)
        else:
            channel.on_disposition(frame, place, size)
        return at + size

    def _pass_on(
        self, channel: Channel | None, number: int, frame: bytes, code: int, place: int
    ) -> None:
        """Pass a frame to proton, mostly one that begins or ends a session or a link."""
        current = self.current = LifecycleFrame(channel)
        size = len(frame)
        if code == OPEN and number:
            raise ProtocolError(f"open on channel {number}, not 0", "framing-error")
        if code == BEGIN:
            if channel is not None:
                cause = f"begin on channel {number}, which has a session already"
                raise ProtocolError(cause, "illegal-state")
            if len(self.channels) > self.peer_number_max:
                cause = (
                    f"begin on channel {number}: the peer takes {len(self.channels)} sessions only"
                )
                raise RefusedError(cause, "limit")
            values, _ = numbers(frame, place, size, 5)
            if min(values[1:4]) < 0:
                cause = "a begin without next-outgoing-id, incoming-window and outgoing-window"
                raise ProtocolError(cause, "decode-error")
            current.channel = Channel(self.engine, number, values[1], values[2])
            if values[4] >= 0:
                current.channel.peer_handle_max = values[4]
        elif code == ATTACH and channel is not None:
            attach = read_attach(frame, place, size)
            current.handle, current.delivery_count, current.has_source = attach
            if current.handle in channel.links:
                cause = f"channel {number}: a link has the handle {current.handle} already"
                self.end(channel, RefusedError(cause, "handle-in-use"))
            elif len(channel.links) > channel.peer_handle_max:
                cause = f"channel {number}: the peer takes {len(channel.links)} links only"
                self.end(channel, RefusedError(cause, "limit"))
        elif code == DETACH and channel is not None:
            current.handle = numbers(frame, place, size, 1)[0][0]
            if current.handle not in channel.links:
                channel.miss(current.handle)
        if channel is not None and channel.is_ended and code in (ATTACH, DETACH):
            return
        if code in LIVES:
            self._exchange(frame)
        else:
            self.engine.push(frame)
        if channel is not None and code == DETACH:
            channel.links.pop(current.handle, None)
        elif channel is not None and code == END:
            channel.is_ended = True
            del self.channels[number]

    def _exchange(self, frame: bytes) -> None:
        """Pass a frame to proton, and take the answer at once: then it belongs to this frame.

        Frames of a session or a link are written before proton's frame that ends it.
        """
        parts: list[bytes] = []
        self.write(parts)
        self.engine.push(frame)
        self.pull(parts)
        self.said += parts
        self._unread += sum([len(part) for part in parts])
        if self._unread > UNREAD_MAX:
            cause = f"more than {UNREAD_MAX} bytes of answers wait to be read"
            self.engine.fail(RefusedError(cause, "limit"))

    # To the peer.

    def take(self) -> list[bytes]:
        """Return the frames that were written while the peer's frames were handled."""
        self._unread = 0
        said, self.said = self.said, []
        return said

    def write(self, parts: list[bytes]) -> None:
        """Write the sessions' dispositions and flows."""
        due, self.due = self.due, []
        for channel in due:
            channel.is_due = False
            channel.write(parts)

    def pull(self, parts: list[bytes]) -> None:
        """Write the frames that proton has for the peer."""
        engine = self.engine
        data = b"" if engine.wire is None else engine.wire.pull()
        engine.walk()
        if data:
            engine.is_proton_due = True
            self._learn(data, parts)

    def _learn(self, frames: bytes, parts: list[bytes]) -> None:
        """Read from proton's answer which channel or handle it has chosen; write its frames.

        Proton knows nothing of windows and credit. So the flow that it writes after each begin is
        wrong, and is left out.
        """
        current = self.current
        at = len(AMQP_HEADER) if frames.startswith(AMQP_HEADER[:4]) else 0
        parts.append(frames[:at])
        while len(frames) - at >= HEAD_SIZE:
            size, rest = HEAD.unpack_from(frames, at)
            code, place = code_of(frames, at + WORD * (rest >> 24), at + size)
            if current is None:
                pass  # the peer has sent its header, and no frame yet
            elif code == BEGIN and current.channel is not None:
                current.channel.own_number = rest & CHANNEL
            elif code == ATTACH and current.link is not None:
                current.link.attached(read_attach(frames, place, at + size)[0])
                current.link = None
            if code != FLOW:
                parts.append(frames[at : at + size])
            at += size

    # Endings.

    def end(self, channel: Channel, error: BrokerError) -> None:
        """End a session because of its peer's error, and tell the peer why; do so once."""
        if channel.is_ended:
            return
        self.engine.report("session_ended", code=error.code, cause=error.text)
        channel.is_ended = True
        self.engine.links.end_session(channel.pointer)
        session = session_at(channel.pointer)
        session.condition = condition_of(error)
        session.close()
        self.engine.has_news()

    def renew(self) -> None:
        """Renew the windows that were not renewed while the connection was blocked."""
        for channel in self.channels.values():
            channel.touch()


def _is_transfer(data: bytes, at: int, size: int, end: int) -> bool:
    """Return True if the frame at `at` is complete and a transfer in the usual form."""
    following = at + size
    return following <= end and data.startswith(TRANSFER_STARTS, at + HEAD_SIZE, following)
