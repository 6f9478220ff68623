"""Layout: where in the data directory each virtual host keeps its store.

    data/<virtual host>/covey.db     and the other files of its store (`database`)

The name of the directory is the id of the virtual host; characters that a path cannot have are
percent-encoded. Earlier releases had one store for all virtual hosts, `data/covey.db`. `move_in`
gives each virtual host its own store. It returns what it moved. A kill at any time leaves either
the old store or the new ones:

1. The old store is opened once, as a broker would: damage is salvaged, and the journal is folded
   into the tables.
2. If it has rows of only one virtual host, its file is renamed into its place. That is all.
3. If it has rows of several, each virtual host gets a copy in `data/moving/` with its own rows.
   When all copies are on the disk, the old file is renamed: from then on the copies count. They are
   renamed into their places. If this start is killed before that, the next start does it.

A store that is already in its place is never overwritten.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import string
from contextlib import closing
from pathlib import Path
from typing import Final

from covey.config.settings import StoreSettings
from covey.core.errors import StoreError, percent
from covey.core.file_modes import close_to_others, exposures, private_files
from covey.core.storage.packing import SEQ_BITS
from covey.core.storage.sqlite.confirmed import CONFIRMED_FILE
from covey.core.storage.sqlite.database import (
    FILE,
    LOCK_FILE,
    SCRATCH_FILE,
    DirectoryLock,
    make_directory,
    too_open,
)
from covey.core.storage.sqlite.segments import segment_files
from covey.core.storage.sqlite.store import SqliteStore

MOVING: Final = "moving"
MOVED: Final = "covey.db.moved"
# Names that the data directory uses for itself, or has used.
RESERVED: Final = frozenset((MOVING, MOVED, LOCK_FILE, FILE, SCRATCH_FILE, CONFIRMED_FILE))
PLAIN: Final = frozenset(string.ascii_letters + string.digits + " -_.+=@,~")
NAME_MAX: Final = 255  # bytes of a file's name on the usual systems
# The tables with one row for each message or id, and the column that has its place.
PLACED: Final = {"messages": "id", "bodies": "id", "ids": "place"}


def directory_of(path: str, space: str) -> Path:
    """Return the directory of a virtual host's store; raises StoreError if its name is too long."""
    name = "".join([char if char in PLAIN else percent(char) for char in space])
    if name.startswith(".") or name in RESERVED:
        name = percent(name[0]) + name[1:]
    if len(name) > NAME_MAX:
        raise StoreError(f"virtual host {space[:40]}...: its id is too long for a directory's name")
    return Path(path) / name


def close_root(settings: StoreSettings) -> list[str]:
    """Make the data directory and close it to others; return what stays open.

    Raises StoreError if other users could put their own files in a store's place, unless
    `allow_open_files` is set.
    """
    data = Path(settings.path)
    make_directory(data)
    if not settings.allow_open_files:
        close_to_others(data, ())
    exposed = exposures(data, ())
    if exposed and not settings.allow_open_files:
        raise too_open(data, exposed)
    return exposed


def move_in(settings: StoreSettings, first: str) -> list[str]:
    """Give each virtual host its own store, if there is one store for all; return what was done.

    `first` is the virtual host that gets a store in which nothing names a virtual host. Raises
    StoreError if it cannot be done.
    """
    data = Path(settings.path)
    try:
        if (data / FILE).exists():
            return _move(settings, data, first)
        if (data / MOVED).exists():
            with closing(_Lock(data)):
                return [_finish(data)]
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"{data / FILE} cannot be moved to its virtual host: {error}") from error
    return []


