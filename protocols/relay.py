"""Relay: the engine of a connection whose bytes are copied to and from another process.

A relay takes the place of a protocol's engine and interprets nothing: the peer's bytes go upstream
to the owner, the owner's bytes go to the peer. If one side is slow, the other side is not read:
more than PAUSE_SIZE bytes that wait for the peer stop reading from the owner.

How it ends: when the owner closes, the peer gets the rest and is closed. When the peer has only
stopped writing, the owner is told so, and its last answers still go out. TLS cannot tell it: there
the answers go out until the connection's patience ends. When the peer is gone, the upstream is
closed, and the owner sees a connection that broke.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from covey.protocols.engine import Engine, Log

if TYPE_CHECKING:
    from covey.core.broker.directory import Directory

PAUSE_SIZE: Final = 256 * 1024  # bytes that wait for the peer while the owner has more


class Upstream(asyncio.Protocol):
    """The connection to the owner, as the event loop sees it."""

    def __init__(self, relay: Relay) -> None:
        self.transport: asyncio.Transport | None = None
        self._relay = relay

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin: the owner is there."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Take what the owner says."""
        self._relay.heard(data)

    def pause_writing(self) -> None:
        """Called when the owner does not read: stop reading from the peer."""
        self._relay.steer(is_reading=False)

    def resume_writing(self) -> None:
        """Go on."""
        self._relay.steer(is_reading=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the owner has closed or is gone: end the relay."""
        self.transport = None
        self._relay.ended()


class Relay(Engine):
    """Copies bytes between a peer and the owner of its virtual host."""

    def __init__(self, remote: str, log: Log, directory: Directory) -> None:
        super().__init__(remote, log)
        self.is_stranger = False  # the owner counts it
        self.upstream = Upstream(self)
        self._directory = directory
        self._waiting: list[bytes] = []
        self._size = 0
        self._done: Callable[[], None] | None = None

    # The owner's side.

    def heard(self, data: bytes) -> None:
        """Keep the owner's bytes until the peer takes them."""
        self._waiting.append(data)
        self._size += len(data)
        if self._size > PAUSE_SIZE and self.upstream.transport is not None:
            self.upstream.transport.pause_reading()
        self.wake()

    def steer(self, *, is_reading: bool) -> None:
        """Start or stop reading from the peer."""
        self.reading = is_reading
        self.wake()

    def ended(self) -> None:
        """Called when the owner has sent everything: close."""
        done, self._done = self._done, None
        if done is not None:
            done()
        self.is_closed = True
        self.wake()

    # The shell's side.

    def receive(self, data: bytes, now: float) -> None:
        """Send upstream what the peer says."""
        if self.upstream.transport is not None:
            self.upstream.transport.write(data)

    def outgoing(self) -> bytes:
        """Give what the owner has said."""
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        upstream = self.upstream.transport
        if upstream is not None and not upstream.is_reading():
            upstream.resume_reading()
        return data

    def tick(self, now: float) -> float | None:
        """Return no deadline: the owner's engine has them."""
        return None

    def lost(self, now: float) -> None:
        """Called when the peer is gone: close the connection to the owner."""
        self._done = None
        if self.upstream.transport is not None:
            self.upstream.transport.close()

    def shut_down(self, reason: str, now: float) -> None:
        """Tell the owner that nothing more comes; it answers what it can and closes."""
        upstream = self.upstream.transport
        if upstream is None or upstream.is_closing():
            self.is_closed = True
            self.wake()
        elif upstream.can_write_eof():
            with suppress(OSError):  # the owner has just gone
                upstream.write_eof()
        else:
            upstream.close()

    def when_done(self, call: Callable[[], None]) -> None:
        """Call back when the owner has answered all and closes."""
        if self.upstream.transport is None:
            call()
            return
        self._done = call
        if self.upstream.transport.can_write_eof():
            self.shut_down("", 0.0)

    def break_off(self, now: float) -> None:
        """Close: the broker has failed, and has no words that the peer would understand."""
        self.is_closed = True
        self.lost(now)

    def kick(self, reason: str) -> None:
        """Close the connection; the core never calls this: a relay has no session here."""
        self.is_closed = True
        self.wake()

    def count_failure(self) -> None:
        """Count an exception that came out of this engine."""
        self._directory.internal_errors += 1
