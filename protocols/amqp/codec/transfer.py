# Compiled by mypyc: see setup.py.
"""Transfer: reads the frame that carries a message or a part of one.

    handle, delivery-id, delivery-tag, message-format, settled, more,
    rcv-settle-mode, state, resume, aborted, batchable

A connection has one `Transfer` object. Each frame overwrites it, so nobody may keep it.

For thousands of messages, the transfers of one link mostly differ only in the frame's size and in
the delivery's number and tag. So a frame that has the shape of the last one is not read field by
field. One call takes it apart:

    size | start: channel, code, list, handle, the number's code | number | the tag's length | tag |
    ending: the other fields | payload

Source: AMQP 1.0 section 2.7.5.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

from covey.protocols.amqp.codec.checker import Checker
from covey.protocols.amqp.codec.performatives import ABSENT, HEAD_SIZE, NUMBER_SIZE
from covey.protocols.amqp.codec.types import BOOLEAN, NULL, U32, WIDTHS, malformed

_TRUE: Final = 0x41
_ZERO: Final = 0x43
_SMALL_UINT: Final = 0x52
_UINT: Final = 0x70
_SHORT_BINARY: Final = 0xA0
_LONG_BINARY: Final = 0xB0
_SHORT_LIST: Final = 0xC0
_LONG_LIST: Final = 0xD0

_USUAL: Final = 6  # fields; few transfers have more
_NO_SHAPE: Final = 2**62  # no frame is as long


class Transfer:
    """The transfer that is being handled."""

    __slots__ = (
        "_ending",
        "_length",
        "_shape",
        "_sizes",
        "_start",
        "_stop",
        "format",
        "handle",
        "has_more",
        "has_tag",
        "is_aborted",
        "is_settled",
        "is_whole",
        "keeps_tag",
        "number",
        "payload",
        "rest",
        "settles_second",
        "state",
        "tag",
    )

    def __init__(self) -> None:
        self.handle = 0
        self.number = ABSENT  # the delivery's number; only its first transfer must have it
        self.has_tag = False
        self.format = ABSENT
        self.is_settled = False
        self.has_more = False
        self.settles_second = False  # the receiver must wait for the sender's settlement
        self.is_aborted = False
        self.is_whole = False  # a complete message in the usual form, as nearly all are
        self.state = b""  # encoded; a `Checker` has accepted it
        self.payload = b""
        self.tag = b""
        self.keeps_tag = False  # the tag is needed: errors must name deliveries by their tags
        self.rest = ABSENT  # data offset, type and channel of the frame, as one number
        # The shape of the last transfer.
        self._stop = _NO_SHAPE  # bytes of a frame before its payload
        self._sizes = (0, 0, 0, 0)  # of the start, the tag's length, the tag and the ending
        self._shape = _struct(self._sizes)
        self._start = b""
        self._length = b""
        self._ending = b""

    def repeats(self, data: bytes, at: int, end: int) -> int:
        """Read the frame at `at` if it has the shape of the last one; return where it ends, else 0.

        `end` is the end of the bytes that have come.
        """
        stop = at + self._stop
        if stop > end:
            return 0
        size: int
        number: int
        start: bytes
        length: bytes
        ending: bytes
        size, start, number, length, ending = self._shape.unpack_from(data, at)
        following = at + size
        if (
            start != self._start
            or ending != self._ending
            or length != self._length
            or not stop <= following <= end
        ):
            return 0
        self.number = number
        self.payload = data[stop:following]
        if self.keeps_tag:
            tag_end = stop - len(ending)
            self.tag = data[tag_end - self._sizes[2] : tag_end]
        return following

    def read(self, data: bytes, at: int, end: int, rest: int = ABSENT) -> None:
        """Read the transfer whose list is at `at`; raises ProtocolError.

        `rest` is the second number of the frame's head, if the frame is usual: then the next ones
        are compared with it.
        """
        self._stop = _NO_SHAPE
        self.rest = rest
        self._read_all(data, at, end)

    def _read_all(self, data: bytes, at: int, end: int) -> None:
        first = at
        try:
            form = data[at]
            if form == _SHORT_LIST:
                count = data[at + 2]
                stop = at + 2 + data[at + 1]
                at += 3
            elif form == _LONG_LIST:
                count = U32.unpack_from(data, at + 5)[0]
                stop = at + 5 + U32.unpack_from(data, at + 1)[0]
                at += 9
            else:
                raise malformed("a transfer that is not a list of fields")
            at = self._read_usual(data, at, count)
            if count > _USUAL:
                at = self._read_rest(data, at, count)
            else:
                self.settles_second = False
                self.is_aborted = False
                self.state = b""
        except (IndexError, StructError) as error:
            raise malformed("a transfer that is cut short") from error
        if at > stop or stop > end:
            raise malformed("a transfer that is cut short")
        self.payload = data[stop:end]
        self.is_whole = (
            self.number != ABSENT
            and self.has_tag
            and not (self.has_more or self.is_aborted or self.settles_second)
        )
        if count > 2 and self.number != ABSENT and self.rest != ABSENT:
            self._learn(data, first, stop)

    def _learn(self, data: bytes, at: int, stop: int) -> None:
        """Remember the shape of the transfer that was read, if the next one can have the same."""
        number = at + (3 if data[at] == _SHORT_LIST else 9)
        number += 1 + WIDTHS[data[number]]  # past the handle
        tag = number + 5
        if data[number] != _UINT or data[tag] == NULL:
            return
        head = at - NUMBER_SIZE - HEAD_SIZE  # where the frame begins
        self._start = data[head + 4 : number + 1]
        self._length = data[tag : tag + (2 if data[tag] == _SHORT_BINARY else 5)]
        ending = _tag_end(data, tag)
        self._ending = data[ending:stop]
        self._stop = stop - head
        tag_size = ending - tag - len(self._length)
        sizes = (len(self._start), len(self._length), tag_size, len(self._ending))
        if sizes != self._sizes:
            self._sizes = sizes
            self._shape = _struct(sizes)

    def _read_usual(self, data: bytes, at: int, count: int) -> int:
        """Read the fields that nearly all transfers have; return where the rest begins."""
        code = data[at]
        if code == _UINT:
            self.handle = U32.unpack_from(data, at + 1)[0]
            at += 5
        elif code == _SMALL_UINT:
            self.handle = data[at + 1]
            at += 2
        elif code == _ZERO and count:
            self.handle = 0
            at += 1
        else:
            raise malformed("a transfer without a handle")
        code = data[at] if count > 1 else NULL
        self.number = ABSENT
        if code == _UINT:
            self.number = U32.unpack_from(data, at + 1)[0]
            at += 5
        elif code == _SMALL_UINT:
            self.number = data[at + 1]
            at += 2
        elif code == _ZERO:
            self.number = 0
            at += 1
        elif code == NULL:
            at += count > 1
        else:
            raise malformed("a transfer whose delivery-id is no number")
        self.tag = b""
        self.has_tag = False
        if count > 2:
            end = _tag_end(data, at)
            self.has_tag = data[at] != NULL
            if self.has_tag:
                self.tag = data[at + (2 if data[at] == _SHORT_BINARY else 5) : end]
            at = end
        return self._read_flags(data, at, count)

    def _read_flags(self, data: bytes, at: int, count: int) -> int:
        """Read message-format, settled and more; return where the rest begins."""
        self.format = ABSENT
        if count > 3:
            end = _past(data, at)
            if data[at] != NULL:
                self.format = int.from_bytes(data[at + 1 : end], "big")
            at = end
        self.is_settled = False
        if count > 4:
            code = data[at]
            self.is_settled = code == _TRUE or (code == BOOLEAN and data[at + 1] == 1)
            at += 2 if code == BOOLEAN else 1
        self.has_more = False
        if count > 5:
            code = data[at]
            self.has_more = code == _TRUE or (code == BOOLEAN and data[at + 1] == 1)
            at += 2 if code == BOOLEAN else 1
        return at

    def _read_rest(self, data: bytes, at: int, count: int) -> int:
        """Read the fields after `more`."""
        end = _past(data, at)
        self.settles_second = end > at + 1 and data[end - 1] != 0  # else the link's mode counts
        at = end
        self.state = b""
        self.is_aborted = False
        if count > 7:
            end = Checker(data).check(at)
            if data[at] != NULL:
                self.state = data[at:end]
            at = end
        if count > 8:
            at = _past(data, at)  # resume: not supported, no delivery is kept for it
        if count > 9:
            self.is_aborted = data[at] == _TRUE or (data[at] == BOOLEAN and data[at + 1] == 1)
            at = _past(data, at)
        return at


def _struct(sizes: tuple[int, int, int, int]) -> Struct:
    """Return what takes a frame of these sizes apart."""
    start, length, tag, ending = sizes
    return Struct(f">I{start}sI{length}s{tag}x{ending}s")


def _tag_end(data: bytes, at: int) -> int:
    """Return where the delivery-tag ends."""
    code = data[at]
    if code == _SHORT_BINARY:
        return at + 2 + data[at + 1]
    if code == _LONG_BINARY:
        length: int = U32.unpack_from(data, at + 1)[0]
        return at + 5 + length
    if code == NULL:
        return at + 1
    raise malformed("a transfer whose delivery-tag is not binary")


def _past(data: bytes, at: int) -> int:
    """Return where a field of fixed width ends."""
    width = WIDTHS[data[at]]
    if width < 0:
        raise malformed(f"a field of the type 0x{data[at]:02x} in a transfer")
    return at + 1 + width
