# Compiled by mypyc: see setup.py.
"""Checker: checks the encoded values that a peer sent, without decoding them.

`skip` and `decode` trust bytes that the checker has accepted. Sizes and counts add up, every type
code is known, text is UTF-8, symbols are ASCII, and map keys are of types that can be keys.

Rules of this file:
- The depth and the number of values are limited, so no message can cause deep recursion or long
  work.
- An array whose elements have no width is refused: nine bytes could claim 2^32 elements.
- Only ProtocolError (malformed) and RefusedError (a limit) are raised.

Source: AMQP 1.0 part 1, section 1.6.
"""

from __future__ import annotations

from struct import error as StructError
from typing import Final

from covey.core.errors import ProtocolError, RefusedError
from covey.protocols.amqp.codec.types import (
    ARRAYS,
    BOOLEAN,
    CHAR,
    COMPOUNDS,
    DESCRIBED,
    KEYS,
    MAPS,
    SHORT_STRING,
    STRETCHED,
    SYMBOLS,
    TEXTS,
    U32,
    WIDTHS,
    malformed,
    span,
    stretch,
)

DEPTH_MAX: Final = 64  # as deep as a selector may nest; real messages stay below ten
VALUES_MAX: Final = 100_000  # values of one message: checking them takes some 30 ms


def check_text(data: bytes, code: int, at: int) -> int:
    """Check a text or binary whose type code is just before `at`; return where it ends."""
    start, end = stretch(data, code, at)
    if end > len(data):
        raise malformed(f"a value of {end - start} bytes at byte {start} is cut short")
    if code in TEXTS:
        try:
            text = data[start:end].decode()
        except UnicodeDecodeError as error:
            raise malformed(f"text that is not UTF-8 at byte {start + error.start}") from error
        if code in SYMBOLS and not text.isascii():
            raise malformed(f"a symbol that is not ASCII at byte {start}")
    return end


class Checker:
    """One check of the values of one message or frame."""

    __slots__ = ("data", "left")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.left = VALUES_MAX

    def check(self, at: int) -> int:
        """Check the value at `at`; return where it ends."""
        try:
            end = self._value(at, 0)
        except (IndexError, StructError) as error:
            raise malformed(f"the value at byte {at} is cut short") from error
        if end > len(self.data):
            raise malformed(f"the value at byte {at} is cut short")
        return end

    def _value(self, at: int, depth: int) -> int:
        code = self.data[at]
        if code == DESCRIBED:
            if depth >= DEPTH_MAX:
                raise _too_deep()
            self._spend(1)
            return self._value(self._value(at + 1, depth + 1), depth + 1)
        return self._content(code, at + 1, depth)

    def _content(self, code: int, at: int, depth: int) -> int:
        """Check what follows a type code; all elements of an array share one code."""
        width = WIDTHS[code]
        if width >= 0:
            if code == BOOLEAN and self.data[at] > 1:
                raise malformed(f"a boolean that is {self.data[at]} at byte {at}")
            if code == CHAR:
                _check_char(U32.unpack_from(self.data, at)[0])
            return at + width
        if code in STRETCHED:
            return check_text(self.data, code, at)
        if depth >= DEPTH_MAX:
            raise _too_deep()
        if code in COMPOUNDS:
            return self._compound(code, at, depth + 1)
        if code in ARRAYS:
            return self._array(code, at, depth + 1)
        raise malformed(f"no type has the code 0x{code:02x} at byte {at - 1}")

    def _compound(self, code: int, at: int, depth: int) -> int:
        at, end, count = span(self.data, code, at)
        self._spend(count)
        if code in MAPS:
            if count % 2:
                raise malformed(f"a map of {count} items has a key without a value")
            for _ in range(count // 2):
                if self.data[at] not in KEYS:
                    raise malformed(f"the map key at byte {at} is not a plain value")
                at = self._item(self._item(at, depth), depth)
        else:
            for _ in range(count):
                at = self._item(at, depth)
        if at != end:
            raise malformed(f"{count} items end at byte {at}, their list or map at byte {end}")
        return end

    def _item(self, at: int, depth: int) -> int:
        """Check a value; short ASCII text, as nearly all values are, takes a short way."""
        data = self.data
        if data[at] == SHORT_STRING:
            end = at + 2 + data[at + 1]
            if data[at + 2 : end].isascii():
                return end  # if it is beyond the data, the check of the list's end finds that
        return self._value(at, depth)

    def _array(self, code: int, at: int, depth: int) -> int:
        at, end, count = span(self.data, code, at)
        while self.data[at] == DESCRIBED:
            self._spend(1)
            at = self._value(at + 1, depth)
        element = self.data[at]
        at += 1
        width = WIDTHS[element]
        if width == 0 and count:
            raise malformed(f"an array of {count} elements without width")
        if width > 0 and element != BOOLEAN and element != CHAR:
            at += width * count
        else:
            self._spend(count)
            for _ in range(count):
                at = self._content(element, at, depth)
        if at != end:
            raise malformed(f"{count} elements end at byte {at}, their array at byte {end}")
        return end

    def _spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise RefusedError(f"there are more than {VALUES_MAX} values", "limit")


def _too_deep() -> ProtocolError:
    return malformed(f"values are nested more than {DEPTH_MAX} deep")


def _check_char(point: int) -> None:
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise malformed(f"a character that is 0x{point:x}")
