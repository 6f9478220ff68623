"""ProtonWire: proton's transport, connection and collector, joined without a socket.

Bytes go in by `push`, and come out by `pull`. The engine walks the events between. Proton makes
frames when it is asked what is pending, so `pull` is called once per batch, never per message.

Proton opens and closes connections, sessions and links, and keeps their time. Messages, credit and
settlements never reach it (`protocols.amqp.framing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cproton_ffi import ffi, lib
from proton import Collector, Condition, Connection, Link, Session, Transport, uint

from covey import __version__
from covey.config.settings import AmqpSettings
from covey.protocols.amqp.codec.performatives import CLOSE, error_of, frame_of, performative
from covey.protocols.amqp.login import sole_connection as sole

if TYPE_CHECKING:
    from proton._data import PythonAMQPData

CAPABILITIES: Final = ("ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS", sole.CAPABILITY)
OPEN_FAILED: Final = "amqp:connection-establishment-failed"  # a close follows the open at once
PEEK_SIZE: Final = 64 * 1024  # bytes taken from proton at a time; mostly there are far fewer

Pointer = Any  # a C pointer of cffi: hashed and compared by its address

_buffer: Pointer = ffi.new("char[]", PEEK_SIZE)  # one for all: it is read before anybody waits
_buffer_bytes: Any = ffi.buffer(_buffer)  # the same memory: a slice of it is a bytes object


class ProtonWire:
    """One connection's protocol engine."""

    def __init__(self, settings: AmqpSettings, container: str) -> None:
        self.transport = Transport(Transport.SERVER)
        self.transport.max_frame_size = settings.max_frame_size
        self.transport.channel_max = settings.channel_max
        if settings.idle_timeout_s:
            self.transport.idle_timeout = settings.idle_timeout_s
        self.connection = Connection()
        self.connection.container = container
        self.properties: dict[str, PythonAMQPData] = {
            "product": "covey",
            "version": __version__,
            sole.DETECTION: uint(sole.WEAK),
        }
        self.connection.offered_capabilities = list(CAPABILITIES)
        self.connection.properties = self.properties
        self.collector = Collector()
        self.connection.collect(self.collector)
        self.transport.bind(self.connection)
        self._skipped = 0  # bytes that the peer has from another
        # Kept apart: each is a call through the wrapper otherwise.
        self.events: Pointer = self.collector._impl
        self._transport: Pointer = self.transport._impl

    def push(self, data: memoryview) -> int:
        """Take what there is room for; return how many bytes, -1 when input has ended."""
        capacity: int = lib.pn_transport_capacity(self._transport)
        if capacity < 0:
            return -1
        size = min(capacity, len(data))
        return int(lib.pn_transport_push(self._transport, ffi.from_buffer(data[:size]), size))

    def pull(self) -> bytes:
        """Give the frames for the peer that there are now, all of them whole."""
        size: int = lib.pn_transport_pending(self._transport)
        if size <= 0:
            return b""
        pieces: list[bytes] = []
        while size > 0:
            taken: int = lib.pn_transport_peek(self._transport, _buffer, min(size, PEEK_SIZE))
            pieces.append(_buffer_bytes[:taken])
            lib.pn_transport_pop(self._transport, taken)
            size = lib.pn_transport_pending(self._transport)
        data = b"".join(pieces)
        if self._skipped:
            data, self._skipped = data[self._skipped :], 0  # proton gives the header first, whole
        return data

    def skip(self, count: int) -> None:
        """Leave out the first bytes for the peer: it has them."""
        self._skipped = count

    def tell(self, name: str, value: bool | uint) -> None:
        """Add a property to the open that has not left yet."""
        self.properties[name] = value
        self.connection.properties = self.properties

    def tick(self, now: float) -> float:
        """Run proton's own timers; return their next deadline, 0.0 for none."""
        return float(self.transport.tick(now))

    def close(self, condition: Condition | None) -> None:
        """Close the connection; the close frame is in what `pull` gives next."""
        if condition is not None:
            self.connection.condition = condition
        self.connection.open()  # a close frame without an open one is malformed
        self.connection.close()

    def release(self) -> None:
        """Let go of all C memory: wrappers and C objects hold each other."""
        self.transport.unbind()
        lib.pn_connection_collect(self.connection._impl, ffi.NULL)
        lib.pn_collector_release(self.events)


def close_frame(condition: Condition) -> bytes:
    """Encode a close: proton sends none before the peer has opened."""
    error = error_of(condition.name, condition.description or "")
    return frame_of(0, performative(CLOSE, error))


# Proton's `wrap` functions have no types.


def link_at(pointer: Pointer) -> Link:
    """Return a link's wrapper."""
    link: Link = Link.wrap(pointer)  # type: ignore[no-untyped-call]
    return link


def session_at(pointer: Pointer) -> Session:
    """Return a session's wrapper."""
    session: Session = Session.wrap(pointer)  # type: ignore[no-untyped-call]
    return session
