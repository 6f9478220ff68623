# Compiled by mypyc: see setup.py.
"""Transfer: reads the frame that carries a message or a part of one.

    handle, delivery-id, delivery-tag, message-format, settled, more,
    rcv-settle-mode, state, resume, aborted, batchable

A connection has one `Transfer` object. Each frame overwrites it, so nobody may keep it.

For thousands of messages, the transfers of one link mostly differ only in the delivery's number and
tag. So a transfer that has the shape of the last one is not read field by field:

    start: list, handle, the number's code | number | the tag's length | tag | ending: the rest

Source: AMQP 1.0 section 2.7.5.
"""

from __future__ import annotations

from struct import error as StructError
from typing import Final

from covey.protocols.amqp.codec.checker import Checker
from covey.protocols.amqp.codec.performatives import ABSENT
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
_NO_SHAPE: Final = b"\xff"  # no list begins with this byte


class Transfer:
    """The transfer that is being handled."""

    __slots__ = (
        "_ending",
        "_length",
        "_start",
        "_tag_size",
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
        # The shape of the last transfer.
        self._start = _NO_SHAPE
        self._length = b""
        self._tag_size = 0
        self._ending = b""

    def read(self, data: bytes, at: int, end: int) -> None:
        """Read the transfer whose list is at `at`; raises ProtocolError."""
        if data.startswith(self._start, at):
            number_at = at + len(self._start)
            ending_at = number_at + 4 + self._tag_size
            stop = ending_at + len(self._ending)
            if (
                data.startswith(self._length, number_at + 4)
                and data.startswith(self._ending, ending_at)
                and stop <= end
            ):
                self.number = U32.unpack_from(data, number_at)[0]
                self.payload = data[stop:end]
                if self.keeps_tag:
                    self.tag = data[number_at + 4 + len(self._length) : ending_at]
                return
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
        self._start = _NO_SHAPE
        if count > 2 and self.number != ABSENT:
            self._learn(data, first, stop)

    def _learn(self, data: bytes, at: int, stop: int) -> None:
        """Remember the shape of the transfer that was read, if the next one can have the same."""
        start = at + (3 if data[at] == _SHORT_LIST else 9)
        start += 1 + WIDTHS[data[start]]  # the handle
        tag = start + 5
        if data[start] != _UINT or data[tag] == NULL:
            return
        self._start = data[at : start + 1]
        self._length = data[tag : tag + (2 if data[tag] == _SHORT_BINARY else 5)]
        ending = _tag_end(data, tag)
        self._tag_size = ending - tag
        self._ending = data[ending:stop]

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
