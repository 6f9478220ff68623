"""Backup: copies of the stores of a data directory, made beside a broker that uses them.

A backup holds what a power loss at one moment would leave of each store, and starting from a
restored backup is like a start after that power loss. The broker takes no part, so nobody waits for
a backup. For each virtual host, in order:

1. Look up the last confirmed batch: every batch up to it has to be in the copy.
2. Pin the tables as they are, by a transaction that only reads.
3. Read the journal. It is newer than the tables, as after any crash. It must continue without a gap
   where the tables end, at least up to the confirmed batch. Otherwise a segment was used again
   meanwhile, and the store is pinned anew. Batches behind the first gap came after the backup
   began, and are left out.
4. Have SQLite copy the pinned tables, a few pages at a time.

    DIR/backup.json           what the backup has, length and digest of each file; written last
    DIR/<virtual host>/       covey.db and journal-*, named as in the data directory

Everything is made in `DIR.partial`, which is renamed when it is on the disk. A kill leaves a
directory of that name: no restore accepts it, and the next backup removes it. A restore works the
same way in `DATA.partial`. A directory that is a mount point cannot be renamed. There the files are
made in `DIR/partial` and moved up at the end, the list of files last.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple, TypedDict

from covey.core.errors import StoreError
from covey.core.file_modes import private_files
from covey.core.storage.sqlite.confirmed import Confirmed
from covey.core.storage.sqlite.database import BUSY_MS, FILE
from covey.core.storage.sqlite.layout import MOVED, MOVING
from covey.core.storage.sqlite.reader import read_folded
from covey.core.storage.sqlite.segments import Scan, segment_files

MANIFEST: Final = "backup.json"
PARTIAL: Final = ".partial"
FORMAT: Final = 1
TRIES: Final = 50
PAGES: Final = 256  # copied at a time: a mebibyte, and no commit waits for more
PIECE: Final = 1 << 20
FIRST_STEP_S: Final = 0.02  # the first wait before another try; later waits are longer

Tell = Callable[[str, int, int], None]  # a virtual host's directory, pages done, of how many
Wait = Callable[[float], None]  # seconds


class BackupOrigin(TypedDict):
    """Which version made a backup, and when."""

    covey: str
    begun_ms: int


class Copied(TypedDict):
    """One store of a backup: its last batch, length and digest of each file."""

    batch: int
    files: dict[str, list[int | str]]


class Manifest(TypedDict):
    """What a backup has."""

    format: int
    made: BackupOrigin
    virtual_hosts: dict[str, Copied]


class Pinned(NamedTuple):
    """One store at one moment: its tables, held by a transaction, and its journal behind them."""

    tables: sqlite3.Connection
    journal: dict[str, bytes]  # content by file
    batch: int  # the last batch that it has


def back_up(data: Path, target: Path, made: BackupOrigin, tell: Tell, wait: Wait) -> Manifest:
    """Copy all stores of a data directory to a new directory; return what the backup has.

    `made` is kept in the backup: which version made it, and when.
    """
    stores = _stores(data)
    _refuse_used(target, "a backup is never written over another: name a directory that is new")
    partial = _begun(target)
    # All are pinned before any is copied, so that their moments are as close as possible.
    pinned = {store: _pin(store, wait) for store in stores}
    try:
        hosts = {
            store.name: _copy(store.name, pinned[store], partial / store.name, tell)
            for store in stores
        }
    finally:
        for one in pinned.values():
            one.tables.close()
    manifest: Manifest = {"format": FORMAT, "made": made, "virtual_hosts": hosts}
    with private_files():
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    _finish(partial, target)
    return manifest


def restore(source: Path, data: Path) -> Manifest:
    """Make a new data directory from a backup; return what the backup has."""
    manifest = _manifest(source)
    _refuse_used(data, "a restore never writes over data: move it away, or name another directory")
    partial = _begun(data)
    for name, host in manifest["virtual_hosts"].items():
        (partial / name).mkdir(0o700)
        for file, known in host["files"].items():
            part = source / name / file
            found = _copy_file(part, partial / name / file)
            if found != known:
                raise StoreError(f"{part} is not what was written to it: this backup is damaged")
    _finish(partial, data)
    return manifest


# One moment.


def _stores(data: Path) -> list[Path]:
    """Return the stores of a data directory, one for each virtual host."""
    if not data.is_dir():
        raise StoreError(f"there is no data directory {data}")
    if any((data / name).exists() for name in (FILE, MOVED, MOVING)):
        raise StoreError(f"{data} has one store for all virtual hosts: start the broker once")
    found = sorted(path.parent for path in data.glob(f"*/{FILE}"))
    if not found:
        raise StoreError(f"data directory {data} holds no store")
    return found


def _pin(store: Path, wait: Wait) -> Pinned:
    """Hold the tables as they are, and read the journal that belongs to them."""
    confirmed = Confirmed(store).newest
    for attempt in range(TRIES):
        pinned = _try_to_pin(store, confirmed)
        if pinned is not None:
            return pinned
        wait(FIRST_STEP_S * (attempt + 1))
    raise StoreError(
        f"{store}: the journal does not go on where the tables end, up to batch {confirmed}:"
        " it is damaged, or in use faster than it can be read"
    )


def _try_to_pin(store: Path, confirmed: int) -> Pinned | None:
    """Pin one store; None if its journal was used again meanwhile."""
    path = store / FILE
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        tables = sqlite3.connect(uri, uri=True, isolation_level=None)
        tables.execute(f"pragma busy_timeout = {BUSY_MS}")
        tables.execute("begin")
        folded = read_folded(tables)  # this first read pins the tables
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    last, journal = folded, {}
    for _, mark, segment in segment_files(store):
        try:
            content = segment.read_bytes()
        except FileNotFoundError:
            continue  # it was used again: its batches are in the tables, or there is a gap
        end = 0
        for batch in Scan(content, mark).batches:
            if batch.number > last + 1:
                break
            last = max(last, batch.number)
            end = batch.at + sum(len(part) for part in batch[3:])
        if end and last > folded:
            journal[segment.name] = content[:end]
    if last < confirmed:
        tables.close()
        return None
    return Pinned(tables, journal, last)


def _copy(name: str, pinned: Pinned, target: Path, tell: Tell) -> Copied:
    """Write one store; return its files with their lengths and digests."""
    with private_files():
        target.mkdir(mode=0o700)
        for file, content in pinned.journal.items():
            (target / file).write_bytes(content)
        try:
            with closing(sqlite3.connect(target / FILE)) as copy:
                pinned.tables.backup(
                    copy,
                    pages=PAGES,
                    progress=lambda _, left, total: tell(name, total - left, total),
                    sleep=0,
                )
                copy.execute("pragma journal_mode = delete")  # one file, and no other beside it
        except sqlite3.Error as error:
            raise StoreError(f"{target / FILE} cannot be written: {error}") from error
    files = {path.name: _seen(path) for path in sorted(target.iterdir())}
    return {"batch": pinned.batch, "files": files}


# Files.


def _refuse_used(place: Path, rule: str) -> None:
    passed = (PARTIAL[1:], "lost+found")  # left by a kill, or by the file system
    if place.exists() and (
        not place.is_dir() or any(each.name not in passed for each in place.iterdir())
    ):
        raise StoreError(f"{place} is there, and not empty; {rule}")


def _begun(place: Path) -> Path:
    """Make the directory to work in; one that a kill has left is removed."""
    place = place.absolute()
    is_mounted = place.is_mount()
    partial = place / PARTIAL[1:] if is_mounted else place.with_name(place.name + PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700, parents=True)
    return partial


def _finish(partial: Path, place: Path) -> None:
    """Flush all files to the disk, then give them their final names."""
    for path in (*partial.rglob("*"), partial):
        _sync(path)
    place = place.absolute()
    if partial.parent == place:
        for path in sorted(partial.iterdir(), key=lambda each: each.name == MANIFEST):
            os.rename(path, place / path.name)
        partial.rmdir()
    else:
        if place.exists():
            place.rmdir()  # it is empty
        os.rename(partial, place)
    _sync(place.absolute().parent)


def _manifest(source: Path) -> Manifest:
    path = source / MANIFEST
    try:
        manifest: Manifest = json.loads(path.read_text())
    except FileNotFoundError as error:
        why = "it has no backup.json: a backup that came to no end, or none at all"
        raise StoreError(f"{source} is no backup: {why}") from error
    except ValueError as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    if manifest.get("format") != FORMAT:
        raise StoreError(f"{path} is of format {manifest.get('format')}: of a newer Covey")
    return manifest


def _seen(path: Path) -> list[int | str]:
    """Return length and digest of a file."""
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return [path.stat().st_size, digest.hexdigest()]


def _copy_file(source: Path, target: Path) -> list[int | str]:
    """Copy a file; return its length and digest."""
    try:
        with private_files():
            shutil.copyfile(source, target)
    except FileNotFoundError as error:
        raise StoreError(f"{source} is gone: this backup is damaged") from error
    return _seen(target)


def _sync(path: Path) -> None:
    """Flush a file, or the names in a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
