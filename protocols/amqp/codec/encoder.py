# Compiled by mypyc: see setup.py.
"""Encoder: AMQP bytes from Python values.

Rules of this file:
- Every function returns one complete encoded value, in the shortest form of its type. `section`
  puts a descriptor before a value.
- Nothing here fails, because it is too late to refuse a message. What a type cannot hold becomes
  something near: a number beyond 64 bits becomes text, a lone surrogate a question mark, and a
  negative number where none can be becomes 0.

Source: AMQP 1.0 part 1, section 1.6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack
from typing import Final
from uuid import UUID

NULL: Final = b"\x40"
TRUE: Final = b"\x41"
FALSE: Final = b"\x42"

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**32 - 1
ULONG_MAX: Final = 2**64 - 1

_SHORT_MAX: Final = 255  # the largest 8-bit size


def boolean(truth: bool) -> bytes:
    """Encode a boolean."""
    return TRUE if truth else FALSE


def string(text: str) -> bytes:
    """Encode text."""
    return _stretched(0xA1, text.encode("utf-8", "replace"))


def symbol(text: str) -> bytes:
    """Encode a symbol."""
    return _stretched(0xA3, text.encode("ascii", "replace"))


def binary(content: bytes) -> bytes:
    """Encode bytes."""
    return _stretched(0xA0, content)


def uint(number: int) -> bytes:
    """Encode an unsigned 32-bit number."""
    if number <= _SHORT_MAX:
        return b"\x52" + bytes((number,)) if number > 0 else b"\x43"
    return pack(">BI", 0x70, min(number, UINT_MAX))


def ulong(number: int) -> bytes:
    """Encode an unsigned 64-bit number."""
    if number <= _SHORT_MAX:
        return b"\x53" + bytes((number,)) if number > 0 else b"\x44"
    return pack(">BQ", 0x80, min(number, ULONG_MAX))


def timestamp(milliseconds: int) -> bytes:
    """Encode a time since the epoch."""
    return pack(">Bq", 0x83, max(-LONG_MAX, min(milliseconds, LONG_MAX)))


def whole(number: int) -> bytes:
    """Encode a whole number as int, else long, else ulong, else text."""
    if -128 <= number <= 127:
        return pack(">Bb", 0x54, number)
    if -INT_MAX - 1 <= number <= INT_MAX:
        return pack(">Bi", 0x71, number)
    if -LONG_MAX - 1 <= number <= LONG_MAX:
        return pack(">Bq", 0x81, number)
    return ulong(number) if 0 < number <= ULONG_MAX else string(str(number))


def compound(parts: Sequence[bytes], *, is_map: bool = False) -> bytes:
    """Encode a list of encoded items, or a map of alternating encoded keys and values."""
    return packed(b"".join(parts), len(parts), is_map=is_map)


def packed(items: bytes, count: int, *, is_map: bool = False) -> bytes:
    """Encode a list or map whose `count` encoded items are already joined."""
    if not count and not is_map:
        return b"\x45"
    if len(items) < _SHORT_MAX and count <= _SHORT_MAX:
        return bytes((0xC0 + is_map, len(items) + 1, count)) + items
    return pack(">BII", 0xD0 + is_map, len(items) + 4, count) + items


def symbols(names: Sequence[str]) -> bytes:
    """Encode an array of symbols of at most 255 bytes each."""
    encoded = [name.encode("ascii") for name in names]
    items = b"".join([bytes((len(name),)) + name for name in encoded])
    return pack(">BIIB", 0xF0, len(items) + 5, len(names), 0xA3) + items


def value(item: object) -> bytes:
    """Encode a Python value as the type that suits it."""
    if isinstance(item, str):
        return string(item)
    if isinstance(item, bool):
        return boolean(item)
    if isinstance(item, int):
        return whole(item)
    if isinstance(item, float):
        return pack(">Bd", 0x82, item)
    if isinstance(item, bytes):
        return binary(item)
    if isinstance(item, UUID):
        return b"\x98" + item.bytes
    if isinstance(item, Mapping):
        parts = [value(part) for pair in item.items() for part in pair]
        return compound(parts, is_map=True)
    if isinstance(item, Sequence):
        return compound([value(part) for part in item])
    return NULL


def section(code: int, encoded: bytes) -> bytes:
    """Put the descriptor of a section, performative or frame body before an encoded value."""
    return bytes((0x00, 0x53, code)) + encoded


def _stretched(code: int, content: bytes) -> bytes:
    if len(content) <= _SHORT_MAX:
        return bytes((code, len(content))) + content
    return pack(">BI", code + 0x10, len(content)) + content
