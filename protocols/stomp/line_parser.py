# Compiled by mypyc: see setup.py.
"""LineParser: reads any STOMP frame, line by line.

    COMMAND LF                        at most command_length_max bytes
    name:value LF                     at most headers_max lines of header_length_max bytes
    LF
    body NUL                          content-length bytes, or up to the first NUL

Rules of this file:
- The result does not depend on how the bytes were cut into chunks.
- Every limit is checked before a frame is complete, so no peer can make the broker hold more than
  the limit and one chunk. Every byte is searched and copied a bounded number of times.
- Bad input raises ProtocolError and nothing else. After that the parser is of no further use, but
  `receipt_asked` returns the receipt of the broken frame if its line was read.
- An error about a limit has the code `limit`, and it names the setting.
- A limit is the largest value that passes: a header line of exactly `header_length_max` bytes
  is fine, one byte more ends the connection.
- Before the login the limits are smaller (`settings.login_limits`): nobody has vouched for the
  sender.
- A line may end in CR LF, which 1.2 allows and people at a terminal send. In 1.1 a CR is part
  of the value.
- A NUL in a header line is refused. The sender has forgotten the blank line. Readers that cut at
  NULs would read what follows as a frame, and the sender could choose that frame.

Source: "STOMP Frames" and "Augmented BNF" of the STOMP 1.0, 1.1 and 1.2 specifications.
"""

from __future__ import annotations

from io import BytesIO
from typing import Final

from covey.core.errors import ProtocolError
from covey.protocols.sniff import spoken
from covey.protocols.stomp.frame import LENGTH_LINE, LENGTH_NAME, Frame
from covey.protocols.stomp.versions import CLIENT_COMMANDS, LOGIN_COMMANDS, SERVER_COMMANDS, Version

# After login: the defaults of the Apollo STOMP manual.
HEADER_LENGTH_MAX = 10 * 1024
HEADERS_MAX = 1000
BODY_LENGTH_MAX = 100 * 1024 * 1024
# The longest command has 11 bytes; the rest is room to quote what came instead.
COMMAND_LENGTH_MAX = 32

# How far the short way of `parser` looks for the end of a head. Nearly all heads end sooner, and a
# head that does not end must not cause a search of the whole buffer for each frame.
_SHORT_HEAD_MAX = 2048


class Limits:
    """How long a frame and its parts may be; all lengths in bytes."""

    __slots__ = (
        "body_length_max",
        "command_length_max",
        "frame_length_max",
        "header_length_max",
        "headers_key",
        "headers_max",
        "short_head_max",
    )

    def __init__(
        self,
        *,
        header_length_max: int = HEADER_LENGTH_MAX,
        headers_max: int = HEADERS_MAX,
        headers_key: str = "max_headers",
        body_length_max: int = BODY_LENGTH_MAX,
        command_length_max: int = COMMAND_LENGTH_MAX,
        frame_length_max: int = 0,
    ) -> None:
        """Set the limits; `frame_length_max` counts from command to NUL, and 0 means no limit.

        `headers_key` is the setting that `headers_max` comes from; errors name it.
        """
        self.header_length_max = header_length_max
        self.headers_max = headers_max
        self.headers_key = headers_key
        self.body_length_max = body_length_max
        self.command_length_max = command_length_max
        self.frame_length_max = frame_length_max
        # A head no longer than this cannot break a limit: a header takes two bytes at least.
        self.short_head_max = min(_SHORT_HEAD_MAX, header_length_max, 2 * headers_max)
        if frame_length_max or command_length_max < COMMAND_LENGTH_MAX:
            self.short_head_max = 0


# Enough for any body_length_max. int() must not get ten thousand digits: it would be slow.
DIGITS_MAX: Final = 18
UNTIL_NUL: Final = -1
NUL: Final = 0

COMMANDS: Final[dict[bytes, str]] = {
    command.encode(): command for command in CLIENT_COMMANDS | SERVER_COMMANDS
}

_V1_0: Final = Version.V1_0
_V1_1: Final = Version.V1_1
_BLANKS: Final = b" \t"


