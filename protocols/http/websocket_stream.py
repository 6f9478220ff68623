"""Stream: a WebSocket of hypercorn's as a transport of bytes, and what hypercorn must not do.

hypercorn's WebSockets are awaited, so each has two tasks. One hands incoming bytes to the
connection, the other sends what was written. Where messages begin and end means nothing. Output is
sent as text if the peer sent text and the bytes are UTF-8. Else it is sent as binary, so that any
body can travel.

hypercorn would do four things that are not wanted. `tame` and `let_go` prevent them:
- It compresses. A stranger's small message could become a huge one (RFC 7692 has no limit).
- It gathers a message up to one limit for all. But strangers get a smaller limit. A message that is
  too large must not be kept while the peer goes on sending. The peer is told in its protocol's
  words.
- It does not report bytes until a message is whole. But a peer with a slow upload is not dead.
- It waits for a reader that has ended. Here bytes that come after the end are thrown away.

hypercorn closes idle connections by a timer of its own. The timer runs until a connection's first
request, and again after each answer. Some peers stop that timer, and nothing starts it again:
- a peer that begins HTTP/2 and asks for nothing, or takes its request back (RST_STREAM);
- a peer whose WebSocket has ended, or was refused since the peer talked before it was let in. Such
  a peer neither closes nor is closed.

hypercorn would keep these connections for ever. So `protocols.http.server` checks them now and
then. A connection is idle if it has no open request, and had no new one since the last check.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any, Final

import anyio
from anyio.lowlevel import checkpoint
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.protocol.events import Event
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.protocol.ws_stream import WebsocketBuffer, WSStream
from starlette.types import Receive, Send
from wsproto.events import Message

from covey.protocols.connection import Connection

QUEUE_MAX: Final = 4  # messages hypercorn keeps for us; each may have the largest allowed size
CLOSE_NORMAL: Final = 1000
# Bytes sent as one message. A peer shows that it reads by taking such a piece. So a large message
# over a slow line shows progress.
WRITE_SIZE: Final = 256 * 1024


class WebSocketTransport:
    """A WebSocket that carries the bytes of a connection."""

    def __init__(
        self, receive: Receive, send: Send, connection: Connection, *, read_size: int
    ) -> None:
        self._receive = receive
        self._send = send
        self._connection = connection
        self._read_size = read_size
        self._rest = memoryview(b"")  # bytes still to be sent
        self._scope = anyio.CancelScope()
        self._awake = anyio.Event()  # there is something to send
        self._resumed = anyio.Event()
        self._resumed.set()
        self._is_text = True
        self._is_gone = False  # the peer is gone
        self._is_ending = False  # a close is to be sent after the rest
        self._is_told = False  # the close was sent
        self._is_closing = False

    async def serve(self) -> None:
        """Carry bytes until either side ends it."""
        self._connection.join(self)
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._read)
                    await self._write()
                    tasks.cancel_scope.cancel()
        except Exception:  # one peer's trouble stays its own; exception groups, too
            self._connection.log.exception("connection_failed")
            self._connection.engine.count_failure()
        finally:
            self._is_closing = True
            self._connection.connection_lost(None)

    # The connection's side.

    def write(self, data: bytes) -> None:
        """Have bytes sent, as one message if they are not too many."""
        if not self._is_gone:
            self._rest = memoryview(data)
            self._connection.pause_writing()
            self._awake.set()

    def write_eof(self) -> None:
        """Send a close after the rest: a WebSocket has no half-open state."""
        self._is_ending = True
        self._awake.set()

    def close(self) -> None:
        """Send a close and end the transport; hypercorn does the rest."""
        self._is_closing = True
        self.write_eof()

    def abort(self) -> None:
        """End the transport without a close."""
        self._is_closing = True
        self._scope.cancel()

    def is_closing(self) -> bool:
        """Return True if the transport has ended or is about to."""
        return self._is_closing

    def pause_reading(self) -> None:
        """Hand no more bytes to the connection."""
        self._resumed = anyio.Event()

    def resume_reading(self) -> None:
        """Go on."""
        self._resumed.set()

    def get_write_buffer_size(self) -> int:
        """Count the bytes that wait for the peer."""
        return len(self._rest)

    # The two tasks.

    async def _read(self) -> None:
        while not self._is_gone:
            data = memoryview(await self._next_message())
            while data:
                await self._resumed.wait()
                self._connection.receive(data[: self._read_size].tobytes())
                data = data[self._read_size :]
                await checkpoint()  # so that others get their turn, however much there is
        self._connection.eof_received()

    async def _next_message(self) -> bytes:
        await self._resumed.wait()
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            self._is_gone = True
            return b""
        text = message.get("text")
        self._is_text = text is not None
        return (message.get("bytes") or b"") if text is None else text.encode()

    async def _write(self) -> None:
        while True:
            if self._rest:
                await self._send_rest()
                self._connection.resume_writing()
            if self._is_ending and not self._is_gone and not self._is_told:
                self._is_told = True
                await self._send({"type": "websocket.close", "code": CLOSE_NORMAL})
            if self._is_closing:
                return
            await self._awake.wait()
            self._awake = anyio.Event()

    async def _send_rest(self) -> None:
        while self._rest and not self._is_gone:
            piece = self._rest[:WRITE_SIZE].tobytes()
            is_last = len(piece) == len(self._rest)
            text, length = _decoded(piece, is_last=is_last) if self._is_text else (None, 0)
            if text is None:
                length = len(piece)
                await self._send({"type": "websocket.send", "bytes": piece})
            else:
                await self._send({"type": "websocket.send", "text": text})
            self._rest = self._rest[length:]
        self._rest = memoryview(b"")


class BoundedBuffer(WebsocketBuffer):
    """A message being gathered, up to the limit; hypercorn's own buffer keeps what is beyond."""

    def __init__(self, size_max: Callable[[], int], overflow: Callable[[], None]) -> None:
        super().__init__(size_max())
        self._size_max = size_max
        self._overflow = overflow
        self._is_over = False

    def extend(self, event: Message[Any]) -> None:
        """Take a part of a message; take nothing of a message that is too large."""
        if not self._is_over and self.length + len(event.data) > self._size_max():
            self._is_over = True
            self.clear()
            self._overflow()
        if not self._is_over:
            self.max_length = self._size_max()
            super().extend(event)


