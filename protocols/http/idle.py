"""Idle: HTTP/2 connections that ask for nothing, which hypercorn would keep for ever.

hypercorn's own clock runs until a connection's first request, and again after each answer. A peer
that begins HTTP/2 without asking for anything, or that takes a request back before it is answered
(RST_STREAM), stops that clock and nothing starts it again. So whoever holds the connections looks
at them now and then: one that is without a request, and was as many requests ago, is idle.
"""

from __future__ import annotations

from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.protocol.h2 import H2Protocol

LOOK_EVERY_S = 1.0  # limits are whole seconds


class Idle:
    """Since when one connection asks for nothing."""

    __slots__ = ("_asked", "_since", "server")

    def __init__(self, server: TCPServer, now: float) -> None:
        self.server = server
        self._asked = 0
        self._since = now

    def is_over(self, now: float, limit_s: float) -> bool:
        """Say whether it has lasted for too long; one that speaks HTTP/1.1 never has, here."""
        protocol = getattr(getattr(self.server, "protocol", None), "protocol", None)
        if not isinstance(protocol, H2Protocol):
            return False
        if not protocol.idle or protocol.keep_alive_requests != self._asked:
            self._asked = protocol.keep_alive_requests
            self._since = now
        return now - self._since >= limit_s
