"""Connection: the one shell around every engine. All waiting for a peer happens here.

Two tasks: the reader feeds the engine, the writer sends what it gives and keeps its time. The
event loop is the only lock; between two awaits the core sees a consistent world.

How it ends:
- The engine closes (an ERROR, a good-bye): the *writer* sends what is left, then lets the peer
  read it. Closing at once would throw away what the peer has not taken yet.
- The peer goes: the engine gives everything back, at once unless answers wait for the store; what
  is left is sent if the peer only stopped writing. A stream that breaks while sending is a normal
  end.
- The peer takes nothing for too long: whoever holds all connections calls `watch`, because a
  writer that waits for its peer cannot look at a clock, neither for heart-beats nor for itself.
"""

from __future__ import annotations

import time
from contextlib import suppress

import anyio
import structlog
from anyio.abc import ByteStream

from covey.protocols.engine import Engine

BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)

# Bytes given to the socket at once. A peer shows that it reads by taking them, so that a large
# message over a slow line is progress, not silence.
WRITE_SIZE = 256 * 1024
# How long a connection that has ended waits for its peer to take the last words and to close.
CLOSE_GRACE_S = 2.0
# What the store has just made visible is delivered in the turn after.
TURN_S = 0.005
# Bytes read and thrown away meanwhile, so that closing does not reset what the peer has yet to
# read; one that goes on talking beyond it talks to a wall.
DISCARD_MAX = 1024 * 1024


class Connection:
    """A stream and an engine, joined."""

    def __init__(
        self,
        stream: ByteStream,
        engine: Engine,
        log: structlog.typing.FilteringBoundLogger,
        *,
        read_size: int,
        write_timeout_s: float,
    ) -> None:
        self.stream = stream
        self.engine = engine
        self.log = log
        self.read_size = read_size
        self.write_timeout_s = write_timeout_s  # 0: a peer may stop reading for ever
        self._awake = anyio.Event()
        self._resumed = anyio.Event()
        self._ended = anyio.Event()  # the peer's side: nothing more will come
        self._scope = anyio.CancelScope()
        self._deadline: float | None = None
        self._sending_since = 0.0  # 0: the writer does not wait for the peer
        self._is_lost = False
        engine.wake = self.wake

    def wake(self) -> None:
        """Have the writer look at the engine."""
        self._awake.set()

    async def serve(self) -> None:
        """Serve the peer until either side ends it."""
        try:
            async with anyio.create_task_group() as tasks:
                self._scope = tasks.cancel_scope
                tasks.start_soon(self._read)
                await self._write()
                await self._linger()
                tasks.cancel_scope.cancel()
        finally:
            self._lose()
            with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                await anyio.aclose_forcefully(self.stream)

    def watch(self, now: float) -> None:
        """Keep the time of a writer that waits for its peer, and cut off one that never reads."""
        if not self._sending_since:
            return
        is_due = self._deadline is not None and now >= self._deadline
        if is_due or self._awake.is_set():  # the engine has called, and the writer cannot come
            self._deadline = self.engine.tick(now)
        patience_s = CLOSE_GRACE_S if self.engine.is_closed else self.write_timeout_s
        if patience_s and now >= self._sending_since + patience_s:
            self.log.warning("peer_does_not_read", waited_s=round(now - self._sending_since, 1))
            self._scope.cancel()

    async def _read(self) -> None:
        engine = self.engine
        discarded = 0
        while discarded <= DISCARD_MAX:
            if not engine.reading and not engine.is_closed:
                await self._until_reading()
                continue
            try:
                data = await self.stream.receive(self.read_size)
            except anyio.EndOfStream:
                await self._hear_out()
                self._end()
                return
            except BROKEN:
                self._end()
                return
            if engine.is_closed:
                discarded += len(data)
                continue
            try:
                engine.receive(data, time.monotonic())
            except Exception:  # the connection's edge: one peer's trouble stays its own
                self.log.exception("connection_failed")
                self._end()
                return

    async def _hear_out(self) -> None:
        """Let a peer that only stopped writing have the answers that wait for the store."""
        done = anyio.Event()
        self.engine.when_done(done.set)
        if not done.is_set():
            with anyio.move_on_after(CLOSE_GRACE_S):
                await done.wait()
                await anyio.sleep(TURN_S)

    def _end(self) -> None:
        self._ended.set()
        self._lose()
        self.wake()

    async def _until_reading(self) -> None:
        self._resumed = anyio.Event()
        await self._resumed.wait()

    async def _write(self) -> None:
        """Send and keep time until the engine has closed and said its last."""
        engine = self.engine
        self._deadline = engine.tick(time.monotonic())
        while True:
            data = engine.outgoing()
            if engine.answer_delay_s:
                await anyio.sleep(engine.answer_delay_s)
                engine.answer_delay_s = 0.0
            if data:
                try:
                    await self._send(data)
                except BROKEN:
                    return
            elif engine.is_closed:
                return
            else:
                await self._sleep()
            self._deadline = engine.tick(time.monotonic())
            if engine.reading:
                self._resumed.set()

    async def _send(self, data: bytes) -> None:
        self._sending_since = time.monotonic()
        if len(data) <= WRITE_SIZE:
            await self.stream.send(data)
        else:
            for start in range(0, len(data), WRITE_SIZE):
                self._sending_since = time.monotonic()
                await self.stream.send(data[start : start + WRITE_SIZE])
        self._sending_since = 0.0

    async def _sleep(self) -> None:
        """Wait for the engine's call or its deadline."""
        if self._deadline is None:
            await self._awake.wait()
        else:
            with anyio.move_on_after(max(0.0, self._deadline - time.monotonic())):
                await self._awake.wait()
        self._awake = anyio.Event()

    async def _linger(self) -> None:
        """Let the peer read the last words before the socket goes."""
        self._resumed.set()  # the reader waits for the peer's end from now on
        with anyio.move_on_after(self.engine.close_delay_s):
            await self._ended.wait()
            return
        with suppress(RuntimeError, *BROKEN):  # RuntimeError: uvloop's word for a closed one
            await self.stream.send_eof()
        with anyio.move_on_after(CLOSE_GRACE_S):
            await self._ended.wait()

    def _lose(self) -> None:
        """Have the engine give everything back, once."""
        if not self._is_lost:
            self._is_lost = True
            self.engine.is_closed = True
            self.engine.lost(time.monotonic())
