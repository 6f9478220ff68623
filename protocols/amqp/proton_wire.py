"""ProtonWire: proton's transport, connection and collector, used without a socket.

Bytes go in by `push`, and come out by `pull`. In between, the engine handles the events. Proton
makes frames when it is asked what is pending, so `pull` is called once per batch, never per
message.

Proton opens and closes connections, sessions and links, and runs their idle time-outs. Messages,
credit and settlements never reach proton (`protocols.amqp.framing`).
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
OPEN_FAILED: Final = "amqp:connection-establishment-failed"  # tells that a close follows the open
PEEK_SIZE: Final = 64 * 1024  # bytes taken from proton at a time; mostly there are far fewer

Pointer = Any  # a C pointer of cffi: hashed and compared by its address

_buffer: Pointer = ffi.new("char[]", PEEK_SIZE)  # all connections share it: it is read at once
_buffer_bytes: Any = ffi.buffer(_buffer)  # the same memory: a slice of it is a bytes object


class ProtonWire:
    """One connection's part of proton."""

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
        self._skipped = 0  # the first bytes of the output, which the peer already has
        # The C pointers are kept, because the wrapper needs a call for each access.
        self.events: Pointer = self.collector._impl
        self._transport: Pointer = self.transport._impl

    def push(self, data: memoryview) -> int:
        """Pass proton what it has room for; return the number of bytes, -1 if input has ended."""
        capacity: int = lib.pn_transport_capacity(self._transport)
        if capacity < 0:
            return -1
        size = min(capacity, len(data))
        return int(lib.pn_transport_push(self._transport, ffi.from_buffer(data[:size]), size))

    def pull(self) -> bytes:
        """Return the frames that proton has for the peer now, all of them complete."""
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
            data, self._skipped = data[self._skipped :], 0  # proton writes the whole header first
        return data

    def skip(self, count: int) -> None:
        """Leave out the first bytes of the output: the peer already has them."""
        self._skipped = count

    def tell(self, name: str, value: bool | uint) -> None:
        """Add a property to the broker's open, which has not left yet."""
        self.properties[name] = value
        self.connection.properties = self.properties

    def tick(self, now: float) -> float:
        """Run proton's own timers; return their next deadline, 0.0 if there is none."""
        return float(self.transport.tick(now))

    def close(self, condition: Condition | None) -> None:
        """Close the connection; the next `pull` returns the close frame."""
        if condition is not None:
            self.connection.condition = condition
        self.connection.open()  # a close frame must follow an open frame
        self.connection.close()

    def release(self) -> None:
        """Free all C memory: wrappers and C objects refer to each other."""
        self.transport.unbind()
        lib.pn_connection_collect(self.connection._impl, ffi.NULL)
        lib.pn_collector_release(self.events)


def close_frame(condition: Condition) -> bytes:
    """Write a close frame: proton sends none before the peer's open."""
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
