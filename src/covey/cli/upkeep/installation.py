"""The installation as `covey doctor` sees it: build, data directory, stores, PostgreSQL.

All of it is looked at and not changed. A store is known by the head of its file (SQLite's
`user_version` and `application_id`), so no broker is disturbed.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import stat
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from covey import __version__
from covey.config.record import human_size
from covey.config.settings import Settings
from covey.core.model import entry
from covey.core.storage.sqlite.database import FILE
from covey.core.storage.sqlite.schema import APPLICATION_ID, FORMAT

OK: Final = "ok"
NOTE: Final = "note"
WRONG: Final = "wrong"
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
SKEW_S: Final = 60.0  # files from further ahead were not written by this clock
DATABASE_SKEW_S: Final = 2.0
DATABASE_WAIT_S: Final = 3
# Of the head of SQLite's file format.
HEAD_BYTES: Final = 100
MAGIC: Final = b"SQLite format 3\0"
FORMAT_AT: Final = 60
APPLICATION_AT: Final = 68


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    state: str
    what: str
    do: str = ""


def look_at_build(settings: Settings) -> Iterator[Finding]:
    """Look at Python and the build."""
    yield Finding(OK, f"covey {__version__}, Python {platform.python_version()}")
    if entry.__file__.endswith(".py"):
        yield Finding(
            NOTE,
            "this is the build in plain Python, which is about three times slower",
            "in a checkout: scripts/build; else: COVEY_COMPILE=1 pip install, with a C compiler",
        )
        yield from look_at_compiler()
    else:
        yield Finding(OK, "this is the compiled build")
    yield from look_at_checkout(Path(entry.__file__).resolve())
    if settings.event_log.dir is not None and importlib.util.find_spec("pyarrow") is None:
        yield Finding(
            WRONG,
            "the event log is on, but pyarrow is not installed",
            "pip install 'covey[pipeline]'",
        )


def look_at_files(settings: Settings) -> Iterator[Finding]:
    """Look at the data directory and the disk."""
    store = settings.store
    if store.kind == "memory":
        yield Finding(NOTE, "nothing is stored: store.kind is memory", 'store.kind = "sqlite"')
        return
    folder = Path(store.path)
    nearest = next((each for each in (folder, *folder.absolute().parents) if each.exists()), folder)
    if not folder.exists():
        yield Finding(NOTE, f"{folder} does not exist yet", "the first start makes it")
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield Finding(
            WRONG, f"{folder} cannot be written", f"chown it to who runs the broker: {folder}"
        )
    elif folder.stat().st_mode & OTHERS and not store.allow_open_files:
        yield Finding(NOTE, f"{folder} is open to other users", "the next start closes it")
    else:
        yield Finding(OK, f"{folder} is there and closed to others")
    disk = shutil.disk_usage(nearest)
    needed = max(store.disk_free_min, disk.total * store.disk_free_percent // 100)
    if disk.free < needed:
        yield Finding(
            WRONG,
            f"the disk of {folder} has {human_size(disk.free)} free, less than"
            f" {human_size(needed)}: producers of persistent messages wait",
            "make room, or lower disk_free_min and disk_free_percent of [store]",
        )
    else:
        yield Finding(OK, f"the disk of {folder} has {human_size(disk.free)} free")
    yield from _owners(folder)


def look_at_compiler() -> Iterator[Finding]:
    """Look for what a compiled build needs."""
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    if shutil.which(compiler.split()[0]) is None:
        yield Finding(NOTE, "there is no C compiler for a compiled build", "apt install gcc")
    if not headers.exists():
        yield Finding(NOTE, f"{headers} is missing for a compiled build", "apt install python3-dev")


def look_at_checkout(running: Path) -> Iterator[Finding]:
    """Look whether the compiled build of a checkout is of the source that lies there now.

    `running` is a module of the package that runs.
    """
    root = next((each for each in running.parents if (each / "scripts" / "build").is_file()), None)
    if root is None or not any((root / ".venv" / "compiled").glob("*")):
        return
    script = [str(root / "scripts" / "build"), "--ready"]
    ready = subprocess.run(script, capture_output=True, text=True, check=False).stdout.strip()
    if not ready:
        yield Finding(
            NOTE,
            "the compiled build in .venv/compiled is stale: the source has changed since",
            "scripts/build",
        )
    elif running.suffix == ".py":
        yield Finding(NOTE, "a compiled build of this source is there", "start by scripts/serve")


def _owners(folder: Path) -> Iterator[Finding]:
    """Look for files in the data directory that whoever owns it cannot use."""
    if not folder.exists():
        return
    owner = folder.stat().st_uid
    for path in sorted(folder.rglob("*")):
        try:
            status = path.stat()
        except OSError:
            continue  # a segment of the journal that has just gone
        if status.st_uid != owner or not os.access(path, os.R_OK | os.W_OK):
            yield Finding(
                WRONG,
                f"{path} cannot be used by the owner of {folder}: a start as another user made it",
                f"chown -R --reference={folder} {folder}",
            )
            return


def look_at_stores(settings: Settings) -> Iterator[Finding]:
    """Look at the stores in the data directory: whose they are, how old, and written when."""
    if settings.store.kind != "sqlite":
        return
    folder = Path(settings.store.path)
    if (folder / FILE).exists():
        what = f"{folder / FILE} is the one store of an earlier release"
        yield Finding(NOTE, what, "the next start gives each virtual host its own; copy it before")
    for file in [folder / FILE, *sorted(folder.glob(f"*/{FILE}"))]:
        try:
            head = file.open("rb").read(HEAD_BYTES)
            ahead = file.stat().st_mtime - time.time()
        except OSError:
            continue  # not there, or told by `_owners`
        yield from _store(file, head)
        if ahead > SKEW_S:
            yield Finding(
                WRONG,
                f"{file} was written {ahead:.0f} seconds after now: this clock was set back",
                "set the clock (chronyc makestep): expiry, delays and deadlines go by it",
            )


def _store(file: Path, head: bytes) -> Iterator[Finding]:
    found = int.from_bytes(head[FORMAT_AT : FORMAT_AT + 4], "big")
    program = int.from_bytes(head[APPLICATION_AT : APPLICATION_AT + 4], "big")
    if head[: len(MAGIC)] != MAGIC:
        if head:
            yield Finding(WRONG, f"{file} is no database", "restore a backup: covey restore")
    elif program not in (0, APPLICATION_ID):
        yield Finding(WRONG, f"{file} is a database of another program", "name another directory")
    elif found > FORMAT:
        what = f"{file} has format {found}, this release knows formats up to {FORMAT}"
        yield Finding(WRONG, what, "install the release that wrote it, or a later one")
    elif found < FORMAT and program:
        what = f"{file} has the older format {found}"
        yield Finding(NOTE, what, f"the next start upgrades it to {FORMAT}: covey backup before")


def look_at_postgres(settings: Settings) -> Iterator[Finding]:
    """Look at the PostgreSQL that holds the store: is it there, safe, and of the same time?"""
    if settings.store.kind != "postgres":
        return
    if importlib.util.find_spec("psycopg") is None:
        what = "store.kind is postgres, but psycopg is not installed"
        yield Finding(WRONG, what, "pip install 'covey[postgres]'")
        return
    import psycopg

    from covey.core.errors import StoreError
    from covey.core.storage.postgres.lease import one_line
    from covey.core.storage.postgres.schema import look_at_server

    try:
        with psycopg.connect(settings.store.dsn, connect_timeout=DATABASE_WAIT_S) as connection:
            connection.autocommit = True
            told, unsafe = look_at_server(connection)
            row = connection.execute(
                "select extract(epoch from clock_timestamp())::float8"
            ).fetchone()
            ahead = (float(row[0]) if row else 0.0) - time.time()
    except (psycopg.Error, StoreError) as error:
        what = f"PostgreSQL cannot be asked: {one_line(error)}"
        yield Finding(WRONG, what, "start it, or correct dsn of [store]: the broker waits for it")
        return
    yield Finding(OK, told)
    for reason in unsafe:
        yield Finding(WRONG, reason, "docs/cluster.md says what the server needs")
    if abs(ahead) > DATABASE_SKEW_S:
        what = f"the clock of PostgreSQL is {ahead:+.0f} seconds off ours"
        yield Finding(WRONG, what, "set both by NTP (chronyc tracking): messages expire by ours")
