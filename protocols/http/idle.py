"""Idle: connections that ask for nothing any more, which hypercorn would keep for ever.

hypercorn's own clock runs until a connection's first request, and again after each answer. Some
peers stop it, and nothing starts it again:

- one that begins HTTP/2 and asks for nothing, or takes its request back (RST_STREAM);
- one whose WebSocket has ended, or was refused since it talked before it was let in, and who
  neither closes nor is closed.

So whoever holds the connections looks at them now and then: one that is without a request, and was
as many requests ago, is idle.
"""

from __future__ import annotations

from typing import Final

from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.protocol.ws_stream import WSStream

LOOK_EVERY_S: Final = 1.0  # limits are whole seconds


class Idle:
    """Since when one connection asks for nothing."""

    __slots__ = ("_asked", "_since", "server")

    def __init__(self, server: TCPServer, now: float) -> None:
        self.server = server
        self._asked = 0
        self._since = now

    def is_over(self, now: float, limit_s: float) -> bool:
        """Say whether it has lasted for too long."""
        wrapper = getattr(self.server, "protocol", None)  # not before it has begun
        protocol = getattr(wrapper, "protocol", None)
        asked = getattr(protocol, "keep_alive_requests", 0)
        if asked != self._asked or not _asks_nothing(protocol):
            self._asked = asked
            self._since = now
        return now - self._since >= limit_s


def _asks_nothing(protocol: object) -> bool:
    """Say whether it is one of those that hypercorn forgets."""
    if isinstance(protocol, H2Protocol):
        return protocol.idle
    if isinstance(protocol, H11Protocol) and isinstance(protocol.stream, WSStream):
        return protocol.stream.closed or protocol.stream.idle
    return False
