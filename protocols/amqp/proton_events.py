# Compiled by mypyc: see setup.py.
"""ProtonEvents: handles proton's events of a connection, in order.

Events tell how connections, sessions and links begin and end. They do not tell the peer's channel
number and handle. These are in `framing.current`, the frame that is being handled.

An event is removed from the list even if its handler raises, or the loop would never end. If a peer
sends data that cannot be read, its connection ends. Once a connection has ended, nothing begins on
it: a link would outlive its C memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cproton_ffi import lib
from proton import ProtonException, uint

from covey.core.errors import BrokerError, ProtocolError, RefusedError
from covey.protocols.amqp.login import sole_connection as sole
from covey.protocols.amqp.proton_wire import OPEN_FAILED, Pointer, ProtonWire, link_at, session_at
from covey.protocols.amqp.session import SESSION_FRAMES

if TYPE_CHECKING:
    from covey.protocols.amqp.engine import AmqpEngine

# A peer with a shorter idle time-out would be sent little but heart-beats. It is refused: AMQP 1.0
# section 2.4.5 asks for that if an idle time-out cannot be supported.
IDLE_TIMEOUT_MIN_S: Final = 0.1

# What proton raises for data that it cannot turn into Python values.
UNREADABLE: Final = (RecursionError, UnicodeError, ProtonException, ValueError, TypeError)


class ProtonEvents:
    """The events of one connection."""

    def __init__(self, engine: AmqpEngine, wire: ProtonWire) -> None:
        self.engine = engine
        self.wire = wire
        self.has_opened = False  # the peer has sent its open

    def walk(self) -> None:
        """Handle all waiting events."""
        events = self.wire.events
        event = lib.pn_collector_peek(events)
        while event:
            kind = lib.pn_event_type(event)
            try:
                if kind in HANDLERS and not self.engine.is_closed:
                    HANDLERS[kind](self, event)
            except BrokerError as error:
                self.engine.fail(error)
            except UNREADABLE as error:
                cause = f"unreadable data: {type(error).__name__}"
                self.engine.fail(ProtocolError(cause, "decode-error"))
            finally:
                lib.pn_collector_pop(events)
            event = lib.pn_collector_peek(events)

    def on_open(self, event: Pointer) -> None:
        """Handle the peer's open; a second one is an error."""
        if self.has_opened:
            raise ProtocolError("open on a connection that is open already")
        self.has_opened = True
        try:
            self._let_in()
        except BrokerError:
            self.wire.tell(OPEN_FAILED, True)  # so that clients do not take the open for a success
            raise
        self.wire.connection.open()

    def _let_in(self) -> None:
        connection = self.wire.connection
        # Read these before the session exists. Either may be unreadable, and then nobody would end
        # the session.
        hostname, container = connection.remote_hostname, connection.remote_container
        if container is None:
            raise ProtocolError("an open without a container-id", "decode-error")
        policy = sole.wished_policy(connection)
        idle_s = self.wire.transport.remote_idle_timeout
        if 0 < idle_s < IDLE_TIMEOUT_MIN_S:
            least_ms = int(IDLE_TIMEOUT_MIN_S * 1000)
            cause = (
                f"an idle time-out of {int(idle_s * 1000)} ms: at least {least_ms} are supported"
            )
            raise RefusedError(cause, "invalid")
        self.engine.framing.peer_number_max = self.wire.transport.remote_channel_max
        frame_max = self.wire.transport.remote_max_frame_size
        self.engine.open_session(hostname or "", container, frame_max, policy)
        if policy is not None:
            self.wire.tell(sole.ENFORCEMENT, uint(policy))

    def on_session_open(self, event: Pointer) -> None:
        """Open a session."""
        if self.engine.session is None:
            raise ProtocolError("begin on a connection that is not open", "illegal-state")
        begin = self.engine.framing.current
        assert begin is not None and begin.channel is not None
        channel = begin.channel
        channel.pointer = lib.pn_event_session(event)
        self.engine.framing.channels[channel.number] = channel
        session = session_at(channel.pointer)
        session.incoming_capacity = SESSION_FRAMES * self.engine.settings.max_frame_size
        session.open()

    def on_link_open(self, event: Pointer) -> None:
        """Open a link, or refuse it."""
        attach = self.engine.framing.current
        if self.engine.session is None or attach is None or attach.channel is None:
            return
        link = link_at(lib.pn_event_link(event))
        self.engine.links.attach(link, attach.channel, attach)

    def on_link_close(self, event: Pointer) -> None:
        """End a link for good."""
        self.engine.links.detach(link_at(lib.pn_event_link(event)), is_closed=True)

    def on_link_detach(self, event: Pointer) -> None:
        """End a link that may come back."""
        self.engine.links.detach(link_at(lib.pn_event_link(event)), is_closed=False)

    def on_session_close(self, event: Pointer) -> None:
        """End a session and its links."""
        pointer = lib.pn_event_session(event)
        self.engine.links.end_session(pointer)
        session = session_at(pointer)
        session.close()
        session.free()

    def on_close(self, event: Pointer) -> None:
        """End the connection as the peer asked."""
        self.engine.say_good_bye()

    def on_transport_error(self, event: Pointer) -> None:
        """End the connection: proton has told the peer why."""
        condition = self.wire.transport.condition
        if condition is not None:
            name, cause = condition.name, condition.description
            self.engine.report("connection_failed", condition=name, cause=cause)
        self.engine.close()

    def on_transport_end(self, event: Pointer) -> None:
        """End the connection: proton has stopped at a malformed frame, and does not answer it."""
        self.engine.fail(ProtocolError("a frame that is none of AMQP's", "framing-error"))


# The handlers are functions of the class. Bound methods would make reference cycles, which keep
# each instance and proton's buffers in memory until the garbage collector runs.
HANDLERS: Final[dict[int, Callable[[ProtonEvents, Pointer], None]]] = {
    lib.PN_CONNECTION_REMOTE_OPEN: ProtonEvents.on_open,
    lib.PN_SESSION_REMOTE_OPEN: ProtonEvents.on_session_open,
    lib.PN_LINK_REMOTE_OPEN: ProtonEvents.on_link_open,
    lib.PN_LINK_REMOTE_CLOSE: ProtonEvents.on_link_close,
    lib.PN_LINK_REMOTE_DETACH: ProtonEvents.on_link_detach,
    lib.PN_SESSION_REMOTE_CLOSE: ProtonEvents.on_session_close,
    lib.PN_CONNECTION_REMOTE_CLOSE: ProtonEvents.on_close,
    lib.PN_TRANSPORT_ERROR: ProtonEvents.on_transport_error,
    lib.PN_TRANSPORT_TAIL_CLOSED: ProtonEvents.on_transport_end,
}
