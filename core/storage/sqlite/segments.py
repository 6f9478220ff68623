# Compiled by mypyc: see setup.py.
"""Segments: the files of the journal, and the batches in them.

    journal-00000012-9f3c51d07a1be284    the twelfth segment, and the mark of its batches

A segment is given its full length before batches are written to it, and is used again when nothing
in it is needed. So a write changes neither the file's length nor its list of blocks, and a flush
flushes nothing but the batch. A batch is written and flushed by *one* system call (O_DSYNC), which
releases the interpreter lock once.

A batch begins with its file's mark, its number and its lengths; header and parts have checksums
(`core.storage.packing`). A segment that is used again gets a new name, and with it a new mark. So
batches left from its earlier use are told apart from new ones. And nothing that a client puts into
a message is taken for a batch: clients do not know the mark.

A torn end and damage are told apart by what follows. A batch is written only when the one before it
is safe. So a place that has no whole batch is the end if nothing follows, and damage if a batch
follows.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from covey.core.errors import StoreBusyError, StoreError
from covey.core.storage.changes import Changes
from covey.core.storage.packing import CHECKSUM, HEADER, HEADER_SIZE, checksum

NAME: Final = re.compile(r"journal-(\d{8,})-([0-9a-f]{16})")
MARK_SIZE: Final = 8
GROWTH: Final = 256 * 1024  # bytes that a new segment begins with; its length doubles
ZEROS: Final = bytes(256 * 1024)
READ_SIZE: Final = 4096  # most messages are read by one call
NO_ROOM: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class Written(NamedTuple):
    """A batch that was found: its number, how many messages, where its parts begin, the parts."""

    number: int
    messages: int
    at: int
    arrivals: bytes
    settled: bytes
    ids: bytes
    rest: bytes


class Segment:
    """One file of the journal, and which of its changes are not in the tables yet."""

    __slots__ = (
        "_flushed",
        "_plain",
        "allocated",
        "end",
        "index",
        "is_begun",
        "last",
        "mark",
        "path",
        "rest",
        "waiting",
    )

    def __init__(self, path: Path, index: int, mark: bytes) -> None:
        """Open the file, or make it."""
        self.path = path
        self.index = index
        self.mark = mark
        self._plain = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._flushed = os.open(path, os.O_WRONLY | os.O_DSYNC | os.O_CLOEXEC)
        self.allocated = os.fstat(self._plain).st_size
        self.end = 0  # where the last batch ends
        self.last = 0  # the number of the last batch
        self.waiting: dict[int, int] = {}  # offsets of living messages, by place
        self.rest = Changes()  # what all its batches changed besides arrivals and settlements
        self.is_begun = False  # a fold of it has begun

    def write(self, batch: bytes, number: int, size_max: int) -> None:
        """Append a batch; it is on the disk when this returns."""
        end = self.end + len(batch)
        try:
            if end > self.allocated:
                self._grow(end, size_max)
            at = self.end
            written = os.pwrite(self._flushed, batch, at)
            while written < len(batch):
                batch = batch[written:]
                at += written
                written = os.pwrite(self._flushed, batch, at)
        except OSError as error:
            raise meaning(error, self.path) from error
        self.end = end
        self.last = number
        self.allocated = max(self.allocated, end)

    def read(self, at: int, size: int) -> bytes:
        """Return bytes of the file."""
        return os.pread(self._plain, size, at)

    def content(self) -> bytes:
        """Return the whole file."""
        return os.pread(self._plain, self.allocated, 0) if self.allocated else b""

    def rename(self, path: Path, index: int, mark: bytes) -> None:
        """Use the file again, empty and under another name."""
        os.rename(self.path, path)
        self.path = path
        self.index = index
        self.mark = mark
        self.end = self.last = 0
        self.waiting = {}
        self.rest = Changes()
        self.is_begun = False

    def shorten(self, size: int) -> None:
        """Cut off what the file grew by for a large batch."""
        if self.allocated > size:
            os.ftruncate(self._plain, size)
            self.allocated = size

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._flushed)
        os.close(self._plain)

    def _grow(self, end: int, size_max: int) -> None:
        """Fill the file with zeros, so that a batch finds its blocks allocated.

        On a full disk the file grows as far as it can; a batch that needs more fails by itself.
        """
        size = max(end, min(size_max, max(GROWTH, 2 * self.allocated)))
        try:
            while self.allocated < size:
                piece = min(len(ZEROS), size - self.allocated)
                self.allocated += os.pwrite(self._plain, ZEROS[:piece], self.allocated)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise


def meaning(error: OSError, path: Path) -> StoreError:
    """Return what an error of the system means for the store."""
    text = f"{path.name}: {error.strerror}"
    return StoreBusyError(text) if error.errno in NO_ROOM else StoreError(text)


def segment_files(directory: Path) -> list[tuple[int, bytes, Path]]:
    """Return index, mark and path of all segments there, in their order."""
    found = []
    for path in directory.iterdir():
        match = NAME.fullmatch(path.name)
        if match:
            found.append((int(match[1]), bytes.fromhex(match[2]), path))
    return sorted(found)


def new_name(directory: Path, index: int) -> tuple[Path, bytes]:
    """Return the name of a new segment, and its mark."""
    mark = os.urandom(MARK_SIZE)
    return directory / f"journal-{index:08d}-{mark.hex()}", mark


class Scan:
    """The batches of one segment, and where some are missing."""

    def __init__(self, content: bytes, mark: bytes) -> None:
        """Look through a segment's content."""
        self.batches: list[Written] = []
        self.damages: list[tuple[int, int]] = []  # the batches around each gap
        self.torn: tuple[int, int] | None = None  # number and messages of a last batch that is torn
        at = 0
        while True:
            batch = _batch_at(content, at, mark)
            if batch is None:
                self._note_torn(content, at, mark)
                batch = _next_batch(content, at, mark)
                if batch is None:
                    return
                self.torn = None
                before = self.batches[-1].number if self.batches else 0
                self.damages.append((before, batch.number))
            self.batches.append(batch)
            at = batch.at + sum([len(part) for part in batch[3:]])

    def _note_torn(self, content: bytes, at: int, mark: bytes) -> None:
        header = _header_at(content, at, mark)
        if header is not None:
            self.torn = (header[1], header[2])


