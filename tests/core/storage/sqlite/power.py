"""Power: what a disk may hold after the power went, from a record of what it was told.

The model is SQLite's own for its crash tests, and ALICE's: what was synced is there; of what was
written since, any subset of 512-byte sectors may be, in any order; a truncation may be or not; a
file that is new, was deleted or has another name is so for sure only once its directory was synced.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random

SECTOR = 512
NOT_KEPT = ("scratch.db", "lock", "confirmed")  # a start makes these anew
SHARED_MEMORY = "-shm"  # an index over the log, made anew from it

Change = tuple[int, bytes | None]  # bytes at a place; None: the file's new length


@dataclass(frozen=True)
class Deed:
    """One line of the record."""

    what: str
    name: str
    at: int = 0
    length: int = 0
    data: bytes = b""


def read_record(path: Path) -> list[Deed]:
    """Read what `record_shim.c` wrote, but for files that mean nothing after a crash."""
    data = path.read_bytes()
    deeds, place = [], 0
    while place < len(data):
        end = data.index(b"\n", place)
        what, name, at, length = data[place:end].decode().split(" ")
        place = end + 1
        size = int(length) if what == "write" else 0
        if not name.startswith(NOT_KEPT) and not name.endswith(SHARED_MEMORY):
            content = data[place : place + size]
            deeds.append(Deed(what, name, int(at), int(length), content))
        place += size
    return deeds


class Disk:
    """What is sure, and what may be."""

    def __init__(self) -> None:
        self.sure: dict[str, bytearray] = {}
        self.pending: dict[str, list[Change]] = {}
        # Made or deleted, and the directory was not synced since: there, or not.
        self.unsure: set[str] = set()
        self.deleted: set[str] = set()
        self.renamed: dict[str, str] = {}  # old names by new ones: one of both is there

    def take(self, deed: Deed) -> None:
        """Be told something."""
        is_known = deed.name in self.sure and deed.name not in self.deleted
        if deed.what == "open" and not is_known:
            self.sure[deed.name] = bytearray()
            self.pending[deed.name] = []
            self.unsure.add(deed.name)
            self.deleted.discard(deed.name)
        elif deed.what == "unlink" and is_known:
            self.unsure.add(deed.name)
            self.deleted.add(deed.name)
        elif deed.what == "rename":
            old, _, new = deed.name.partition("/")
            self.sure[new], self.pending[new] = self.sure.pop(old), self.pending.pop(old)
            self.renamed[new] = self.renamed.pop(old, old)
            self.unsure.discard(old)
        elif deed.what == "write":
            self.pending[deed.name].append((deed.at, deed.data))
        elif deed.what == "truncate":
            self.pending[deed.name].append((deed.length, None))
        elif deed.what == "sync" and deed.name == ".":
            self.unsure.clear()
            self.renamed.clear()
            for name in self.deleted:
                del self.sure[name], self.pending[name]
            self.deleted.clear()
        elif deed.what == "sync":
            for change in self.pending[deed.name]:
                _apply(self.sure[deed.name], change)
            self.pending[deed.name] = []

    def lose_power(self, chance: Random, folder: Path) -> None:
        """Write one of the states the disk may be in into a folder."""
        share = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for each, sure in self.sure.items():
            name = each
            if name in self.unsure and chance.random() < 0.5:
                continue
            content = bytearray(sure)
            for change in self.pending[each]:
                for part in _parts(change):
                    if chance.random() < share:
                        _apply(content, part)
            if name in self.renamed and chance.random() < 0.5:
                name = self.renamed[name]
            (folder / name).write_bytes(content)


def _parts(change: Change) -> list[Change]:
    """Cut a write at the disk's sectors."""
    at, data = change
    if data is None:
        return [change]
    first = SECTOR - at % SECTOR
    cuts = [0, *range(first, len(data), SECTOR), len(data)]
    return [(at + start, data[start:end]) for start, end in pairwise(cuts)]


def _apply(content: bytearray, change: Change) -> None:
    at, data = change
    if data is None:
        del content[at:]
        content.extend(bytes(at - len(content)))
        return
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    content[at : at + len(data)] = data
