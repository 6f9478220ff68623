"""The bytes of AMQP 1.0 that the load needs: a dozen types, and frames (parts 1 and 2).

Written by hand so that the load depends on no library, least of all the broker's own.

    frame    size (4) | data offset 2 (1) | 0 AMQP, 1 SASL (1) | channel (2) | performative, payload
    performative    0x00 0x53 code list
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
HEADER_SIZE = 8

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION = 0x10, 0x11, 0x12, 0x13, 0x14, 0x15
SASL_MECHANISMS, SASL_INIT, SASL_OUTCOME = 0x40, 0x41, 0x44
DETACH, END, CLOSE = 0x16, 0x17, 0x18
ACCEPTED = 0x24
SOURCE, TARGET = 0x28, 0x29
CODE_PLACE = 10  # offset of a performative's code in its frame

ROW_MAX = 256  # frames looked at together

NULL = b"\x40"
TRUE = b"\x41"
FALSE = b"\x42"

_NUMBERS = {0x50: "B", 0x60: ">H", 0x70: ">I", 0x80: ">Q", 0x52: "B", 0x53: "B", 0x56: "B"}
_FIRST_WIDTHS = {0x43: 0, 0x52: 1, 0x70: 4}
_CONSTANTS = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0, 0x45: None}


def uint(value: int) -> bytes:
    """Write a number."""
    return b"\x70" + value.to_bytes(4, "big")


def ubyte(value: int) -> bytes:
    """Write a small number, as the settle modes are."""
    return b"\x50" + bytes((value,))


def binary(data: bytes) -> bytes:
    """Write bytes."""
    return b"\xb0" + len(data).to_bytes(4, "big") + data


def string(text: str) -> bytes:
    """Write a text."""
    data = text.encode()
    return b"\xb1" + len(data).to_bytes(4, "big") + data


def symbol(text: str) -> bytes:
    """Write a name of the protocol's own."""
    return b"\xa3" + bytes((len(text),)) + text.encode()


def described(code: int, *fields: bytes) -> bytes:
    """Write a list that its code describes."""
    data = b"".join(fields)
    head = (len(data) + 4).to_bytes(4, "big") + len(fields).to_bytes(4, "big")
    return b"\x00\x53" + bytes((code,)) + b"\xd0" + head + data


def frame(performative: bytes, payload: bytes = b"", *, is_sasl: bool = False) -> bytes:
    """Write a frame on channel 0."""
    size = HEADER_SIZE + len(performative) + len(payload)
    return size.to_bytes(4, "big") + bytes((2, is_sasl, 0, 0)) + performative + payload


def rows(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the whole frames, those of one size that follow each other together.

    Each row is a place, the size of its frames, and their number.
    """
    place = 0
    end = len(data)
    while place + 4 <= end:
        head = data[place : place + 4]
        size = int.from_bytes(head, "big")
        if not HEADER_SIZE <= size <= end - place:
            break
        count = 1
        if data.startswith(head, place + size):
            most = min((end - place) // size, ROW_MAX)
            for byte in range(4):  # of the size; a row of frames is as long as these agree
                column = data[place + byte : place + most * size : size]
                most = min(most, len(column) - len(column.lstrip(head[byte : byte + 1])))
            count = most
        yield place, size, count
        place += count * size


def cut(data: bytes) -> int:
    """Return where the last whole frame ends."""
    place = 0
    for first, size, count in rows(data):
        place = first + size * count
    return place


def performatives(frames: bytes) -> Iterator[tuple[int, int]]:
    """Yield the code of each frame and its place; empty frames are heart-beats."""
    for first, size, count in rows(frames):
        if size > HEADER_SIZE:
            for place in range(first, first + size * count, size):
                yield frames[place + CODE_PLACE], place


def is_of_one(frames: bytes, place: int) -> bool:
    """Return True if a disposition plainly names one delivery, as most brokers' do.

    False if it has to be read field by field.
    """
    at = place + CODE_PLACE + 1
    at += 9 if frames[at] == 0xD0 else 3
    width = _FIRST_WIDTHS.get(frames[at + 1])  # behind the role
    return width is not None and frames[at + 2 + width : at + 3 + width] == NULL


def fields(frames: bytes, place: int, count: int) -> list[int | bool | None]:
    """Return the first fields of the performative at a place: numbers and booleans, else None."""
    at = place + CODE_PLACE + 1
    kind = frames[at]
    if kind == 0x45:
        return [None] * count
    wide = kind == 0xD0
    there = frames[at + 2] if not wide else int.from_bytes(frames[at + 5 : at + 9], "big")
    at += 9 if wide else 3
    found: list[int | bool | None] = []
    for _ in range(min(count, there)):
        value, at = _field(frames, at)
        found.append(value)
    return found + [None] * (count - len(found))


def _field(data: bytes, at: int) -> tuple[int | bool | None, int]:
    kind = data[at]
    at += 1
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], at
    if kind in _NUMBERS:
        form = _NUMBERS[kind]
        (number,) = struct.unpack_from(form, data, at)
        return int(number), at + struct.calcsize(form)
    if kind == 0x00:
        _, at = _field(data, at)
        return _field(data, at)
    if kind >= 0xA0:  # these begin with their size: one byte if the kind's high digit is even
        wide = kind >> 4 & 1
        size = int.from_bytes(data[at : at + 4], "big") if wide else data[at]
        return None, at + (4 if wide else 1) + size
    raise ValueError(f"unexpected AMQP type {kind:#x}")