class LineParser:
    """Reads one frame after the other, line by line.

    The parser keeps what it has read of the unfinished frame. Bytes that it has not read stay with
    its caller. Between frames `length` is 0. Within a frame, `_lines` has the lines read so far.
    Once the head is complete (`_is_in_body`), the body is gathered in `_body`, which returns it
    without a copy.
    """

    __slots__ = (
        "_body",
        "_body_length",
        "_command",
        "_is_in_body",
        "_lines",
        "length",
        "limits",
        "version",
    )

    def __init__(self, limits: Limits) -> None:
        """Start before the first frame; the version is 1.0 until the login."""
        self.limits = limits
        self.version = _V1_0
        self._begin()

    def _begin(self) -> None:
        self.length = 0  # bytes read of the unfinished frame
        self._command = ""
        self._lines: list[bytes] = []
        self._is_in_body = False
        self._body = BytesIO()
        self._body_length = UNTIL_NUL

    def read(self, data: bytes, at: int) -> tuple[Frame | None, int]:
        """Read on from `at`; return the frame and the place up to which the bytes are read.

        The frame is None if more bytes are needed.
        """
        if not self._is_in_body:
            at = self._read_head(data, at)
        if not self._is_in_body:
            return None, at
        is_whole, at = self.read_body(data, at)
        return self._finished_frame() if is_whole else None, at

    def begin_body(self, command: str, body_length: int, head_length: int) -> None:
        """Prepare to read the body of a frame whose head `parser` has read."""
        self.length = head_length
        self._command = command
        self._is_in_body = True
        self._body_length = body_length

    def read_body(self, data: bytes, at: int) -> tuple[bool, int]:
        """Gather the body up to its NUL, and skip the NUL; False: more bytes are needed."""
        if self._body_length == UNTIL_NUL:
            room = self.limits.body_length_max - self._body.tell()
            end = data.find(b"\0", at, at + room + 1)
            part = data[at:end] if end >= 0 else data[at:]
            if len(part) > room:
                length_max = self.limits.body_length_max
                text = (
                    f"body is longer than {length_max} bytes, the most that max_data_length allows"
                )
                raise ProtocolError(text, "limit")
            self._claim(len(part))
        else:
            part = data[at : at + self._body_length - self._body.tell()]
        self._body.write(part)
        self.length += len(part)
        at += len(part)
        if at == len(data):
            return False, at
        if data[at] != NUL:
            raise ProtocolError(
                f"no NUL behind the {self._body_length} bytes of content-length"
                f" in the {self._command} frame"
            )
        return True, at + 1

    def take_body(self) -> bytes:
        """Return the body, and prepare for the next frame."""
        body = self._body.getvalue()
        self._begin()
        return body

    def _read_head(self, data: bytes, at: int) -> int:
        """Read lines up to the blank one, or as many as are complete; return where they end."""
        line, at = self._next_line(data, at)
        while line is not None:
            if not self._command:
                command = COMMANDS.get(line)
                if command is None:
                    raise self._refusal(line, f"unknown command {_quoted(line)}")
                self._command = command
            elif not line:
                self._find_body_length()
                return at
            elif len(self._lines) == self.limits.headers_max:
                raise self._too_many_headers(self._command)
            else:
                self._lines.append(line)
            line, at = self._next_line(data, at)
        return at

    def _next_line(self, data: bytes, at: int) -> tuple[bytes | None, int]:
        """Take one line without its line end; None: it is not complete, and not too long yet."""
        limits = self.limits
        limit = limits.header_length_max if self._command else limits.command_length_max
        farthest = at + limit + 2  # the longest line and its CR LF
        end = data.find(b"\n", at, farthest)
        line = data[at : end if end >= 0 else farthest]
        self._claim(len(line))
        # Look for a NUL within the limit only. A longer line is refused as too long, so that the
        # error does not depend on how the chunks were cut.
        if line.find(b"\0", 0, limit + 1) >= 0:
            raise self._refusal(line, f"NUL in {self._line_name()}")
        if line.endswith(b"\r") and self.version is not _V1_1:
            line = line[:-1]
        if len(line) > limit:
            key = "max_header_length" if self._command else "max_command_length"
            text = f"{self._line_name()} is longer than {limit} bytes, the most that {key} allows"
            raise self._refusal(line, text, "limit")
        if end < 0:
            return None, at
        self.length += end + 1 - at
        return line, end + 1

    def receipt_asked(self) -> str | None:
        """Return the receipt that the unfinished frame asks for; None if its line was not read."""
        return Frame(self._command, b"\n".join(self._lines), b"").receipt(self.version)

    def _refusal(self, line: bytes, text: str, code: str | None = None) -> ProtocolError:
        """Return the error for a bad line, or for a peer that speaks another protocol."""
        name = "" if self._command else spoken(line)
        if name:
            return ProtocolError(f"expected STOMP, but the peer speaks {name}")
        return ProtocolError(text, code)

    def _too_many_headers(self, command: str) -> ProtocolError:
        limits = self.limits
        text = f"{command} frame with more than {limits.headers_max} headers,"
        return ProtocolError(f"{text} the most that {limits.headers_key} allows", "limit")

    def _line_name(self) -> str:
        # Errors name a line by its number: a quoted line might put a password into a log.
        if self._command:
            return f"header line {len(self._lines) + 1} of the {self._command} frame"
        return "the command line"

    def _find_body_length(self) -> None:
        self._is_in_body = True
        for line in self._lines:
            if line.startswith(LENGTH_NAME):
                self._body_length = self.announced_length(line, -1)
                self._claim(self._body_length)
                break

    def announced_length(self, head: bytes, at: int) -> int:
        """Read the content-length line whose preceding LF is at `at`."""
        end = head.find(b"\n", at + 1)
        digits = head[at + len(LENGTH_LINE) : end if end >= 0 else len(head)]
        if self.version is _V1_0:
            digits = digits.strip(_BLANKS)
        if not digits.isdigit():
            raise ProtocolError(f"content-length {_quoted(digits)} is not a number")
        if len(digits) <= DIGITS_MAX:
            length = int(digits)
            if length <= self.limits.body_length_max:
                return length
        raise ProtocolError(
            f"content-length {_quoted(digits)} exceeds {self.limits.body_length_max} bytes,"
            " the most that max_data_length allows",
            "limit",
        )

    def _claim(self, size: int) -> None:
        """Refuse the frame if `size` more bytes and its NUL would exceed its limit."""
        length_max = self.limits.frame_length_max
        if length_max and self.length + size >= length_max:
            text = f"frame is longer than {length_max} bytes, the most that login_frame_max allows"
            raise ProtocolError(text, "limit")

    def _finished_frame(self) -> Frame:
        command = self._command
        block = b"\n".join(self._lines)
        body = self.take_body()
        return Frame(command, block, body) if block else self.bare_frame(command, body)

    def bare_frame(self, command: str, body: bytes) -> Frame:
        """Make a frame that has no header before its first blank line."""
        if body and command in LOGIN_COMMANDS:
            block = self._misplaced_headers(command, body)
            if block:
                return Frame(command, block, b"")
        return Frame(command, b"", body)

    def _misplaced_headers(self, command: str, body: bytes) -> bytes:
        """Return the body of a login frame as its headers if every line of it looks like one.

        The login example of the Apollo STOMP manual has a blank line before its headers, and
        people type what they read.
        """
        lines = [line.removesuffix(b"\r") for line in body.strip(b"\r\n").split(b"\n")]
        if not all(line.find(b":") > 0 for line in lines):
            return b""
        if len(lines) > self.limits.headers_max:
            raise self._too_many_headers(command)
        length_max = self.limits.header_length_max
        if max(map(len, lines)) > length_max:
            text = f"header of the {command} frame is longer than {length_max} bytes,"
            raise ProtocolError(f"{text} the most that max_header_length allows", "limit")
        return b"\n".join(lines)


def _quoted(line: bytes) -> str:
    """Return the beginning of a line, safe to print: bytes that are not printable ASCII are %XX."""
    shown = [chr(byte) if 32 <= byte < 127 else f"%{byte:02X}" for byte in line[:32]]
    return f"'{''.join(shown)}'"
