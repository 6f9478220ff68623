"""Floods: frames of HTTP/2 that a stranger, who never logs in, sends without end.

| flood      | what is sent                                       |
|------------|----------------------------------------------------|
| `SETTINGS` | empty settings, each of which has to be confirmed  |
| `PING`     | pings, each of which has to be answered            |
| `reset`    | requests that are cancelled as soon as they begin  |

`pour` sends one of them for a while. A connection that the broker ends is followed by the next.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, RESET, SETTINGS, PING = 1, 3, 4, 6
ENDS: Final = 5  # of a request without a body: its headers and the request itself end here
GET: Final = b"\x82\x86\x84\x41\x09localhost"  # GET / of a host, packed as RFC 7541 says
CANCEL: Final = (8).to_bytes(4, "big")
FRAMES: Final = 1000  # sent together


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big")
    return head + payload


def _settings(first: int) -> bytes:
    return _frame(SETTINGS, 0, 0, b"") * FRAMES


def _pings(first: int) -> bytes:
    return _frame(PING, 0, 0, bytes(8)) * FRAMES


def _resets(first: int) -> bytes:
    streams = range(2 * first + 1, 2 * (first + FRAMES) + 1, 2)
    return b"".join(
        [_frame(HEADERS, ENDS, each, GET) + _frame(RESET, 0, each, CANCEL) for each in streams]
    )


FLOODS: Final[dict[str, Callable[[int], bytes]]] = {
    "SETTINGS": _settings,
    "PING": _pings,
    "reset": _resets,
}


def pour(name: str, port: int, seconds: float) -> int:
    """Send a flood for a while; return how many frames the broker took."""
    taken = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 10.0) as peer:
            peer.settimeout(1.0)
            peer.sendall(PREFACE + _frame(SETTINGS, 0, 0, b""))
            first = 0
            while time.monotonic() < deadline:
                peer.sendall(FLOODS[name](first))
                first += FRAMES
                taken += FRAMES
                _drain(peer)
    return taken


def _drain(peer: socket.socket) -> None:
    """Read what has come, and do not wait for more: the broker must be able to answer."""
    with suppress(BlockingIOError):
        while peer.recv(1 << 16, socket.MSG_DONTWAIT):
            pass
