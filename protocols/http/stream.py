"""Stream: a WebSocket of hypercorn's as a stream of bytes, and hypercorn tamed.

Where messages begin and end means nothing. What is sent is text if the peer spoke text and it is
UTF-8, else binary, so that any body can travel.

Three things hypercorn would do are not wanted, and `tame` and `let_go` take them back:
- compression: a stranger's small message could become a huge one (RFC 7692 has no limit);
- gathering a message up to one limit for all: strangers get little, what is too large is not kept
  while the peer goes on sending, and the peer is told in its protocol's words;
- waiting for a reader that has ended: what comes after the end is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
from anyio.abc import ByteStream
from hypercorn.protocol.ws_stream import WebsocketBuffer, WSStream
from starlette.types import Receive, Send
from wsproto.events import Message

QUEUE_MAX: Final = 4  # messages hypercorn keeps for us; each may be as large as a message may be
CLOSE_NORMAL: Final = 1000


class WebSocketStream(ByteStream):
    """A WebSocket as a stream of bytes."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._rest = b""  # of a message that was larger than asked for
        self._is_text = True
        self._is_gone = False  # the peer
        self._is_closed = False  # by us

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """Tell nothing of the socket, which is hypercorn's."""
        return {}

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next bytes; raises EndOfStream when the peer is gone."""
        if not self._rest:
            self._rest = await self._next_message()
        data, self._rest = self._rest[:max_bytes], self._rest[max_bytes:]
        return data

    async def send(self, item: bytes) -> None:
        """Send bytes as one message."""
        if self._is_gone or self._is_closed:
            raise anyio.BrokenResourceError
        text = _decoded(item) if self._is_text else None
        if text is None:
            await self._send({"type": "websocket.send", "bytes": item})
        else:
            await self._send({"type": "websocket.send", "text": text})

    async def send_eof(self) -> None:
        """Close: a WebSocket has no half-open state."""
        if not self._is_gone and not self._is_closed:
            self._is_closed = True
            await self._send({"type": "websocket.close", "code": CLOSE_NORMAL})

    async def aclose(self) -> None:
        """Close; what is left is hypercorn's to do once its application has returned."""
        await self.send_eof()

    async def empty(self) -> None:
        """Take what hypercorn still holds for us, so that it need not wait for a reader."""
        for _ in range(QUEUE_MAX + 1):
            with anyio.move_on_after(0):
                await self._receive()

    async def _next_message(self) -> bytes:
        data = b""
        while not data:
            if self._is_gone:
                raise anyio.EndOfStream
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                self._is_gone = True
                raise anyio.EndOfStream
            text = message.get("text")
            self._is_text = text is not None
            data = (message.get("bytes") or b"") if text is None else text.encode()
        return data


class BoundedBuffer(WebsocketBuffer):
    """A message being gathered; hypercorn's own keeps what is over the limit, and goes on."""

    def __init__(self, size_max: Callable[[], int], overflow: Callable[[], None]) -> None:
        super().__init__(size_max())
        self._size_max = size_max
        self._overflow = overflow
        self._is_over = False

    def extend(self, event: Message[Any]) -> None:
        """Take a part of a message, or of one that is too large nothing at all."""
        if not self._is_over and self.length + len(event.data) > self._size_max():
            self._is_over = True
            self.clear()
            self._overflow()
        if not self._is_over:
            self.max_length = self._size_max()
            super().extend(event)


def tame(send: Send, size_max: Callable[[], int], overflow: Callable[[], None]) -> WSStream:
    """Take back what hypercorn would do; its stream is what `send` is a method of."""
    stream = getattr(send, "__self__", None)
    assert isinstance(stream, WSStream), "hypercorn's WebSockets are the ones that were tamed"
    stream.handshake.extensions = None
    stream.buffer = BoundedBuffer(size_max, overflow)
    return stream


async def let_go(tamed: WSStream, stream: WebSocketStream) -> None:
    """Let hypercorn end it though nobody reads any more."""
    tamed.app_put = _nowhere
    await stream.empty()


async def _nowhere(message: object) -> None:
    """Take a message that nobody reads any more."""


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
