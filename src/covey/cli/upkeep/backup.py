"""`covey backup` and `covey restore`: the data directory, copied while a broker uses it.

Both work on files, on the broker's machine, as its user. The broker is not asked, and may run or
not (`core.storage.sqlite.backup`). A store in PostgreSQL has tools of its own.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from covey import __version__
from covey.cli.options import DoneAsJson
from covey.cli.output import complain, done, is_terminal
from covey.client.errors import ClientError
from covey.config.load import load
from covey.config.record import human_size
from covey.core.errors import StoreError
from covey.core.storage.sqlite import backup as files

Data = Annotated[
    Path | None, typer.Option(metavar="DIR", help="the data directory (default ./data)")
]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", envvar="COVEY_CONFIG", help="the broker's file, which names its data"
    ),
]


def backup(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="a new directory to copy to")],
    data: Data = None,
    config: Config = None,
    as_json: DoneAsJson = False,
) -> None:
    """Copy all messages and definitions, while the broker runs or not."""
    place = _data(data, config)

    def tell(host: str, pages: int, total: int) -> None:
        if is_terminal() and pages == total:
            complain(f"{host}: {pages} pages")

    made: files.BackupOrigin = {"covey": __version__, "begun_ms": int(time.time() * 1000)}
    try:
        manifest = files.back_up(place, directory, made, tell, time.sleep)
    except (StoreError, OSError) as error:
        raise ClientError(str(error)) from error
    done(f"{_told(manifest)} in {directory}", _record(manifest, directory), as_json=as_json)


def restore(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="what `covey backup` made")],
    data: Data = None,
    config: Config = None,
    as_json: DoneAsJson = False,
) -> None:
    """Make a data directory of a backup; there must be none yet, or an empty one."""
    place = _data(data, config)
    try:
        manifest = files.restore(directory, place)
    except (StoreError, OSError) as error:
        raise ClientError(str(error)) from error
    done(f"{_told(manifest)} in {place}", _record(manifest, place), as_json=as_json)


def _data(data: Path | None, config: Path | None) -> Path:
    """Find the data directory; refuse a store that is not in one."""
    if data is not None and config is not None:
        raise typer.BadParameter("say --data or --config, not both")
    if data is not None:
        return data
    store = load(config, os.environ, {}).settings.store
    if store.kind == "postgres":
        raise ClientError(
            "the store is in PostgreSQL: back it up there, with pg_dump or a base backup"
            " (pg_basebackup), and restore it there"
        )
    if store.kind == "memory":
        raise ClientError("the store is in memory: it holds nothing that could be copied")
    return Path(store.path)


def _told(manifest: files.Manifest) -> str:
    hosts = manifest["virtual_hosts"]
    return f"{', '.join(hosts)}: {human_size(_size(manifest))}"


def _size(manifest: files.Manifest) -> int:
    return sum(
        int(size)
        for host in manifest["virtual_hosts"].values()
        for size, _ in host["files"].values()
    )


def _record(manifest: files.Manifest, place: Path) -> dict[str, Any]:
    hosts = {name: host["batch"] for name, host in manifest["virtual_hosts"].items()}
    return {"directory": str(place), "bytes": _size(manifest), "virtual_hosts": hosts}
