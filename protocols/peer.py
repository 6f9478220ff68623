"""Peer: what is known of the other end of a connection before it says a word."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass

from covey.protocols.engine import Engine


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end."""

    host: str
    port: int
    is_loopback: bool
    socket_buffer: int
    certificate_name: str | None = None

    @property
    def remote(self) -> str:
        """Name it for people."""
        return f"{self.host}:{self.port}"


MakeEngine = Callable[[Peer, float], Engine]


def is_loopback(address: str) -> bool:
    """Say whether an address is this machine's own; one that is none at all is not."""
    try:
        return ipaddress.ip_address(address.split("%")[0]).is_loopback
    except ValueError:
        return False
