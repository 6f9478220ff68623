# Compiled by mypyc: see setup.py.
"""STOMP frames: what a frame is, how it is written, and how its headers are escaped.

    COMMAND LF
    name:value LF
    LF
    body NUL

Headers stay bytes (`Frame.block`) until somebody asks for them: the headers of a message that only
passes through are never decoded. `parser` reads frames.

Rules of this file:
- A header is `name:value`; several are joined by LF. Bytes on the wire are UTF-8.
- 1.0 has no escapes, and blanks around a value do not count. 1.1 escapes LF, colon and
  backslash. 1.2 also escapes CR. An escape that the version does not define is an error.
- A character for which a version has no escape is sent as a blank, never as it is: a raw LF or NUL
  would let a sender write headers and frames of its own into another client's stream.
- Of a repeated header the first counts.
- Only the encoder of the frame writes content-length. A content-length that comes as an ordinary
  header, for example from an AMQP property, is left out. It would let its author choose where the
  frame ends.

Source: "Value Encoding" and "Repeated Header Entries" of the STOMP 1.1 and 1.2 specifications.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from covey.core.errors import ProtocolError, quoted
from covey.protocols.stomp.versions import UNESCAPED_COMMANDS, Version

LENGTH_NAME = b"content-length:"
LENGTH_LINE = b"\n" + LENGTH_NAME

_BLANKS = " \t"

# Both tables are indexed by version.
_UNESCAPED: tuple[dict[str, str], ...] = (
    {},
    {"n": "\n", "c": ":", "\\": "\\"},
    {"n": "\n", "c": ":", "\\": "\\", "r": "\r"},
)
# The replacements are made in this order, the backslash first. A character without an escape
# becomes a blank: 1.0 has no escapes at all, and no version has one for NUL.
_ESCAPED: tuple[tuple[tuple[str, str], ...], ...] = (
    (("\n", " "), ("\r", " "), ("\0", " ")),
    (("\\", "\\\\"), ("\n", "\\n"), (":", "\\c"), ("\0", " ")),
    (("\\", "\\\\"), ("\n", "\\n"), (":", "\\c"), ("\r", "\\r"), ("\0", " ")),
)


def parse_block(block: bytes, version: Version, *, is_escaped: bool = True) -> dict[str, str]:
    """Decode header lines joined by LF; of a repeated header the first counts."""
    headers: dict[str, str] = {}
    if not block:
        return headers
    try:
        text = block.decode()
    except UnicodeDecodeError as error:
        bad_line = block.count(b"\n", 0, error.start) + 1
        raise ProtocolError(f"header line {bad_line} is not UTF-8") from error
    has_escapes = is_escaped and version is not _V1_0 and "\\" in text
    has_blanks = version is _V1_0
    lines = text.split("\n")
    for line in lines:
        name, colon, value = line.partition(":")
        if not name or not colon:
            number = lines.index(line) + 1
            raise ProtocolError(f"header line {number} is not a name, a colon and a value")
        if has_escapes:
            value = _unescape(value, version, name)
            name = _unescape(name, version, name)
        elif has_blanks:
            value = value.strip(_BLANKS)
        if name not in headers:
            headers[name] = value
    return headers


def _unescape(text: str, version: Version, header: str) -> str:
    slash = text.find("\\")
    if slash < 0:
        return text
    parts: list[str] = []
    at = 0
    while slash >= 0:
        character = _UNESCAPED[version].get(text[slash + 1 : slash + 2])
        if character is None:
            found = quoted(text[slash : slash + 2])
            raise ProtocolError(f"undefined escape {found} in the header {quoted(header, 32)}")
        parts.append(text[at:slash])
        parts.append(character)
        at = slash + 2
        slash = text.find("\\", at)
    parts.append(text[at:])
    return "".join(parts)


def escape(value: str, version: Version) -> bytes:
    """Write a header's value with the escapes of the version."""
    return _escape(value, version).encode()


def _escape(text: str, version: Version) -> str:
    for character, escaped in _ESCAPED[version]:
        if character in text:
            text = text.replace(character, escaped)
    return text


def header_lines(headers: Iterable[tuple[str, str]], version: Version) -> bytes:
    """Write each header as an LF and a line.

    Left out: content-length, and a header without a name, which no reader would accept.
    """
    pairs = [pair for pair in headers if pair[0] and pair[0] != "content-length"]
    text = "".join([f"\n{name}:{value}" for name, value in pairs])
    if not _is_plain(text, len(pairs)):
        text = "".join([_escaped_line(name, value, version) for name, value in pairs])
    return text.encode()


def _is_plain(text: str, count: int) -> bool:
    """Return True if `count` headers, already joined, need no escape in any version."""
    return (
        text.count(":") == count
        and text.count("\n") == count
        and "\\" not in text
        and "\r" not in text
        and "\0" not in text
    )


def _escaped_line(name: str, value: str, version: Version) -> str:
    # In 1.1 and 1.2 the escapes leave no colon in the name. In 1.0 a colon becomes a blank here.
    safe_name = _escape(name, version).replace(":", " ")
    return "\n" + safe_name + ":" + _escape(value, version)


def without_length(block: bytes) -> bytes:
    """Return header lines without any content-length."""
    if not block.startswith(LENGTH_NAME) and block.find(LENGTH_LINE) < 0:
        return block
    return b"\n".join([line for line in block.split(b"\n") if not line.startswith(LENGTH_NAME)])


def is_true(name: str, value: str) -> bool:
    """Read a header that is true or false; case does not matter, as Python writes `True`.

    Anything else is refused. Otherwise a client that mistypes the value of `persistent` would lose
    messages, and one that mistypes the value of `browser` would take messages from the queue.
    """
    word = value.lower()
    if word not in ("true", "false"):
        raise ProtocolError(f"{name}:{value[:32]} is neither true nor false")
    return word == "true"


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

        The version of a login frame is not known yet. Call this with 1.2 and negotiate. If the
        result is 1.0, call this again with 1.0: a 1.0 client may put blanks around its values.
        """
        return self._parsed(self.block, version)

    def receipt(self, version: Version) -> str | None:
        """Return the receipt that the frame asks for, even if its other lines make no sense."""
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

    `block` holds header lines that are already written for this version. They follow `headers`, so
    the broker's own lines come first and count. The LF after the NUL is legal, and it helps people
    at a terminal.
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
