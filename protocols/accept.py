"""Accept: takes a connection from a listening socket, as a stream that reads only when asked.

anyio's own `accept` gives a stream that pauses its transport once a `receive` that had to wait has
returned. Two holes are left, and through both a peer fills memory that no limit of ours counts:

- before the first such `receive` the transport reads all that comes into a list without a bound,
  and a peer that talks fast enough never lets us wait;
- one turn of libuv reads a socket up to 32 times, 8 MiB, before any waiting task can run.

So the protocol is made here: it pauses from the start, and again at every read. What follows is
anyio's own way: the next `receive` that finds nothing resumes the transport.
"""

from __future__ import annotations

import asyncio
from typing import cast

# Not public, but the only way to give a stream a protocol of one's own.
from anyio._backends._asyncio import SocketStream as AsyncioStream
from anyio._backends._asyncio import StreamProtocol
from anyio.abc import SocketAttribute, SocketListener, SocketStream


class SingleReads(StreamProtocol):
    """Takes one piece from the socket each time somebody waits for it."""

    _transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start paused."""
        super().connection_made(transport)
        self._transport = cast(asyncio.Transport, transport)
        self._transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        """Take one piece, and no more until somebody asks."""
        self._transport.pause_reading()
        super().data_received(data)


async def accept(port: SocketListener) -> SocketStream:
    """Wait for a connection; raises OSError if the system has no room for it."""
    loop = asyncio.get_running_loop()
    raw, _ = await loop.sock_accept(port.extra(SocketAttribute.raw_socket))
    transport, protocol = await loop.connect_accepted_socket(SingleReads, raw)
    return AsyncioStream(transport, protocol)
