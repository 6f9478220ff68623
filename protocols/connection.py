"""Connection: the one shell around every engine. All waiting for a peer happens here.

A connection has no task of its own: the event loop calls its methods. Bytes from the peer are
handed to the engine at once. The engine asks for a turn by `wake`. In that turn, all output since
the last turn is sent in one write. `protocols.wakes` says when the turn comes. The event loop is
the only lock: during a call the core sees a consistent world.

Nobody is starved: one turn of the loop reads at most one buffer of a connection. After a read that
fills its buffer (`protocols.read_buffers`) reading stops for this turn. Otherwise libuv would read
on, 32 times.

How a connection ends:
- The engine closes (an ERROR, a good-bye): the rest of its output is sent, then the peer gets time
  to read it. Closing at once would throw away what the peer has not taken yet.
- The engine raises, in its own turn or in another peer's: the exception is logged and counted, and
  the engine tells its peer in its protocol's words. If the engine raises again, the connection is
  cut off.
- The peer goes: the engine gives everything back. It does so at once, unless answers wait for the
  store. If the peer only stopped writing, the rest of the output is sent. A stream that breaks is a
  normal end.
- The peer takes nothing for too long: the roster of connections calls `watch`, because the event
  loop makes no call for a socket on which nothing happens.

`Transport` is the seam between a connection and what carries its bytes. Three things carry bytes: a
socket (asyncio's own transport, which fits as it is), TLS over one (`protocols.tls`) and a
WebSocket (`protocols.http.websocket_stream`). Each of them calls the connection's `receive`,
`eof_received`, `pause_writing`, `resume_writing` and, once and last, `connection_lost`.

Rule for all three: as long as a byte that was written waits for the peer, writing is paused. So a
peer that does not read costs two batches of memory: one in the transport, one in its engine.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol, cast

import structlog

from covey.protocols.alarm import Alarm
from covey.protocols.doorman import Doorman, Passed
from covey.protocols.engine import Engine
from covey.protocols.read_buffers import ReadBuffers
from covey.protocols.wakes import wakes_of


class Transport(Protocol):
    """Carries bytes to and from one peer; no method waits."""

    def write(self, data: bytes) -> None:
        """Send bytes, or keep them until the peer takes them."""

    def write_eof(self) -> None:
        """Send what is kept and then end the outgoing side; the peer may go on sending."""

    def close(self) -> None:
        """Send what is kept, then end the transport."""

    def abort(self) -> None:
        """End the transport at once."""

    def is_closing(self) -> bool:
        """Return True if the transport has ended or is about to."""

    def pause_reading(self) -> None:
        """Hand no more bytes to the connection."""

    def resume_reading(self) -> None:
        """Go on after `pause_reading`."""

    def get_write_buffer_size(self) -> int:
        """Count the bytes that wait for the peer."""


def _nothing(connection: Connection, former: Engine) -> None:
    """Tell nobody."""


def _nowhere(connection: Connection, passed: Passed) -> bool:
    """Pass nothing on."""
    return False


# How long a connection that has ended waits for its peer to take the last words and to close.
CLOSE_GRACE_S = 2.0
# Wait before the end: answers that the store has just released go out in the next turn.
TURN_S = 0.005
# Bytes read and thrown away meanwhile. A socket that is closed with unread bytes sends a reset, and
# the peer would lose our last words. Beyond this limit nothing more is read.
DISCARD_MAX = 1024 * 1024


class Connection(asyncio.BufferedProtocol):
    """A transport and an engine, joined."""

    __slots__ = (
        "_alarm",
        "_buffers",
        "_discarded",
        "_ended",
        "_is_blocked",
        "_is_broken",
        "_is_deaf",
        "_is_lingering",
        "_is_lost",
        "_is_reading",
        "_is_woken",
        "_loop",
        "_place",
        "_replaced",
        "_unsent",
        "_unsent_since",
        "_wakes",
        "engine",
        "log",
        "transport",
        "write_timeout_s",
    )

    def __init__(
        self,
        engine: Engine,
        log: structlog.typing.FilteringBoundLogger,
        *,
        buffers: ReadBuffers,
        write_timeout_s: float,
        ended: Callable[[Connection], None],
        replaced: Callable[[Connection, Engine], None] | None = None,
        pass_on: Callable[[Connection, Passed], bool] | None = None,
    ) -> None:
        """Wait for a transport; `buffers` may be shared, `ended` is called when all is over.

        `replaced` is called with the former engine when another engine takes its place. `pass_on`
        lets another process serve the peer, and returns False if none does.
        """
        self.transport: Transport | None = None
        self.engine = engine
        self.log = log
        self.write_timeout_s = write_timeout_s  # 0: a peer may stop reading for ever
        self._buffers = buffers
        self._place = 0  # which of the buffers is lent to the event loop
        self._ended = ended
        self._replaced = replaced or _nothing
        self._loop = asyncio.get_running_loop()
        self._wakes = wakes_of(self._loop)
        self._alarm = Alarm(self._loop, self._turn)
        self._is_woken = False
        self._is_reading = True
        self._is_blocked = False  # write nothing: the peer is slow, or its answer is delayed
        self._is_broken = False  # the engine has raised: only its last words are still sent
        self._is_deaf = False  # the peer's side has ended: nothing more will come
        self._is_lingering = False  # all is sent: the peer gets time to read and close
        self._is_lost = False
        self._unsent = 0  # bytes that wait for a slow peer
        self._unsent_since = 0.0  # when the peer last took some of them
        self._discarded = 0
        engine.wake = self.wake
        if isinstance(engine, Doorman):
            engine.replace = self.replace
            engine.pass_on = partial(pass_on or _nowhere, self)

    def replace(self, engine: Engine) -> None:
        """Go on with the engine that follows a doorman."""
        former, self.engine = self.engine, engine
        engine.wake = self.wake
        self._replaced(self, former)
        self.wake()

    def wake(self) -> None:
        """Ask for one turn of this connection, mostly after what the loop handles now."""
        if not self._is_woken:
            self._is_woken = True
            self._wakes.ask(self._turn)

    def join(self, transport: Transport) -> None:
        """Begin: a peer is there."""
        self.transport = transport
        self.wake()

    def watch(self, now: float) -> None:
        """Cut off a peer that takes nothing."""
        if not self._unsent or self.transport is None:
            return
        unsent = self.transport.get_write_buffer_size()
        if unsent < self._unsent:
            self._unsent = unsent
            self._unsent_since = now
            return
        patience_s = CLOSE_GRACE_S if self.engine.is_closed else self.write_timeout_s
        if patience_s and now >= self._unsent_since + patience_s:
            self.log.warning("peer_does_not_read", waited_s=round(now - self._unsent_since, 1))
            self.cut_off()

    def shut_down(self, reason: str) -> None:
        """Let the engine tell the peer that the broker ends the connection."""
        try:
            self.engine.shut_down(reason, time.monotonic())
        except Exception:  # as in `receive`
            self._break_off()

    def cut_off(self) -> None:
        """End the connection now, even if output is left."""
        self._lose()
        if self.transport is not None:
            self.transport.abort()

    def own_socket(self) -> socket.socket | None:
        """Return a duplicate of the socket; None if it does not carry the bytes as they are."""
        asked = getattr(self.transport, "get_extra_info", None)  # TLS and WebSockets have none
        carried = None if asked is None else asked("socket")
        return None if carried is None else socket.socket(fileno=os.dup(carried.fileno()))

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop when a plain socket is connected."""
        stream = cast(asyncio.Transport, transport)
        stream.set_write_buffer_limits(high=0)  # the rule for all transports, see above
        self.join(stream)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Lend a shared buffer: its bytes are taken before another connection can use it."""
        return self._buffers.views[self._place]

    def buffer_updated(self, nbytes: int) -> None:
        """Take the bytes in the buffer; if it was full, let other connections have their turn."""
        buffers = self._buffers
        view, began = buffers.views[self._place], time.monotonic()
        self._wakes.read(self.receive, view[:nbytes].tobytes(), began)
        if buffers.busy_poll_s:
            self._wakes.look_on(buffers.busy_poll_s, nbytes)
        if nbytes < len(view):
            self._place = self._buffers.after_part(self._place)
            return
        self._place = self._buffers.after_full(self._place, time.monotonic() - began)
        if self._is_reading and self.transport is not None:
            self._is_reading = False
            self.transport.pause_reading()
            self.wake()

    def receive(self, data: bytes) -> None:
        """Hand bytes to the engine."""
        engine = self.engine
        if engine.is_closed:
            self._discarded += len(data)
            self._steer()
            return
        try:
            engine.receive(data, time.monotonic())
        except Exception:  # the connection's edge: one peer's trouble stays its own
            self._break_off()
        if engine.reading is not self._is_reading:
            self._steer()

    def eof_received(self) -> bool:
        """Called when the peer stops writing: answers that wait for the store are still sent."""
        if self._is_lingering:
            self._is_deaf = True
            self._close()
            return True
        try:
            self.engine.when_done(self._done)
        except Exception:  # as in `receive`
            self._break_off()
        if not self._is_deaf:
            self._is_deaf = True
            self._alarm.call_instead(CLOSE_GRACE_S, self._end)
        return True

    def pause_writing(self) -> None:
        """Called when the peer is slow: the engine keeps its output."""
        assert self.transport is not None
        self._is_blocked = True
        self._unsent = self.transport.get_write_buffer_size()
        self._unsent_since = time.monotonic()

    def resume_writing(self) -> None:
        """Called when the peer has taken everything: send again."""
        self._unsent = 0
        self._is_blocked = False
        self.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the transport is gone: end the connection, whatever the reason."""
        self.transport = None
        self._is_deaf = True
        self._alarm.cancel()
        self._lose()
        self._ended(self)

    # Turns.

    def _turn(self) -> None:
        """Let the engine do what is due, send its output, and start or stop reading."""
        self._is_woken = False
        if self.transport is None:
            return
        if self._is_lingering:
            self._steer()
            return
        engine = self.engine
        alarm = self._alarm
        try:
            now = time.monotonic()
            if engine.exception is not None and not self._is_broken:
                raise engine.exception
            if alarm.is_late(now):
                alarm.put_off(now)
            elif not self._is_broken:
                deadline = engine.tick(now)
                if deadline is not None:
                    alarm.set(deadline, now)
            if not self._is_blocked:
                self._speak(self.transport)
        except Exception:  # as in `receive`
            self._break_off()
            return
        if engine.reading is not self._is_reading or engine.is_closed:
            self._steer()

    def _speak(self, transport: Transport) -> None:
        engine = self.engine
        if engine.answer_delay_s:
            self._is_blocked = True
            self._loop.call_later(engine.answer_delay_s, self.resume_writing)
            engine.answer_delay_s = 0.0
            return
        data = engine.outgoing()
        if data:
            transport.write(data)
            if engine.is_closed:
                self.wake()  # the next turn sends more output, or finds that there is none
        elif engine.is_closed:
            self._linger()

    def _steer(self) -> None:
        """Read if the engine wants to; after its end, read up to DISCARD_MAX to throw it away."""
        engine = self.engine
        wants = self._discarded <= DISCARD_MAX if engine.is_closed else engine.reading
        if wants is self._is_reading or self._is_deaf or self.transport is None:
            return
        self._is_reading = wants
        if wants:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    # The end.

    def _break_off(self) -> None:
        """Log and count the engine's exception; let the engine tell its peer, but only once."""
        was_broken, self._is_broken = self._is_broken, True
        self._note_failure()
        if was_broken:
            self.cut_off()
            return
        try:
            self.engine.break_off(time.monotonic())
        except Exception:  # output that the engine has prepared is still sent
            self._note_failure()
            self.engine.is_closed = True
        self.wake()

    def _note_failure(self) -> None:
        self.log.exception("connection_failed")
        self.engine.count_failure()

    def _done(self) -> None:
        """Called when no answer waits for the store any more."""
        if self._is_deaf:
            self._alarm.call_instead(TURN_S, self._end)
        else:
            self._end()

    def _end(self) -> None:
        """Let the engine give everything back: the peer sends nothing more."""
        self._is_deaf = True
        self._lose()
        self.wake()

    def _linger(self) -> None:
        """Let the peer read the last words before the socket is closed."""
        self._is_lingering = True
        if self._is_deaf:
            self._close()
        elif self.engine.close_delay_s:
            self._alarm.call_instead(self.engine.close_delay_s, self._say_the_end)
        else:
            self._say_the_end()

    def _say_the_end(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self._alarm.call_instead(CLOSE_GRACE_S, self.cut_off)
            with suppress(OSError):  # the peer has just gone
                self.transport.write_eof()

    def _close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def _lose(self) -> None:
        """Have the engine give everything back, once."""
        if self._is_lost:
            return
        self._is_lost = True
        self.engine.is_closed = True
        try:
            self.engine.lost(time.monotonic())
        except Exception:  # as in `receive`
            self._note_failure()