Header = tuple[bytes, int, int, int, int, int, int, int]


def _header_at(content: bytes, at: int, mark: bytes) -> Header | None:
    """Return the header at a place, None if none is there."""
    if at + HEADER_SIZE > len(content) or content[at : at + MARK_SIZE] != mark:
        return None
    (crc,) = CHECKSUM.unpack_from(content, at + HEADER.size)
    if checksum(content[at : at + HEADER.size]) != crc:
        return None
    header: Header = HEADER.unpack_from(content, at)
    return header


def _batch_at(content: bytes, at: int, mark: bytes) -> Written | None:
    """Return the batch at a place, None if no whole batch is there."""
    header = _header_at(content, at, mark)
    if header is None:
        return None
    _, number, messages, arrivals, settled, ids, rest, crc = header
    start = at + HEADER_SIZE
    cuts = [start]
    for length in (arrivals, settled, ids, rest):
        cuts.append(cuts[len(cuts) - 1] + length)
    if cuts[4] > len(content) or checksum(content[start : cuts[4]]) != crc:
        return None
    parts = [content[cuts[each] : cuts[each + 1]] for each in range(4)]
    return Written(number, messages, start, parts[0], parts[1], parts[2], parts[3])


def _next_batch(content: bytes, at: int, mark: bytes) -> Written | None:
    """Return the first whole batch behind a place."""
    at = content.find(mark, at + 1)
    while at >= 0:
        batch = _batch_at(content, at, mark)
        if batch is not None:
            return batch
        at = content.find(mark, at + 1)
    return None
