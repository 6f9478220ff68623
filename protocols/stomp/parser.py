# Compiled by mypyc: see setup.py.
"""FrameParser: bytes in, STOMP frames out.

Sans-IO: `feed` bytes, then take frames until `next_frame` returns None, which means that more bytes
are needed.

A frame is read in one of three ways. The result is the same frame.

- The short way (`next_head`) is for the usual frame: its lines end in LF, its whole head is in the
  buffer, and so is its body, unless content-length gives the body's length.
- The long way (`line_parser`) is for every other frame. It knows all errors.
- Rows of plain ACKs have a way of their own (`next_acks`).

`HeadCache` is what makes the short way short. A producer sends the same header lines thousands of
times. So the heads of its SEND frames are remembered as they came, each with the plan that was made
of it (`send_plan`). A repeated SEND costs one look-up instead of a parse.

The receipt and the message-id differ from frame to frame. These lines are taken out of a head
before the look-up (`OwnLines`). If such a line cannot be taken out, the head is not remembered. For
a producer whose heads never repeat, no heads are remembered at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covey.core.errors import ProtocolError
from covey.protocols.stomp.frame import LENGTH_LINE, Frame
from covey.protocols.stomp.line_parser import (
    COMMANDS,
    DIGITS_MAX,
    NUL,
    UNTIL_NUL,
    Limits,
    LineParser,
)
from covey.protocols.stomp.versions import Version

if TYPE_CHECKING:
    from covey.protocols.stomp.send_plan import SendPlan

_ACK_START: Final = b"ACK\nid:"
_ACK_START_LENGTH: Final = 7
_ACK_END: Final = b"\n\n\0"
_ACK_END_LENGTH: Final = 3
_BETWEEN_ACKS: Final = _ACK_END + _ACK_START

_V1_0: Final = Version.V1_0
_LF: Final = 10
_CR: Final = 13

HEADS_MAX: Final = 1024  # heads that one connection remembers
HEAD_LENGTH_MAX: Final = 512  # bytes of a head: longer heads are rarely repeated
SEND_START: Final = b"SEND\n"
# The beginnings of lines that differ from frame to frame.
RECEIPT_LINE: Final = b"\nreceipt:"
ID_LINE: Final = b"\nmessage-id:"
# As numbers: CPython looks for bytes in bytes by way of an exception, half a microsecond each.
_BACKSLASH: Final = 92
_COLON: Final = 58


class Head:
    """A frame without its body: its command, its header lines, and how long the body is."""

    __slots__ = ("block", "body_length", "command", "plan")

    def __init__(self, command: str, block: bytes, body_length: int) -> None:
        self.command = command
        self.block = block
        self.body_length = body_length
        self.plan: SendPlan | None = None  # what to do with the message, once that is known


class OwnLines:
    """The lines of a SEND that no other SEND has: they were taken out of its head."""

    __slots__ = ("given_id", "receipt", "text")

    def __init__(self, receipt: bytes, given_id: bytes, text: bytes) -> None:
        self.receipt = receipt
        self.given_id = given_id
        self.text = text  # the whole head as it came, these lines included


NO_OWN_LINES: Final = OwnLines(b"", b"", b"")


class HeadCache:
    """The heads one producer has sent."""

    __slots__ = ("hits", "is_of_use", "known")

    def __init__(self) -> None:
        self.known: dict[bytes, Head] = {}
        self.hits = 0  # since the cache was last full
        self.is_of_use = True

    def keep(self, text: bytes, head: Head) -> None:
        """Remember a head that may come again."""
        if not self.is_of_use or len(text) > HEAD_LENGTH_MAX:
            return
        if text.find(RECEIPT_LINE) >= 0 or text.find(ID_LINE) >= 0:
            return
        if len(self.known) >= HEADS_MAX:
            self.is_of_use = self.hits > HEADS_MAX
            self.hits = 0
            self.known.clear()
        if self.is_of_use:
            self.known[text] = head


def cut_line(text: bytes, start: bytes) -> tuple[bytes, bytes]:
    """Return the head of a SEND without the line that begins with `start`, and that line's value.

    The value is b"" if there is no such line, or if its value would have to be decoded. In both
    cases the head is returned whole.
    """
    at = text.find(start)
    if at < 0 or not text.startswith(SEND_START):
        return text, b""
    end = text.find(b"\n", at + len(start))
    if end < 0:
        end = len(text)
    value = text[at + len(start) : end]
    is_odd = _BACKSLASH in value or _COLON in value or _CR in value or not value.isascii()
    shared = text[:at] + text[end:]
    if is_odd or not value or len(shared) <= len(SEND_START):
        return text, b""
    return shared, value


# A frame that was read the short way: its head, its body, its own lines. The head is None if the
# frame cannot be read that way. This is a tuple because compiled code returns one without making an
# object.
Taken = tuple[Head | None, bytes, OwnLines]


class FrameParser:
    """Cuts a stream of bytes into frames; usual frames take a quick way."""

    __slots__ = ("_at", "_data", "_heads", "_lines", "_started", "_started_own")

    def __init__(self, limits: Limits) -> None:
        """Start before the first frame."""
        self._data = b""
        self._at = 0
        self._lines = LineParser(limits)
        self._heads = HeadCache()
        self._started: Head | None = None  # the head of a frame whose body is not complete
        self._started_own = NO_OWN_LINES

    @property
    def limits(self) -> Limits:
        """How much the peer may send."""
        return self._lines.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._lines.limits = limits

    @property
    def version(self) -> Version:
        """The peer's version of STOMP; 1.0 until its login."""
        return self._lines.version

    @version.setter
    def version(self, version: Version) -> None:
        self._lines.version = version

    @property
    def buffered(self) -> int:
        """The number of bytes held: those not read yet and those of the unfinished frame."""
        return self._lines.length + len(self._data) - self._at

    def feed(self, data: bytes) -> None:
        """Add bytes; bytes of earlier calls that are still unread are copied."""
        self._data = self._data[self._at :] + data if self._at < len(self._data) else data
        self._at = 0

    def next_frame(self) -> Frame | None:
        """Return the next frame, or None if more bytes are needed."""
        head, body, own = self.next_head()
        return self.other_frame() if head is None else self.frame_of(head, body, own)

    def next_head(self) -> Taken:
        """Take a frame the short way, if possible: its head, its body and its own lines.

        The line ends before the frame are skipped in any case.
        """
        if self._lines.length:
            return self._started_head()
        data = self._data
        at = self._at
        size = len(data)
        while at < size and (data[at] == _LF or data[at] == _CR):
            at += 1
        self._at = at
        limits = self._lines.limits
        end = data.find(b"\n\n", at, at + limits.short_head_max)
        if end < 0:
            return None, b"", NO_OWN_LINES
        text = data[at:end]
        own = NO_OWN_LINES
        heads = self._heads
        head = heads.known.get(text)
        if head is not None:
            heads.hits += 1
        else:
            head, own = self._other_head(text)
            if head is None:
                return None, b"", NO_OWN_LINES
        start = end + 2
        if head.body_length >= 0:
            stop = start + head.body_length
        else:
            stop = data.find(b"\0", start)
            if stop < 0:
                return None, b"", NO_OWN_LINES
        if stop - start > limits.body_length_max:
            return None, b"", NO_OWN_LINES
        if stop >= size:
            self._start(head, own, start)
            return self._started_head()
        if data[stop] != NUL:
            return None, b"", NO_OWN_LINES
        self._at = stop + 1
        return head, data[start:stop], own

    def frame_of(self, head: Head, body: bytes, own: OwnLines) -> Frame:
        """Return the frame that was taken the short way, with all of its lines."""
        block = own.text[len(SEND_START) :] if own.text else head.block
        if block:
            return Frame(head.command, block, body)
        return self._lines.bare_frame(head.command, body)

    def other_frame(self) -> Frame | None:
        """Return a frame that cannot be read the short way, or None if more bytes are needed."""
        if self._at == len(self._data) and not self._lines.length:
            self._drop_read()  # the usual case: all bytes are read
            return None
        if self._started is not None:
            return None
        frame, self._at = self._lines.read(self._data, self._at)
        if frame is None:
            self._drop_read()
        return frame

    def _drop_read(self) -> None:
        """Free the bytes that were read: an idle connection should not keep its last chunk."""
        self._data = self._data[self._at :]
        self._at = 0

    def receipt_asked(self) -> str | None:
        """Return the receipt that the unfinished frame asks for; None if its line was not read."""
        head = self._started
        if head is None:
            return self._lines.receipt_asked()
        own = self._started_own.receipt
        return own.decode() if own else Frame(head.command, head.block, b"").receipt(self.version)

    def next_acks(self) -> list[int]:
        """Take plain ACKs until another frame comes; plain: the only header is a numeric id."""
        found = self._row_of_acks()
        tag = self._next_ack()
        while tag:
            found.append(tag)
            tag = self._next_ack()
        return found

    def _row_of_acks(self) -> list[int]:
        """Take all complete frames of the buffer if all of them are plain ACKs, else none."""
        data = self._data
        at = self._at
        if self._lines.length or not data.startswith(_ACK_START, at):
            return []
        end = data.rfind(_ACK_END, at)
        if end < 0:
            return []
        numbers = data[at + _ACK_START_LENGTH : end].split(_BETWEEN_ACKS)
        lengths = list(map(len, numbers))
        if min(lengths) == 0 or max(lengths) > DIGITS_MAX:
            return []
        if not b"".join(numbers).isdigit():
            return []
        self._at = end + _ACK_END_LENGTH
        return list(map(int, numbers))

    def _next_ack(self) -> int:
        """Take the next frame if it is a plain ACK; 0: it is another frame, or not complete."""
        data = self._data
        at = self._at
        while data.startswith(b"\n", at):
            at += 1
        if self._lines.length or not data.startswith(_ACK_START, at):
            return 0
        start = at + _ACK_START_LENGTH
        end = data.find(_ACK_END, start, start + DIGITS_MAX + _ACK_END_LENGTH)
        if end < 0:
            return 0
        digits = data[start:end]
        if not digits.isdigit():
            return 0
        self._at = end + _ACK_END_LENGTH
        return int(digits)

    def _other_head(self, text: bytes) -> tuple[Head | None, OwnLines]:
        """Find or read a head that is not in the cache as it is.

        Without its own lines the head may be in the cache.
        """
        if NUL in text:
            return None, NO_OWN_LINES
        if self._lines.version is _V1_0:
            return self._read_head(text), NO_OWN_LINES
        shared, receipt = cut_line(text, RECEIPT_LINE)
        shared, given_id = cut_line(shared, ID_LINE)
        if not receipt and not given_id:
            return self._read_head(text), NO_OWN_LINES
        head = self._heads.known.get(shared)
        if head is None:
            head = self._read_head(shared)
        else:
            self._heads.hits += 1
        return head, OwnLines(receipt, given_id, text)

    def _read_head(self, text: bytes) -> Head | None:
        """Read a head of the usual form, and remember it if it may come again."""
        name, _, block = text.partition(b"\n")
        command = COMMANDS.get(name)
        if command is None or _CR in text:
            return None
        length_at = text.find(LENGTH_LINE)
        length = UNTIL_NUL
        if length_at >= 0:
            try:
                length = self._lines.announced_length(text, length_at)
            except ProtocolError:
                return None  # the long way reports the error, and the receipt that was asked for
        head = Head(command, block, length)
        if command == "SEND":
            self._heads.keep(text, head)
        return head

    def _start(self, head: Head, own: OwnLines, start: int) -> None:
        """Begin to wait for the rest of a body whose head was read."""
        self._started = head
        self._started_own = own
        self._lines.begin_body(head.command, head.body_length, start - self._at)
        self._at = start

    def _started_head(self) -> Taken:
        """Return the frame that waited for its body, if the body is complete now."""
        head = self._started
        if head is None:
            return None, b"", NO_OWN_LINES
        is_whole, self._at = self._lines.read_body(self._data, self._at)
        if not is_whole:
            return None, b"", NO_OWN_LINES
        own = self._started_own
        self._started = None
        self._started_own = NO_OWN_LINES
        return head, self._lines.take_body(), own
