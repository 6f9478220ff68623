"""Confirmed: up to which batch the store has promised something, kept apart from the database.

Every batch has a running number, which is in the journal (`core.storage.sqlite.journal`). What is
missing between two batches is known by their numbers. But the journal alone cannot tell a last
batch that a crash tore, of which nothing was promised, from one that was confirmed and damaged or
cut off later. So the last batches are noted here when they are safe, each with how many messages it
brought. A start compares the two: what is noted and not in the journal is missing.

A note goes into a file that is mapped into memory: no call of the system, no wait. It outlives the
process at once, and a power loss some seconds later, or after the next checkpoint. It is made when
the batch is on the disk, so it never promises too much: after a power loss it may know less.

    slot `number % SLOTS`: number, messages, checksum

See docs/decisions/013-what-was-confirmed.md and 014-journal-of-our-own.md.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

CONFIRMED_FILE: Final = "confirmed"
SLOTS: Final = 1024  # more batches than a log holds between two checkpoints
NOTE: Final = Struct(">QI")
SLOT: Final = Struct(">QII")
SIZE: Final = SLOTS * SLOT.size


class Confirmed:
    """The last batches that were promised to be safe."""

    def __init__(self, directory: Path) -> None:
        """Read what the last run has noted; a store that has no such file has noted nothing."""
        self.path = directory / CONFIRMED_FILE
        self.batches: dict[int, int] = {}  # how many messages each brought, by the last run
        self._map: mmap.mmap | None = None
        with suppress(FileNotFoundError):
            self._read(self.path.read_bytes())
        self.newest = max(self.batches, default=0)

    def open(self) -> None:
        """Have room for notes; on a disk that has none for them there are none."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if os.fstat(descriptor).st_size != SIZE:
                    # Written, not only made long: a page without a place on the disk would end us.
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, bytes(SIZE), 0)
                self._map = mmap.mmap(descriptor, SIZE)
            finally:
                os.close(descriptor)
        except (OSError, ValueError):
            self._map = None

    def note(self, number: int, messages: int) -> None:
        """Note a batch that is on the disk; one that has no number of its own is none."""
        if self._map is not None and number > self.newest:
            self.newest = number
            at = number % SLOTS * SLOT.size
            note = NOTE.pack(number, messages)
            self._map[at : at + SLOT.size] = SLOT.pack(number, messages, crc32(note))

    def sync(self) -> None:
        """Have the notes on the disk; they are evidence only, and nobody's message."""
        if self._map is not None:
            with suppress(OSError):
                self._map.flush()

    def close(self) -> None:
        """Let go of the file."""
        if self._map is not None:
            self._map.close()
            self._map = None

    def told(self, first: int, last: int) -> str:
        """Say that batches cannot be found, and how many messages came with them.

        Nobody's name is in it.
        """
        lost = [count for number, count in self.batches.items() if first <= number <= last]
        least = "" if len(lost) == last - first + 1 else "at least "
        batches = f"batch {last}" if first == last else f"batches {first} to {last}"
        return (
            f"{batches} of the store, confirmed before the last end, cannot be found:"
            f" {least}{sum(lost)} messages came with them, and what they settled comes again"
        )

    def _read(self, data: bytes) -> None:
        for at in range(0, len(data) - SLOT.size + 1, SLOT.size):
            number, messages, crc = SLOT.unpack_from(data, at)
            if number and crc == crc32(NOTE.pack(number, messages)):
                self.batches[number] = messages
