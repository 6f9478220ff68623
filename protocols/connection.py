"""Connection: the one shell around every engine. All waiting for a peer happens here.

No task belongs to a connection: the event loop calls. What comes is handed to the engine at once.
What the engine has to say goes out in a turn, which its `wake` asks for: one joined write for all
that was said since the last one. The event loop is the only lock; during a call the core sees a
consistent world.

Nobody is starved: one turn of the loop reads a buffer's worth of a connection, no more. A read that
fills its buffer (`protocols.read_buffers`) stops reading, for libuv would go on 32 times otherwise.

How it ends:
- The engine closes (an ERROR, a good-bye): what is left is sent, then the peer gets time to read
  it. Closing at once would throw away what the peer has not taken yet.
- The engine raises, in its own turn or in another peer's: that is logged and counted, and the
  engine says so to its peer, in its protocol's words. If it fails at that, too, the connection is
  cut off.
- The peer goes: the engine gives everything back, at once unless answers wait for the store; what
  is left is sent if the peer only stopped writing. A stream that breaks is a normal end.
- The peer takes nothing for too long: whoever holds all connections calls `watch`, because no call
  comes from a socket on which nothing happens.

`Transport` is the seam between a connection and what carries its bytes. Three things carry bytes: a
socket (asyncio's own transport, which fits as it is), TLS over one (`protocols.tls`) and a
WebSocket (`protocols.http.websocket_stream`). Each of them calls the connection's `receive`,
`eof_received`, `pause_writing`, `resume_writing` and, once and last, `connection_lost`.

Rule for all three: as long as a byte that was written waits for the peer, writing is paused. So a
peer that does not read costs one batch of its engine's here, and one that waits in the engine.
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


class Transport(Protocol):
    """Carries bytes to and from one peer; no method waits."""

    def write(self, data: bytes) -> None:
        """Send bytes, or keep them until the peer takes them."""

    def write_eof(self) -> None:
        """Send what is kept and then the end; the peer may go on talking."""

    def close(self) -> None:
        """Send what is kept and end it."""

    def abort(self) -> None:
        """End it at once."""

    def is_closing(self) -> bool:
        """Return True if it is ended, or about to be."""

    def pause_reading(self) -> None:
        """Hand in nothing more."""

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
# What the store has just made visible is delivered in the turn after.
TURN_S = 0.005
# Bytes read and thrown away meanwhile, so that closing does not reset what the peer has yet to
# read; one that goes on talking beyond it talks to a wall.
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

        `replaced` hears which engine another one has followed. `pass_on` has another process serve
        the peer, and returns False if none does.
        """
        self.transport: Transport | None = None
        self.engine = engine
        self.log = log
        self.write_timeout_s = write_timeout_s  # 0: a peer may stop reading for ever
        self._buffers = buffers
        self._place = 0  # among the buffers, of the one that is lent
        self._ended = ended
        self._replaced = replaced or _nothing
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm(self._loop, self._turn)
        self._is_woken = False
        self._is_reading = True
        self._is_blocked = False  # nothing may be written: the peer is slow, or has to wait
        self._is_broken = False  # the engine has raised: only its last words are asked for
        self._is_deaf = False  # the peer's side has ended: nothing more will come
        self._is_lingering = False  # all is said
        self._is_lost = False
        self._unsent = 0  # bytes that wait for a slow peer
        self._unsent_since = 0.0  # when the peer last took one
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
        """Have the engine looked at, once, when all that happens now has happened."""
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._turn)

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
        """Have the engine take its leave."""
        try:
            self.engine.shut_down(reason, time.monotonic())
        except Exception:  # as in `receive`
            self._break_off()

    def cut_off(self) -> None:
        """End it now, whatever is left to say."""
        self._lose()
        if self.transport is not None:
            self.transport.abort()

    def own_socket(self) -> socket.socket | None:
        """Return the socket that carries the bytes, once more; None if it carries no plain ones."""
        asked = getattr(self.transport, "get_extra_info", None)  # TLS and WebSockets have none
        carried = None if asked is None else asked("socket")
        return None if carried is None else socket.socket(fileno=os.dup(carried.fileno()))

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hear from the loop of a plain socket."""
        stream = cast(asyncio.Transport, transport)
        stream.set_write_buffer_limits(high=0)  # the rule of `protocols.connection`
        self.join(stream)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Lend a buffer: it is read before anybody else can use it."""
        return self._buffers.views[self._place]

    def buffer_updated(self, nbytes: int) -> None:
        """Take what the socket has given, and let others have their turn after a full buffer."""
        view, began = self._buffers.views[self._place], time.monotonic()
        self.receive(view[:nbytes].tobytes())
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
        """Let a peer that only stopped writing have the answers that wait for the store."""
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
        """Let the engine keep what it has to say: the peer is slow."""
        assert self.transport is not None
        self._is_blocked = True
        self._unsent = self.transport.get_write_buffer_size()
        self._unsent_since = time.monotonic()

    def resume_writing(self) -> None:
        """Go on: the peer has taken everything."""
        self._unsent = 0
        self._is_blocked = False
        self.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """End it: the transport is gone, why does not matter."""
        self.transport = None
        self._is_deaf = True
        self._alarm.cancel()
        self._lose()
        self._ended(self)

    # Turns.

    def _turn(self) -> None:
        """Let the engine do what is due, send what it has to say, and read on or not."""
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
                self.wake()  # for what it says after that, or to see that it was the last
        elif engine.is_closed:
            self._linger()

    def _steer(self) -> None:
        """Read if the engine does, or while there is something to throw away."""
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
        """Log and count what the engine has raised, and let it say so to the peer, once."""
        was_broken, self._is_broken = self._is_broken, True
        self._note_failure()
        if was_broken:
            self.cut_off()
            return
        try:
            self.engine.break_off(time.monotonic())
        except Exception:  # what it has found to say is still said
            self._note_failure()
            self.engine.is_closed = True
        self.wake()

    def _note_failure(self) -> None:
        self.log.exception("connection_failed")
        self.engine.count_failure()

    def _done(self) -> None:
        """Hear that no answer waits for the store any more."""
        if self._is_deaf:
            self._alarm.call_instead(TURN_S, self._end)
        else:
            self._end()

    def _end(self) -> None:
        """Let go of everything: nothing more will come."""
        self._is_deaf = True
        self._lose()
        self.wake()

    def _linger(self) -> None:
        """Let the peer read the last words before the socket goes."""
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
            with suppress(OSError):  # the peer has gone a moment ago
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
