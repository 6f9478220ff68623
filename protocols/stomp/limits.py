"""How much of a STOMP frame we are ready to hold, before and after login.

Rules of this file:
- Numbers only; the frame parser enforces them, each one before a frame is whole.
- A limit is the largest value that passes: a header line of exactly `header_length_max` bytes
  is fine, one byte more ends the connection.
- Before login everything is smaller (`dialect.login_limits`): nobody has vouched for the sender.
"""

from __future__ import annotations

# After login: the defaults of the Apollo STOMP manual.
HEADER_LENGTH_MAX = 10 * 1024
HEADERS_MAX = 1000
BODY_LENGTH_MAX = 100 * 1024 * 1024
# The longest command has 11 bytes; the rest is room to quote what came instead.
COMMAND_LENGTH_MAX = 32

# How far the short way looks for the end of a head: nearly all end sooner, and a head that
# does not end must not make us search the whole buffer once per frame.
_SHORT_HEAD_MAX = 2048


class Limits:
    """How much a peer may send before we stop listening; all lengths in bytes."""

    __slots__ = (
        "body_length_max",
        "command_length_max",
        "frame_length_max",
        "header_length_max",
        "headers_max",
        "short_head_max",
    )

    def __init__(
        self,
        *,
        header_length_max: int = HEADER_LENGTH_MAX,
        headers_max: int = HEADERS_MAX,
        body_length_max: int = BODY_LENGTH_MAX,
        command_length_max: int = COMMAND_LENGTH_MAX,
        frame_length_max: int = 0,
    ) -> None:
        """Set the limits; `frame_length_max` counts command to NUL, and 0 is no such limit."""
        self.header_length_max = header_length_max
        self.headers_max = headers_max
        self.body_length_max = body_length_max
        self.command_length_max = command_length_max
        self.frame_length_max = frame_length_max
        # A head no longer than this cannot break a limit: a header takes two bytes at least.
        self.short_head_max = min(_SHORT_HEAD_MAX, header_length_max, 2 * headers_max)
        if frame_length_max or command_length_max < COMMAND_LENGTH_MAX:
            self.short_head_max = 0
