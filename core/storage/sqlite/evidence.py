"""Evidence: what the files of a store say about it before SQLite opens any of them.

SQLite makes a database that is gone anew, and takes a write-ahead log for what it can read of it.
Both may be right, and both may lose what was promised; so the files are asked first.

A log that lacks batches that were promised is kept under another name for whoever repairs it. If
a checkpoint had brought more into the database than can be read of the log, the log is left out:
what is left of it would put old pages over newer ones.
"""

from __future__ import annotations

import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from covey.core.errors import StoreError
from covey.core.storage.sqlite.confirmed import Confirmed
from covey.core.storage.sqlite.journal import PLACE, PLACE_SIZE
from covey.core.storage.sqlite.salvage import beside, kept_name, sync

LOG: Final = "-wal"
SHARED_MEMORY: Final = "-shm"
LAST_BATCH: Final = "select max(number), (select deletions from journal where number = 0)"


def refuse_vanished(path: Path, scratch: Path, confirmed: Confirmed) -> None:
    """Raise StoreError if the database is gone, or empty, and others of its files are there."""
    is_there = path.exists()
    if is_there and path.stat().st_size:
        return
    others = [confirmed.path] if confirmed.newest else []
    log = beside(path, LOG)
    others += [log] if log.exists() and log.stat().st_size else []
    others += [scratch] if scratch.exists() else []
    if not others:
        return
    what = "is empty" if is_there else "is gone"
    held = f" ({confirmed.newest} batches were confirmed)" if confirmed.newest else ""
    names = shlex.join([str(each) for each in others])
    raise StoreError(
        f"{path} {what}, and other files of its store are there{held}: put it back, with its"
        f" {path.name}{LOG} if it had one; or begin with an empty store: rm {names}"
    )


def set_aside(path: Path, promised: int) -> str:
    """Keep a log that lacks batches that were promised; say where it is kept, "" if it is not."""
    log = beside(path, LOG)
    if not promised or not log.exists() or not log.stat().st_size:
        return ""
    with_log = _last_batch(path, "mode=ro")
    if with_log >= promised:
        return ""
    kept = beside(kept_name(path), LOG)
    if _last_batch(path, "mode=ro&immutable=1") > with_log:
        log.rename(kept)
        beside(path, SHARED_MEMORY).unlink(missing_ok=True)
        sync(path.parent)
    else:
        try:
            shutil.copyfile(log, kept)
        except OSError as error:
            kept.unlink(missing_ok=True)
            return f"there was no room to keep {log.name}: {error.strerror}"
    return f"{log.name} is kept as {kept.name}"


def _last_batch(path: Path, how: str) -> int:
    """Return up to which batch a database is complete, opened so that nothing changes; -1: none."""
    uri = f"{path.absolute().as_uri()}?{how}"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            number, mark = connection.execute(f"{LAST_BATCH} from journal").fetchone()
    except (sqlite3.Error, TypeError):
        return -1
    marked = PLACE.unpack(mark)[0] if isinstance(mark, bytes) and len(mark) == PLACE_SIZE else 0
    return max(number if isinstance(number, int) else 0, marked)
