"""STOMP frames: what one is, and how it is written.

    COMMAND LF
    name:value LF
    LF
    body NUL

Headers stay bytes (`Frame.block`) until somebody asks for them: a message that only passes
through is never decoded. How frames are read is `parser`'s business.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from covey.core.errors import ProtocolError
from covey.protocols.stomp.headers import header_lines, parse_block, without_length
from covey.protocols.stomp.rules import UNESCAPED_COMMANDS, Version

RECEIPT_NAME: Final = b"receipt:"
_V1_0: Final = Version.V1_0


class Frame:
    """One frame: its command, its header lines joined by LF, its body."""

    __slots__ = ("block", "body", "command")

    def __init__(self, command: str, block: bytes, body: bytes) -> None:
        self.command = command
        self.block = block
        self.body = body

    def headers(self, version: Version) -> dict[str, str]:
        """Decode the header lines; login frames and CONNECTED are never unescaped.

        Who reads a login frame does not know its version yet: ask with 1.2, negotiate, and ask
        again with 1.0 if that came out, because a 1.0 client may put blanks around its values.
        """
        return self._parsed(self.block, version)

    def receipt(self, version: Version) -> str | None:
        """Return the receipt it asks for, also of a frame whose other lines make no sense."""
        lines = self.block.split(b"\n")
        asking = [line for line in lines if line.startswith(RECEIPT_NAME)][:1]
        try:
            return self._parsed(b"".join(asking), version).get("receipt")
        except ProtocolError:
            return None

    def _parsed(self, block: bytes, version: Version) -> dict[str, str]:
        is_escaped = self.command not in UNESCAPED_COMMANDS
        return parse_block(block, version, is_escaped=is_escaped)


def encode(
    command: str,
    headers: Iterable[tuple[str, str]],
    body: bytes,
    version: Version,
    *,
    block: bytes = b"",
) -> bytes:
    """Write one frame, with content-length if it has a body.

    `block` holds header lines that are already written for this version; they follow
    `headers`, so that ours come first and count. The LF behind the NUL is legal and kind to
    people at a terminal.
    """
    lines = header_lines(headers, _V1_0 if command in UNESCAPED_COMMANDS else version)
    parts = [command.encode(), lines]
    if body:
        parts.append(b"\ncontent-length:%d" % len(body))
    passed_on = without_length(block)
    if passed_on:
        parts.append(b"\n")
        parts.append(passed_on)
    parts.append(b"\n\n")
    parts.append(body)
    parts.append(b"\0\n")
    return b"".join(parts)