def _move(settings: StoreSettings, data: Path, first: str) -> list[str]:
    shutil.rmtree(data / MOVING, ignore_errors=True)  # left by a start that was killed
    store = SqliteStore(settings, lambda call: None)
    notes = list(store.damages)
    try:
        known = {record.number: record.host for record in store.queues()}
        hosts = {*known.values(), *[record.host for record in store.durables()]}
        hosts |= {record.host for record in store.records()}
        orphans = {one.queue for one in store.messages()} - set(known)
    finally:
        store.close()
    if segment_files(data):
        raise StoreError(f"{data / FILE} cannot be moved yet: its journal is not empty")
    # Messages of unknown queues stay on disk. They go to the virtual host that is the default.
    spaces = sorted(hosts | ({first} if orphans or not hosts else set()))
    with closing(_Lock(data)):
        return [*notes, _divide(settings, data, spaces, known | dict.fromkeys(orphans, first))]


class _Lock(DirectoryLock):
    """The right to use the data directory, to be closed at the end of a `with`."""

    def close(self) -> None:
        self.release()


def _divide(settings: StoreSettings, data: Path, spaces: list[str], known: dict[int, str]) -> str:
    """Move or divide the store of these virtual hosts; return what was done.

    `known` tells the virtual host of each queue.
    """
    if segment_files(data):
        raise StoreError(f"{data}: there is no room to bring the journal into {FILE}; make some")
    with closing(sqlite3.connect(data / FILE)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
        connection.execute("pragma journal_mode = delete")  # one file, to be renamed
    for space in spaces:
        target = directory_of(settings.path, space)
        if (target / FILE).exists():
            raise StoreError(f"{data / FILE} and {target / FILE} are both there: which one counts?")
    if len(spaces) == 1:
        return _rename(data, directory_of(settings.path, spaces[0]))
    for space in spaces:
        others = {number for number, host in known.items() if host != space}
        _copy(data, data / MOVING / directory_of(settings.path, space).name, space, others)
    _sync(data / MOVING)
    os.rename(data / FILE, data / MOVED)
    _sync(data)
    return _finish(data)


def _rename(data: Path, target: Path) -> str:
    """Move the file of the only virtual host."""
    with private_files():
        target.mkdir(mode=0o700, exist_ok=True)
    os.rename(data / FILE, target / FILE)
    _sync(target)
    _clear(data)
    return f"{data / FILE} was moved to {target / FILE}: each virtual host has a directory now"


def _copy(data: Path, target: Path, space: str, others: set[int]) -> None:
    """Make a copy with the rows of one virtual host; `others` are the queues to leave out."""
    with private_files():
        target.mkdir(mode=0o700, parents=True)
        shutil.copyfile(data / FILE, target / FILE)
    with closing(sqlite3.connect(target / FILE, isolation_level=None)) as connection:
        connection.execute("begin")
        connection.execute("delete from durables where host != ?", (space,))
        connection.execute("delete from queues where host != ?", (space,))
        connection.execute("delete from records where host != ?", (space,))
        for number in others:
            ends = (number << SEQ_BITS, ((number + 1) << SEQ_BITS) - 1)
            for table, column in PLACED.items():
                connection.execute(f"delete from {table} where {column} between ? and ?", ends)
        connection.execute("commit")
        connection.execute("vacuum")
    _sync(target / FILE)
    _sync(target)


def _finish(data: Path) -> str:
    """Rename the copies into their places; the old file does not count any more."""
    moved = []
    copies = (data / MOVING).iterdir() if (data / MOVING).is_dir() else ()
    for copy in sorted(copies):
        target = data / copy.name
        if target.is_dir() and not any(target.iterdir()):
            target.rmdir()
        os.rename(copy, target)
        moved.append(copy.name)
    _sync(data)
    shutil.rmtree(data / MOVING, ignore_errors=True)
    _clear(data)
    (data / MOVED).unlink()
    return f"{data / FILE} was divided: each virtual host has a directory now ({', '.join(moved)})"


def _clear(data: Path) -> None:
    """Remove files of the old store that mean nothing any more."""
    for name in (CONFIRMED_FILE, SCRATCH_FILE):
        (data / name).unlink(missing_ok=True)
    _sync(data)


def _sync(path: Path) -> None:
    """Flush a file, or the names in a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
