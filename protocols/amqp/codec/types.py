# Compiled by mypyc: see setup.py.
"""The type codes of AMQP 1.0, and where each encoded value ends.

    00 descriptor value    described         4x .. 9x    fixed: 0 1 2 4 8 16 bytes
    ax size bytes          text, binary      bx          the same with a 32-bit size
    cx size count items    list, map         dx          the same with 32-bit size and count
    ex size count code     array             fx          the same with 32-bit size and count

Rules of this file:
- There are tables, and the arithmetic of sizes. Nothing is decoded.
- `skip` is for bytes that a `Checker` has accepted. All other functions may get any bytes.
- The other functions raise ProtocolError. If the bytes end too soon, they raise IndexError or
  struct.error; the caller turns these into an error with a cause.

Source: AMQP 1.0 part 1, sections 1.2 and 1.6.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from covey.core.errors import ProtocolError

U32: Final = Struct(">I")

DESCRIBED: Final = 0x00
NULL: Final = 0x40
LIST0: Final = 0x45
SMALL_ULONG: Final = 0x53
BOOLEAN: Final = 0x56
CHAR: Final = 0x73
UUID_CODE: Final = 0x98
SHORT_STRING: Final = 0xA1

CONSTANTS: Final[dict[int, object]] = {NULL: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0}
NUMBERS: Final[dict[int, Struct]] = {
    0x50: Struct(">B"),  # ubyte
    0x51: Struct(">b"),  # byte
    0x52: Struct(">B"),  # smalluint
    0x53: Struct(">B"),  # smallulong
    0x54: Struct(">b"),  # smallint
    0x55: Struct(">b"),  # smalllong
    0x60: Struct(">H"),  # ushort
    0x61: Struct(">h"),  # short
    0x70: Struct(">I"),  # uint
    0x71: Struct(">i"),  # int
    0x72: Struct(">f"),  # float
    0x80: Struct(">Q"),  # ulong
    0x81: Struct(">q"),  # long
    0x82: Struct(">d"),  # double
    0x83: Struct(">q"),  # timestamp
}
OPAQUE: Final[dict[int, int]] = {0x74: 4, 0x84: 8, 0x94: 16, UUID_CODE: 16}  # and three decimals

BINARIES: Final = frozenset({0xA0, 0xB0})
STRINGS: Final = frozenset({0xA1, 0xB1})
SYMBOLS: Final = frozenset({0xA3, 0xB3})
TEXTS: Final = STRINGS | SYMBOLS
STRETCHED: Final = BINARIES | TEXTS
LISTS: Final = frozenset({0xC0, 0xD0})
MAPS: Final = frozenset({0xC1, 0xD1})
ARRAYS: Final = frozenset({0xE0, 0xF0})
COMPOUNDS: Final = LISTS | MAPS
# The types of a map's keys: text, binary and everything of fixed width.
KEYS: Final = STRETCHED | frozenset({*CONSTANTS, *NUMBERS, *OPAQUE, BOOLEAN, CHAR})

_WIDE: Final = 0x10  # this bit of a type code says that the size has 32 bits


def _widths() -> list[int]:
    widths = [-1] * 256
    for constant in (*CONSTANTS, LIST0):
        widths[constant] = 0
    for code, form in NUMBERS.items():
        widths[code] = form.size
    for code, width in OPAQUE.items():
        widths[code] = width
    widths[BOOLEAN] = 1
    widths[CHAR] = 4
    return widths


WIDTHS: Final = _widths()
"""The width of each fixed code's value; -1 where it is written with the value, or unknown."""


def malformed(text: str) -> ProtocolError:
    """Return the error for bytes that are not valid AMQP."""
    return ProtocolError(text, "decode-error")


def stretch(data: bytes, code: int, at: int) -> tuple[int, int]:
    """Return start and end of a text or binary whose type code is just before `at`."""
    if code & _WIDE:
        size: int = U32.unpack_from(data, at)[0]
        return at + 4, at + 4 + size
    return at + 1, at + 1 + data[at]


def span(data: bytes, code: int, at: int) -> tuple[int, int, int]:
    """Return first item, end and count of a list, map or array; its code is just before `at`."""
    if code & _WIDE:
        size: int = U32.unpack_from(data, at)[0]
        count: int = U32.unpack_from(data, at + 4)[0]
        first = at + 8
        end = at + 4 + size
    else:
        count = data[at + 1]
        first = at + 2
        end = at + 1 + data[at]
    if end > len(data) or first > end:
        raise malformed(f"a list, map or array at byte {at} reaches to byte {end}")
    return first, end, count


def skip(data: bytes, at: int) -> int:
    """Return where the value at `at` ends.

    A described value is a descriptor and a value, so two more values must be skipped. The function
    is a loop and does not call itself: a peer may nest descriptors as deep as it likes, and
    compiled recursion would overflow the C stack.
    """
    left = 1
    while left:
        code = data[at]
        at += 1
        width = WIDTHS[code]
        if width >= 0:
            at += width
        elif code == DESCRIBED:
            left += 2
        else:
            at = stretch(data, code, at)[1]  # lists and arrays have their sizes at the same place
        left -= 1
    return at
