"""Portions: a peer's bytes go to hypercorn bit by bit, and others have their turn between.

hypercorn takes 64 KiB at once. It takes the next 64 KiB without a pause if they are there already,
and asyncio keeps some hundred KiB. As a body or a large message that is little work. But so many
bytes are ten thousands of frames if each frame is as small as it can be: parts of a WebSocket
message without content, PING of WebSocket or HTTP/2. Nobody else would be served for as long as
these take, and even strangers may send them.

So a connection is read through `Portions`. A portion is small, and the event loop has a turn before
each of them.
"""

from __future__ import annotations

import asyncio
from typing import Final

from anyio.lowlevel import checkpoint

# Bytes. The smallest frames make a portion ten milliseconds of work. A message of 100 MiB takes
# ten percent longer than in one piece.
PORTION: Final = 8 * 1024


class Portions(asyncio.StreamReader):
    """What hypercorn reads of one connection."""

    def __init__(self, whole: asyncio.StreamReader) -> None:
        """Read from another reader; nothing is fed to this one."""
        super().__init__()
        self._whole = whole

    def at_eof(self) -> bool:
        """Return True if nothing is left and nothing more will come."""
        return self._whole.at_eof()

    async def read(self, n: int = -1) -> bytes:
        """Let others have their turn, then wait for at most `n` bytes, and a portion at most."""
        await checkpoint()
        return await self._whole.read(PORTION if n < 0 else min(n, PORTION))
