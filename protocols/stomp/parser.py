# Compiled by mypyc: see setup.py.
"""FrameParser: bytes in, STOMP frames out.

Sans-IO: `feed` bytes, then take frames until `next_frame` says None, "more data, please".

`next_head` is the short way for the usual frame: LF line ends, its head in the buffer, its body too
or of a known length. Whatever it does not like goes the long way (`lines`), which knows all errors.
Rows of plain ACKs have a way of their own. Which way a frame takes cannot be told from the frame.
"""

from __future__ import annotations

from typing import Final

from covey.core.errors import ProtocolError
from covey.protocols.stomp.frame import LENGTH_LINE, Frame
from covey.protocols.stomp.head_cache import (
    ID_LINE,
    RECEIPT_LINE,
    SEND_START,
    Head,
    Heads,
    cut_line,
)
from covey.protocols.stomp.line_parser import (
    COMMANDS,
    DIGITS_MAX,
    NUL,
    UNTIL_NUL,
    Limits,
    LineParser,
)
from covey.protocols.stomp.versions import Version

_ACK_START: Final = b"ACK\nid:"
_ACK_START_LENGTH: Final = 7
_ACK_END: Final = b"\n\n\0"
_ACK_END_LENGTH: Final = 3
_BETWEEN_ACKS: Final = _ACK_END + _ACK_START

_V1_0: Final = Version.V1_0
_LF: Final = 10
_CR: Final = 13


class FrameParser(LineParser):
    """Cuts a stream of bytes into frames, the usual ones quickly."""

    __slots__ = (
        "_heads",
        "_started",
        "_started_own",
        "_whole_block",
        "body",
        "given_id",
        "receipt",
    )

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.body = b""  # of the frame whose head was taken last
        self.receipt = b""  # that its head lacks, as it lacks
        self.given_id = b""  # its message-id
        self._whole_block = b""  # with both
        self._heads = Heads()
        self._started: Head | None = None  # it waits for its body
        self._started_own = (b"", b"")  # its receipt and its id

    def next_frame(self) -> Frame | None:
        """Give the next frame, or None when more bytes are needed."""
        head = self.next_head()
        return self.other_frame() if head is None else self.frame_of(head)

    def next_head(self) -> Head | None:
        """Take a frame the short way, if that will do.

        What is its own is then in `body`, `receipt` and `given_id`. The line ends before it are
        eaten in any case.
        """
        if self._length:
            return self._started_head()
        data = self._data
        at = self._at
        size = len(data)
        while at < size and (data[at] == _LF or data[at] == _CR):
            at += 1
        self._at = at
        end = data.find(b"\n\n", at, at + self.limits.short_head_max)
        if end < 0:
            return None
        text = data[at:end]
        self.receipt = b""
        self.given_id = b""
        heads = self._heads
        head = heads.known.get(text)
        if head is not None:
            heads.hits += 1
        else:
            head = self._other_head(text)
            if head is None:
                return None
        start = end + 2
        if head.body_length >= 0:
            stop = start + head.body_length
        else:
            stop = data.find(b"\0", start)
            if stop < 0:
                return None
        if stop - start > self.limits.body_length_max:
            return None
        if stop >= size:
            self._start(head, start)
            return self._started_head()
        if data[stop] != NUL:
            return None
        self._at = stop + 1
        self.body = data[start:stop]
        return head

    def frame_of(self, head: Head) -> Frame:
        """Return the frame whose head was just taken."""
        body = self.body
        block = self._whole_block if self.receipt or self.given_id else head.block
        return Frame(head.command, block, body) if block else self._bare_frame(head.command, body)

    def other_frame(self) -> Frame | None:
        """Give a frame that cannot be had the short way, or None when more bytes are needed."""
        self.body = b""
        self.receipt = b""
        self.given_id = b""
        if self._at == len(self._data) and not self._length:
            self.drop_read()  # most often: all that came is read
            return None
        return None if self._started is not None else self.long_frame()

    def receipt_asked(self) -> str | None:
        """Return the receipt that the unfinished frame asks for, if its line was read."""
        head = self._started
        if head is None:
            return super().receipt_asked()
        own = self._started_own[0]
        return own.decode() if own else Frame(head.command, head.block, b"").receipt(self.version)

    def next_acks(self) -> list[int]:
        """Take the next frames as far as each is `ACK` with a number as its id and nothing else."""
        found = self._row_of_acks()
        tag = self._next_ack()
        while tag:
            found.append(tag)
            tag = self._next_ack()
        return found

    def _row_of_acks(self) -> list[int]:
        """Take all whole frames that are here if they are nothing but plain ACKs, else none."""
        data = self._data
        at = self._at
        if self._length or not data.startswith(_ACK_START, at):
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
        """Take the next frame if it is a plain ACK; 0: it is not, or not all here."""
        data = self._data
        at = self._at
        while data.startswith(b"\n", at):
            at += 1
        if self._length or not data.startswith(_ACK_START, at):
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

    def _other_head(self, text: bytes) -> Head | None:
        """Read a head that has not come before, unless it differs by what is its own alone."""
        if NUL in text:
            return None
        if self.version is not _V1_0:
            shared, self.receipt = cut_line(text, RECEIPT_LINE)
            shared, self.given_id = cut_line(shared, ID_LINE)
            if self.receipt or self.given_id:
                self._whole_block = text[len(SEND_START) :]
                text = shared
                head = self._heads.known.get(text)
                if head is not None:
                    self._heads.hits += 1
                    return head
        return self._read_head(text)

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
                length = self._announced_length(text, length_at)
            except ProtocolError:
                return None  # the long way tells it, and what the frame wanted confirmed
        head = Head(command, block, length)
        if command == "SEND":
            self._heads.keep(text, head)
        return head

    def _start(self, head: Head, start: int) -> None:
        """Wait for the rest of a body whose head is read."""
        self._started = head
        self._started_own = (self.receipt, self.given_id)
        self._command = head.command
        self._length = start - self._at
        self._at = start
        self._is_in_body = True
        self._body_length = head.body_length

    def _started_head(self) -> Head | None:
        """Return the head that waited for its body, now that all of it is here."""
        head = self._started
        if head is None or not self._body_is_read():
            return None
        self.body = self._body.getvalue()
        self.receipt, self.given_id = self._started_own
        self._started = None
        self._begin()
        return head