def tame(
    send: Send,
    size_max: Callable[[], int],
    overflow: Callable[[], None],
    sign_of_life: Callable[[], None],
) -> WSStream:
    """Prevent what hypercorn would do; hypercorn's stream is the object that `send` belongs to."""
    stream = getattr(send, "__self__", None)
    assert isinstance(stream, WSStream), "hypercorn's WebSockets are the ones that were tamed"
    stream.handshake.extensions = None
    stream.buffer = BoundedBuffer(size_max, overflow)
    handle = stream.handle

    async def hear(event: Event) -> None:
        sign_of_life()
        await handle(event)

    stream.handle = hear  # type: ignore[method-assign]
    return stream


async def let_go(tamed: WSStream, receive: Receive) -> None:
    """Let hypercorn end the stream: take and forget the messages that it still holds for us."""
    tamed.app_put = _nowhere
    for _ in range(QUEUE_MAX + 1):
        with anyio.move_on_after(0):
            await receive()


async def _nowhere(message: object) -> None:
    """Take a message that nobody reads any more."""


def _decoded(data: bytes, *, is_last: bool) -> tuple[str | None, int]:
    """Return the text, and how many bytes it took; half a character waits for its other half."""
    try:
        return codecs.utf_8_decode(data, "strict", is_last)
    except UnicodeDecodeError:
        return None, 0


LOOK_EVERY_S: Final = 1.0  # limits are whole seconds


class Idle:
    """For how long one connection has been idle."""

    __slots__ = ("_asked", "_since", "server")

    def __init__(self, server: TCPServer, now: float) -> None:
        self.server = server
        self._asked = 0
        self._since = now

    def measure(self, now: float) -> float:
        """Check the connection; return for how many seconds it has been idle."""
        asked = requests_of(self.server)
        if asked != self._asked or not _asks_nothing(_protocol_of(self.server)):
            self._asked = asked
            self._since = now
        return now - self._since


def requests_of(server: TCPServer) -> int:
    """Return how many requests a connection has made, those that it took back among them."""
    return getattr(_protocol_of(server), "keep_alive_requests", 0)


def _protocol_of(server: TCPServer) -> object:
    """Return what hypercorn speaks on a connection."""
    wrapper = getattr(server, "protocol", None)  # missing until the server has begun
    return getattr(wrapper, "protocol", None)


def _asks_nothing(protocol: object) -> bool:
    """Return True if this is one of the idle connections that hypercorn would keep for ever."""
    if isinstance(protocol, H2Protocol):
        return protocol.idle
    if isinstance(protocol, H11Protocol) and isinstance(protocol.stream, WSStream):
        return protocol.stream.closed or protocol.stream.idle
    return False
