"""Evidence: what the files of a store tell before SQLite opens any of them.

SQLite makes a new database where one is missing, and uses as much of a write-ahead log as it can
read. Either may be right, and either may lose what was promised. So the files are examined first.

What a damaged log has lost is still in the journal. But a checkpoint may have brought more of the
log into the database than can now be read of the log. Then the log is left out and kept under
another name: the rest of it would put old pages over newer ones.
"""

from __future__ import annotations

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from covey.core.errors import StoreError
from covey.core.storage.sqlite.confirmed import Confirmed
from covey.core.storage.sqlite.reader import read_folded
from covey.core.storage.sqlite.salvage import beside, kept_name, sync
from covey.core.storage.sqlite.segments import segment_files

LOG: Final = "-wal"
SHARED_MEMORY: Final = "-shm"


def refuse_vanished(path: Path, scratch: Path, confirmed: Confirmed) -> None:
    """Raise StoreError if the database is gone or empty, but other files of its store are there."""
    is_there = path.exists()
    if is_there and path.stat().st_size:
        return
    others = [confirmed.path] if confirmed.newest else []
    log = beside(path, LOG)
    others += [log] if log.exists() and log.stat().st_size else []
    others += [scratch] if scratch.exists() else []
    others += [segment for _, _, segment in segment_files(path.parent)]
    if not others:
        return
    what = "is empty" if is_there else "is gone"
    held = f" ({confirmed.newest} batches were confirmed)" if confirmed.newest else ""
    names = shlex.join([str(each) for each in others])
    raise StoreError(
        f"{path} {what}, and other files of its store are there{held}: put it back, with its"
        f" {path.name}{LOG} if it had one; or begin with an empty store: rm {names}"
    )


def set_aside(path: Path) -> str:
    """Rename a log that would put old pages over newer ones; say its new name, "" if none was."""
    log = beside(path, LOG)
    if not log.exists() or not log.stat().st_size:
        return ""
    if _folded(path, "mode=ro&immutable=1") <= _folded(path, "mode=ro"):
        return ""
    kept = beside(kept_name(path), LOG)
    log.rename(kept)
    beside(path, SHARED_MEMORY).unlink(missing_ok=True)
    sync(path.parent)
    return f"{log.name} is older than {path.name} and is kept as {kept.name}"


def _folded(path: Path, how: str) -> int:
    """Return up to which batch the tables know everything; the database is opened read-only."""
    uri = f"{path.absolute().as_uri()}?{how}"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            return read_folded(connection)
    except (sqlite3.Error, TypeError):
        return -1
