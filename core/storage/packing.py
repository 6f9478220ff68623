# Compiled by mypyc: see setup.py.
"""Packing: how a store writes places, messages and settlements as numbers and bytes.

A message's *place* is one number: its queue's number in the upper bits, its sequence number in the
lower `SEQ_BITS`. So places of a queue are neighbours in order.

An arrival in a blob is `RECORD`, then its kind, group, head and body. A settled message is its
place. The store's thread packs them. Compiled code never releases the interpreter lock by itself,
so no other thread could run meanwhile. So the lock is released every `BREATH` messages (`breathe`).
Every store can keep what a commit brought as such blobs, and write rows later. A batch in the
journal's files is four blobs behind a header (`packed_batch`).
"""

from __future__ import annotations

import struct
from typing import Final
from zlib import crc32

SEQ_BITS: Final = 42  # the upper half of the numbers is for delayed messages (core.queue.timers)
QUEUES_MAX: Final = 1 << (63 - SEQ_BITS)  # about two million queues in one store
SEQ_MASK: Final = (1 << SEQ_BITS) - 1

# Place, size, expiry, time due, priority; the lengths of kind, group, head and body.
RECORD: Final = struct.Struct(">qqqqBBIII")
PLACE: Final = struct.Struct(">q")
PLACE_SIZE: Final = PLACE.size
# A batch as one blob: `HEADER`, the header's checksum, then arrivals, settled places, ids, and the
# rest. A header has the mark of its file, the batch's number, how many messages it brings, the
# lengths of the four parts, and the checksum of the parts.
HEADER: Final = struct.Struct(">8sQIIIIII")
CHECKSUM: Final = struct.Struct(">I")
HEADER_SIZE: Final = HEADER.size + CHECKSUM.size
ID_HEADER: Final = struct.Struct(">qB")
CRC_STEP: Final = 5000  # for more bytes zlib releases the interpreter lock, and waits to get it
CRC_WHOLE: Final = 65536  # for so many bytes that is worth it

BREATH: Final = 1000  # messages of a batch between two calls of `breathe`
PAUSE: Final = bytes(2 * CRC_STEP)  # enough bytes for zlib to release the interpreter lock

MESSAGE_NUMBERS: Final = struct.Struct(">qqqq")
SEPARATOR: Final = "\x1f"  # between the values that a checksum is made of

# Group, size, expiry, priority, time due; kind, head, body.
Arrival = tuple[str, int, int, int, int, str, bytes, bytes]


def place_of(queue: int, seq: int) -> int:
    """Return the place of a message."""
    return queue << SEQ_BITS | seq


def breathe() -> None:
    """Let other threads run: zlib releases the interpreter lock for a checksum of this length."""
    crc32(PAUSE)


def packed(arrivals: dict[int, Arrival]) -> bytes:
    """Write arrivals as one blob."""
    return packed_at(arrivals, 0, {})


def unpacked(blob: bytes) -> dict[int, Arrival]:
    """Read arrivals back. Raise ValueError if the blob holds anything else."""
    arrivals: dict[int, Arrival] = {}
    unpack_at(blob, 0, arrivals, {})
    return arrivals


def unpack_at(
    blob: bytes, begin: int, arrivals: dict[int, Arrival], offsets: dict[int, int]
) -> None:
    """Read arrivals of a blob that begins at an offset, with the offset of each."""
    at = 0
    while at < len(blob):
        start = at
        try:
            place, size, expires_ms, due_ms, priority, *lengths = RECORD.unpack_from(blob, at)
        except struct.error as error:
            raise ValueError(f"byte {at}: {error}") from error
        at += RECORD.size
        parts = []
        for length in lengths:
            parts.append(blob[at : at + length])
            at += length
        kind, group, head, body = parts
        arrivals[place] = (
            *(group.decode(), size, expires_ms, priority, due_ms),
            *(kind.decode(), head, body),
        )
        offsets[place] = begin + start
    if at > len(blob):
        raise ValueError(f"its last message ends at byte {at}, and it has {len(blob)}")


def packed_at(arrivals: dict[int, Arrival], at: int, offsets: dict[int, int]) -> bytes:
    """Write arrivals as one blob that will begin at an offset; note the offset of each."""
    parts: list[bytes] = []
    pack = RECORD.pack
    left = BREATH
    for place, arrival in arrivals.items():
        left -= 1
        if left == 0:
            left = BREATH
            breathe()
        group, size, expires_ms, priority, due_ms, kind, head, body = arrival
        name = group.encode()
        known_as = kind.encode()
        kinds, names, heads, bodies = len(known_as), len(name), len(head), len(body)
        parts.append(
            pack(place, size, expires_ms, due_ms, priority, kinds, names, heads, bodies)
            + known_as
            + name
        )
        parts.append(head)
        parts.append(body)
        offsets[place] = at
        at += RECORD.size + kinds + names + heads + bodies
    return b"".join(parts)


def checksum(blob: bytes, begun: int = 0) -> int:
    """Return the CRC of a blob; the interpreter lock is kept unless the blob is large."""
    length = len(blob)
    if length <= CRC_STEP or length >= CRC_WHOLE:
        return crc32(blob, begun)
    view = memoryview(blob)
    for at in range(0, length, CRC_STEP):
        begun = crc32(view[at : at + CRC_STEP], begun)
    return begun


def packed_batch(mark: bytes, number: int, messages: int, parts: list[bytes]) -> bytes:
    """Write a batch: its header, then its four parts."""
    arrivals, settled, ids, rest = parts
    crc = checksum(rest, checksum(ids, checksum(settled, checksum(arrivals))))
    lengths = (len(arrivals), len(settled), len(ids), len(rest))
    header = HEADER.pack(mark, number, messages, *lengths, crc)
    return b"".join((header, CHECKSUM.pack(crc32(header)), arrivals, settled, ids, rest))


def packed_ids(ids: dict[int, bytes]) -> bytes:
    """Write message ids as one blob: place, length and digest of each."""
    return b"".join([ID_HEADER.pack(place, len(digest)) + digest for place, digest in ids.items()])


def ids_of(blob: bytes) -> dict[int, bytes]:
    """Read message ids back."""
    ids: dict[int, bytes] = {}
    at = 0
    while at < len(blob):
        place, length = ID_HEADER.unpack_from(blob, at)
        at += ID_HEADER.size
        ids[place] = blob[at : at + length]
        at += length
    return ids


def packed_places(places: list[int]) -> bytes:
    """Write the places of settled messages as one blob."""
    return struct.pack(f">{len(places)}q", *places)


def places_of(blob: bytes) -> list[int]:
    """Read the places of settled messages back. Raise ValueError if the blob was cut."""
    if len(blob) % PLACE_SIZE:
        raise ValueError(f"{len(blob)} bytes of places")
    return list(struct.unpack(f">{len(blob) // PLACE_SIZE}q", blob))


def row_sum(*texts: str) -> int:
    """Return the checksum of a row that was made with these texts."""
    return crc32(SEPARATOR.join(texts).encode())


def message_sum(group: bytes, size: int, expires_ms: int, priority: int, due_ms: int) -> int:
    """Return the checksum of a message's row, without its body."""
    return crc32(MESSAGE_NUMBERS.pack(size, expires_ms, priority, due_ms), crc32(group))
