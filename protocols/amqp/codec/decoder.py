# Compiled by mypyc: see setup.py.
"""Decoder: Python values from AMQP bytes that a `Checker` has accepted.

Rules of this file:
- Nothing is checked again. Bytes that were not checked may raise any exception here.
- Types that Python does not distinguish give the same result: a symbol is a str, a timestamp an
  int. The decimals stay bytes, because nobody needs them.
- A described value keeps its descriptor (`Described`). An array is the exception: all of its
  elements have the same descriptor.

Source: AMQP 1.0 part 1, section 1.6.
"""

from __future__ import annotations

from uuid import UUID

from covey.protocols.amqp.codec.types import (
    ARRAYS,
    BOOLEAN,
    CHAR,
    CONSTANTS,
    DESCRIBED,
    LIST0,
    MAPS,
    NUMBERS,
    OPAQUE,
    STRETCHED,
    TEXTS,
    U32,
    UUID_CODE,
    skip,
    span,
    stretch,
)


class Described:
    """A value with a descriptor before it."""

    __slots__ = ("descriptor", "value")

    def __init__(self, descriptor: object, value: object) -> None:
        self.descriptor = descriptor
        self.value = value


def decode(data: bytes, at: int = 0) -> object:
    """Return the value at `at`."""
    return _value(data, at)[0]


def decode_map(data: bytes, at: int) -> dict[object, object]:
    """Return the map at `at`."""
    first, _end, count = span(data, data[at], at + 1)
    return _map(data, first, count)


def pick(data: bytes, at: int, names: frozenset[bytes]) -> dict[str, object]:
    """Return the values of these names in the map at `at`; other values are not decoded."""
    found: dict[str, object] = {}
    at, _end, count = span(data, data[at], at + 1)
    for _ in range(count // 2):
        code = data[at]
        name = b""
        if code in TEXTS:
            start, value = stretch(data, code, at + 1)
            name = data[start:value]
        else:
            value = skip(data, at)
        if name in names:
            found[name.decode()], at = _value(data, value)
        else:
            at = skip(data, value)
    return found


def text_at(data: bytes, at: int) -> str:
    """Return the text at `at`; "" if the value is not text."""
    code = data[at]
    if code not in TEXTS:
        return ""
    start, end = stretch(data, code, at + 1)
    return data[start:end].decode()


def _value(data: bytes, at: int) -> tuple[object, int]:
    code = data[at]
    if code == DESCRIBED:
        descriptor, at = _value(data, at + 1)
        value, at = _value(data, at)
        return Described(descriptor, value), at
    return _content(data, code, at + 1)


def _content(data: bytes, code: int, at: int) -> tuple[object, int]:
    if code in STRETCHED:
        start, end = stretch(data, code, at)
        return (data[start:end].decode() if code in TEXTS else data[start:end]), end
    if code in NUMBERS:
        form = NUMBERS[code]
        return form.unpack_from(data, at)[0], at + form.size
    if code in CONSTANTS:
        return CONSTANTS[code], at
    if code == BOOLEAN:
        return data[at] != 0, at + 1
    if code == CHAR:
        return chr(U32.unpack_from(data, at)[0]), at + 4
    if code in OPAQUE:
        raw = data[at : at + OPAQUE[code]]
        return (UUID(bytes=raw) if code == UUID_CODE else raw), at + len(raw)
    if code == LIST0:
        return [], at
    return _compound(data, code, at)


def _compound(data: bytes, code: int, at: int) -> tuple[object, int]:
    first, end, count = span(data, code, at)
    if code in MAPS:
        return _map(data, first, count), end
    if code in ARRAYS:
        return _array(data, first, count), end
    return _items(data, first, count), end


def _items(data: bytes, at: int, count: int) -> list[object]:
    items: list[object] = []
    for _ in range(count):
        item, at = _value(data, at)
        items.append(item)
    return items


def _map(data: bytes, at: int, count: int) -> dict[object, object]:
    pairs: dict[object, object] = {}
    for _ in range(count // 2):
        key, at = _value(data, at)
        pairs[key], at = _value(data, at)
    return pairs


def _array(data: bytes, at: int, count: int) -> list[object]:
    while data[at] == DESCRIBED:
        at = skip(data, at + 1)
    element = data[at]
    at += 1
    items: list[object] = []
    for _ in range(count):
        item, at = _content(data, element, at)
        items.append(item)
    return items
