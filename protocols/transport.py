"""Transport: the seam between a connection and what carries its bytes.

Three things carry bytes: a socket (asyncio's own transport, which fits as it is), TLS over one
(`protocols.secured`) and a WebSocket (`protocols.http.stream`). Whichever it is, it calls the
connection's `receive`, `eof_received`, `pause_writing`, `resume_writing` and, once and last,
`connection_lost`.

Rule for all three: as long as a byte that was written waits for the peer, writing is paused. So a
peer that does not read costs one batch of its engine's here, and one that waits in the engine.
"""

from __future__ import annotations

from typing import Protocol


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
        """Say whether it is ended, or about to be."""

    def pause_reading(self) -> None:
        """Hand in nothing more."""

    def resume_reading(self) -> None:
        """Go on after `pause_reading`."""

    def get_write_buffer_size(self) -> int:
        """Count the bytes that wait for the peer."""
