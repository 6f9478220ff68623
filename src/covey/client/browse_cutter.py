# Compiled by mypyc: see setup.py.
"""Cutter: cuts the messages of a browse out of the broker's bytes, many at a time.

    MESSAGE LF subscription:N LF message-id:ID          and more of the broker's own lines
    covey-seq:NUMBER [LF expires:TIME] [LF content-length:SIZE]
    the producer's lines
    LF body NUL LF

A general frame codec has to expect any input. Here our own broker writes, and it writes the same
few lines before every message. So it is enough to search for the ends of these lines. That costs a
third of the codec's time, and a task of Spark spends most of its time here. The first frame that
looks different is left to the codec: it is the end of the browse, or an error. An incomplete frame
waits for its rest.
"""

from __future__ import annotations

from typing import Final

from covey.client.base import SEQ_HEADER
from covey.client.errors import AnswerError

SEQ_LINE: Final = f"\n{SEQ_HEADER}:".encode()
LENGTH_LINE: Final = b"\ncontent-length:"


class Rows:
    """Messages column by column: numbers, the broker's lines, the producer's, bodies."""

    __slots__ = ("bodies", "ours", "seqs", "theirs")

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.ours: list[bytes] = []
        self.theirs: list[bytes] = []
        self.bodies: list[bytes] = []


class Cutter:
    """The bytes of one browse that are not cut yet."""

    def __init__(self, end: int) -> None:
        self.end = end  # messages from this number on are not wanted
        self.is_over = False  # a message with such a number came, or an odd frame
        self.is_odd = False  # a frame came that is not a message of a browse
        self._pieces: list[bytes] = []
        self._size = 0
        self._needed = 0  # bytes until the next frame is complete

    def rest(self) -> bytes:
        """Return the bytes that were not cut."""
        return b"".join(self._pieces)

    def cut(self, data: bytes) -> Rows:
        """Take more bytes; return the messages that are complete now."""
        rows = Rows()
        self._pieces.append(data)
        self._size += len(data)
        if self._size >= self._needed:
            data = b"".join(self._pieces)
            at = self._cut(data, rows)
            self._pieces = [data[at:]]
            self._size = len(data) - at
        return rows

    def _cut(self, data: bytes, rows: Rows) -> int:
        """Cut messages from the front; return where the first frame that is left begins."""
        at, size = 0, len(data)
        self._needed = 0
        while (head_end := data.find(b"\n\n", at + 1)) >= 0:  # + 1: skip the LF after a NUL
            ours, mark, rest = data[at:head_end].partition(SEQ_LINE)
            number, _, theirs = rest.partition(LENGTH_LINE)
            length, _, theirs = theirs.partition(b"\n")
            if not number.isdigit():
                number, theirs = _parted(number, theirs)
            seq = int(number or self.end)
            if not mark or seq >= self.end:
                self.is_over = True
                self.is_odd = not mark
                return at
            body_at = head_end + 2
            stop = body_at + int(length or 0)
            if stop < body_at:
                raise AnswerError(f"message {seq} has a content-length below 0")
            if stop >= size:
                self._needed = stop + 1 - at
                return at
            if data[stop]:
                raise AnswerError(f"message {seq} is longer than its content-length")
            rows.seqs.append(seq)
            rows.ours.append(ours)
            rows.theirs.append(theirs)
            rows.bodies.append(data[body_at:stop])
            at = stop + 1
        return at


def _parted(number: bytes, theirs: bytes) -> tuple[bytes, bytes]:
    """Split a number from the lines after it, which messages that expire or lack a body have."""
    number, _, before = number.partition(b"\n")
    return number, b"\n".join(filter(None, (before, theirs)))
