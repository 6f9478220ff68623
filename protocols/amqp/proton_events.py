# Compiled by mypyc: see setup.py.
"""ProtonEvents: what proton reports of a connection, walked in order.

Events tell how connections, sessions and links begin and end. They do not tell which channel and
which handle the peer has used: `framing.current` does, which is the frame at hand.

An event is taken off the list whatever happens to it, or the walk would never end. A peer may send
what nobody can read: then its connection ends. Once a connection has ended, for whatever reason,
nothing begins on it: a link would outlive its memory.
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

# A peer that asks for a sign of life more often would be sent little else: it is refused, as AMQP
# 1.0 section 2.4.5 asks of whoever cannot support an idle time-out.
IDLE_TIMEOUT_MIN_S: Final = 0.1

# What proton raises for data that it cannot hand to Python.
UNREADABLE: Final = (RecursionError, UnicodeError, ProtonException, ValueError, TypeError)


class ProtonEvents:
    """The events of one connection."""

    def __init__(self, engine: AmqpEngine, wire: ProtonWire) -> None:
        self.engine = engine
        self.wire = wire
        self.has_opened = False  # the peer has

    def walk(self) -> None:
        """Handle all events there are."""
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
        """Let the peer in, once."""
        if self.has_opened:
            raise ProtocolError("open on a connection that is open already")
        self.has_opened = True
        try:
            self._let_in()
        except BrokerError:
            self.wire.tell(OPEN_FAILED, True)  # clients need not take the open for a success
            raise
        self.wire.connection.open()

    def _let_in(self) -> None:
        connection = self.wire.connection
        # Read before the session exists: either may be unreadable, and nobody would end it then.
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
        """End the connection: a frame was none, which proton itself does not answer."""
        self.engine.fail(ProtocolError("a frame that is none of AMQP's", "framing-error"))


# Of the class, not of each of its instances: those would hold themselves, and proton's buffers,
# until the collector looks for such circles.
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
