"""Confirmed: up to which batch the store has promised something, kept apart from the database.

Every batch has a running number, which is in the journal (`core.storage.sqlite.journal`). A gap in
the numbers shows that batches are missing. But the end of the journal is ambiguous. Its last batch
may have been torn by a crash, before anything was promised. Or it was confirmed, and was damaged or
cut off later. So the last batches are noted here once they are safe, each with how many messages it
brought. A start compares the two: a batch that is noted here and not in the journal is missing.

A note goes into a file that is mapped into memory: no system call, no wait. A note survives the end
of the process at once. It survives a power loss after some seconds, or after the next checkpoint. A
note is made when its batch is on the disk. So a note never claims too much, but a power loss may
lose the newest notes.

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
        """Read the notes of the last run; without the file there are none."""
        self.path = directory / CONFIRMED_FILE
        self.batches: dict[int, int] = {}  # messages of each batch that the last run noted
        self._map: mmap.mmap | None = None
        with suppress(FileNotFoundError):
            self._read(self.path.read_bytes())
        self.newest = max(self.batches, default=0)

    def open(self) -> None:
        """Make or open the file for notes; if that fails, nothing is noted."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if os.fstat(descriptor).st_size != SIZE:
                    # Write all bytes: a mapped page without a block on the disk may kill the
                    # process.
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, bytes(SIZE), 0)
                self._map = mmap.mmap(descriptor, SIZE)
            finally:
                os.close(descriptor)
        except (OSError, ValueError):
            self._map = None

    def note(self, number: int, messages: int) -> None:
        """Note a batch that is on the disk; a number that was noted before is ignored."""
        if self._map is not None and number > self.newest:
            self.newest = number
            at = number % SLOTS * SLOT.size
            note = NOTE.pack(number, messages)
            self._map[at : at + SLOT.size] = SLOT.pack(number, messages, crc32(note))

    def sync(self) -> None:
        """Flush the notes to the disk; an error is ignored, since no message depends on them."""
        if self._map is not None:
            with suppress(OSError):
                self._map.flush()

    def close(self) -> None:
        """Let go of the file."""
        if self._map is not None:
            self._map.close()
            self._map = None

    def told(self, first: int, last: int) -> str:
        """Return a text: which batches cannot be found, and how many messages came with them.

        No name of a queue or a user is in it.
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
