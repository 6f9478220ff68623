# Compiled by mypyc: see setup.py.
"""Performatives: reads and writes those frames of AMQP 1.0 that proton does not handle.

    frame           size (4) | data offset, in words (1) | type 0 (1) | channel (2) | body
    body            0x00 0x53 code | list of fields | payload

The code may also be written as a longer number, or as a name.

The bytes come from a peer and may be anything: only ProtocolError is raised. Most fields are
numbers or booleans. -1 stands for an absent field. All sequence numbers wrap around at 32 bits
(AMQP 1.0 section 2.8.10).

Source: AMQP 1.0 part 2, sections 2.3 and 2.7.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

from covey.protocols.amqp.codec import encoder
from covey.protocols.amqp.codec.types import LIST0, LISTS, NULL, malformed, skip, span

OPEN: Final = 0x10
BEGIN: Final = 0x11
ATTACH: Final = 0x12
FLOW: Final = 0x13
TRANSFER: Final = 0x14
DISPOSITION: Final = 0x15
DETACH: Final = 0x16
END: Final = 0x17
CLOSE: Final = 0x18
ERROR: Final = 0x1D

_NAMES: Final = {
    b"amqp:open:list": OPEN,
    b"amqp:begin:list": BEGIN,
    b"amqp:attach:list": ATTACH,
    b"amqp:flow:list": FLOW,
    b"amqp:transfer:list": TRANSFER,
    b"amqp:disposition:list": DISPOSITION,
    b"amqp:detach:list": DETACH,
    b"amqp:end:list": END,
    b"amqp:close:list": CLOSE,
}

TRANSFER_STARTS: Final = bytes((0x00, 0x53, TRANSFER))  # how nearly all transfers begin
NUMBER_SIZE: Final = len(TRANSFER_STARTS)

HEAD: Final = Struct(">II")  # a frame's size; its data offset, type and channel as one number
HEAD_SIZE: Final = 8
CHANNEL: Final = 0xFFFF  # the bits of that number that are the channel
USUAL: Final = 0x0200  # the other bits of a usual AMQP frame: data offset 2, type 0
WORD: Final = 4  # bytes; the unit of the data offset
HEART_BEAT: Final = HEAD.pack(HEAD_SIZE, USUAL << 16)

MASK: Final = 2**32 - 1  # for sequence numbers, which wrap around
HALF: Final = 2**31  # two sequence numbers can be compared if their distance is less than this

ABSENT: Final = -1
# The type codes of numbers and booleans, and the widths of their values.
_WIDTHS: Final = {NULL: 0, 0x41: 0, 0x42: 0, 0x43: 0, 0x44: 0} | {
    0x50: 1, 0x52: 1, 0x53: 1, 0x56: 1, 0x60: 2, 0x70: 4, 0x80: 8,
}  # fmt: skip
_TRUE: Final = 0x41

# Places of fields in an attach.
_SOURCE_PLACE: Final = 5
_COUNT_PLACE: Final = 9  # the initial delivery-count


def later_by(number: int, other: int) -> int:
    """Return by how much a sequence number is later than another; below 0 if it is earlier."""
    distance = (number - other) & MASK
    return distance if distance < HALF else distance - MASK - 1


# Reading.


def code_of(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the code of the body at `at`, and where its list begins; the code is 0 if unknown."""
    if at + 3 < end and data[at] == 0:
        if data[at + 1] == 0x53:
            return data[at + 2], at + 3
        if data[at + 1] == 0x80 and at + 10 < end and not any(data[at + 2 : at + 9]):
            return data[at + 9], at + 10
        if data[at + 1] == 0xA3:
            place = at + 3 + data[at + 2]
            code = _NAMES.get(data[at + 3 : place], 0)
            return (code, place) if code and place < end else (0, at)
    return 0, at


def numbers(data: bytes, at: int, end: int, count: int) -> tuple[list[int], int]:
    """Return the first `count` fields of the list at `at`, and where the next field is.

    The place is 0 if there is no next field.
    """
    values = [ABSENT] * count
    try:
        if data[at] == LIST0:
            return values, 0
        if data[at] not in LISTS:
            raise malformed("a performative that is not a list")
        at, stop, there = span(data, data[at], at + 1)
        for place in range(min(count, there)):
            values[place], at = _number(data, at)
    except (IndexError, StructError) as error:
        raise malformed("a performative that is cut short") from error
    if at + (there > count) > stop or stop > end:
        raise malformed("a performative that is cut short")
    return values, at if there > count else 0


def _number(data: bytes, at: int) -> tuple[int, int]:
    code = data[at]
    at += 1
    width = _WIDTHS.get(code, -1)
    if width < 0:
        raise malformed(f"a field of the type 0x{code:02x} that has to be a number")
    if width:
        return int.from_bytes(data[at : at + width], "big"), at + width
    return (ABSENT if code == NULL else int(code == _TRUE)), at


def read_attach(data: bytes, at: int, end: int) -> tuple[int, int, bool]:
    """Return an attach's handle, its initial delivery-count, and whether it has a source."""
    try:
        if data[at] not in LISTS:
            raise malformed("an attach that is not a list")
        at, stop, there = span(data, data[at], at + 1)
        handle, at = _number(data, skip(data, at))
        count = ABSENT
        has_source = False
        for place in range(2, min(there, _COUNT_PLACE)):
            if place == _SOURCE_PLACE:
                has_source = data[at] != NULL
            at = skip(data, at)
        if there > _COUNT_PLACE:
            count = _number(data, at)[0]
    except (IndexError, StructError) as error:
        raise malformed("an attach that cannot be read") from error
    if at > stop or stop > end or handle < 0:
        raise malformed("an attach that cannot be read")
    return handle, max(count, 0), has_source


# Writing.


def frame_of(channel: int, body: bytes) -> bytes:
    """Write a frame."""
    return HEAD.pack(len(body) + HEAD_SIZE, USUAL << 16 | channel) + body


def performative(code: int, *fields: bytes) -> bytes:
    """Write a frame's body from encoded fields."""
    return encoder.section(code, encoder.compound(fields))


def error_of(condition: str, text: str, info: bytes = encoder.NULL) -> bytes:
    """Write an error as it is carried by an end, a rejection or a close."""
    return performative(ERROR, encoder.symbol(condition), encoder.string(text), info)


# A transfer up to its payload. The deliveries of a link differ only in the size and the number:
#
#   size | 02 00 channel 00 53 14 c0 14 06 70 handle 70 | number | a0 04 | number | 43 settled more
#
# The number is written twice: it is also the delivery's tag.
TRANSFER_HEAD: Final = Struct(">I16sI2sI3s")
TAG: Final = b"\xa0\x04"
LAST: Final = (b"\x43\x42\x42", b"\x43\x41\x42")  # the last fields: unsettled, settled
MORE: Final = (b"\x43\x42\x41", b"\x43\x41\x41")  # the same for a transfer that others follow

_START: Final = Struct(">HH7sIB")
_FIELDS: Final = b"\x00\x53\x14\xc0\x14\x06\x70"


def transfer_start(channel: int, handle: int) -> bytes:
    """Write what all transfers of a link share: everything between the size and the number."""
    return _START.pack(USUAL, channel, _FIELDS, handle, 0x70)
