"""`covey doctor`: what is wrong with this installation, and what to do about it.

It looks at this machine and this configuration: the build, files, limits, certificates. Then it
asks the broker that listens there, if one does. Each finding says what to do. Nothing is changed.

    ok      as it should be
    note    works, and could be better
    wrong   will fail, loses something, or lets somebody in: the exit code is 1
"""

from __future__ import annotations

import importlib.util
import os
import platform
import resource
import shutil
import socket
import ssl
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from covey import __version__
from covey.cli.options import LOCAL, AsJson, Broker, place_of
from covey.cli.output import say, show_one
from covey.client.errors import ClientError
from covey.client.management import PORT, Management
from covey.config.connectors import ConnectorSettings
from covey.config.errors import ConfigError
from covey.config.load import load
from covey.config.settings import Settings
from covey.core.management.settings_check import flaws
from covey.core.model import entry

OK: Final = "ok"
NOTE: Final = "note"
WRONG: Final = "wrong"
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
FILES_BESIDE: Final = 100  # open files of a broker that are no connections
CERTIFICATE_DAYS: Final = 30
DAY_S: Final = 86_400
PROBE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    state: str
    what: str
    do: str = ""


def doctor(
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="COVEY_CONFIG", help="the broker's TOML file"),
    ] = None,
    data: Annotated[str, typer.Option(metavar="DIR", help="its data directory")] = "",
    broker: Broker = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with this installation, and what to do."""
    try:
        given = {"store.path": data} if data else {}
        loaded = load(config, os.environ, given, flaws)
    except ConfigError as error:
        found = [Finding(WRONG, line, "covey config check") for line in str(error).splitlines()]
    else:
        found = [Finding(NOTE, text, "see docs/security.md") for text in loaded.warnings]
        found += [each for look in LOOKS for each in look(loaded.settings)]
        found += _running(broker)
    if as_json:
        show_one(
            {"version": __version__, "findings": [asdict(each) for each in found]}, as_json=True
        )
    else:
        for each in found:
            say(f"{each.state:<6} {each.what}")
            if each.do:
                say(f"       -> {each.do}")
    if any(each.state == WRONG for each in found):
        raise typer.Exit(1)


def _build(settings: Settings) -> Iterator[Finding]:
    """Look at Python and the build."""
    yield Finding(OK, f"covey {__version__}, Python {platform.python_version()}")
    if entry.__file__.endswith(".py"):
        yield Finding(
            NOTE,
            "this is the build in plain Python, which is about three times slower",
            "in a checkout: scripts/build; else: COVEY_COMPILE=1 pip install, with a C compiler",
        )
    else:
        yield Finding(OK, "this is the compiled build")
    if settings.event_log.dir is not None and importlib.util.find_spec("pyarrow") is None:
        yield Finding(
            WRONG,
            "the event log is on, but pyarrow is not installed",
            "pip install 'covey[pipeline]'",
        )


def _files(settings: Settings) -> Iterator[Finding]:
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
            f"the disk of {folder} has {_size(disk.free)} free, less than {_size(needed)}:"
            " producers of persistent messages wait",
            "make room, or lower disk_free_min and disk_free_percent of [store]",
        )
    else:
        yield Finding(OK, f"the disk of {folder} has {_size(disk.free)} free")


def _limits(settings: Settings) -> Iterator[Finding]:
    """Look at what the system allows."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = settings.broker.connections_max + FILES_BESIDE
    if most < needed:
        yield Finding(
            NOTE,
            f"{most} files may be open, but connections_max is {settings.broker.connections_max}",
            f"ulimit -n {needed}, or LimitNOFILE={needed} in the unit",
        )
    else:
        yield Finding(OK, f"{most} files may be open")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if not settings.broker.memory_limit:
        yield Finding(
            NOTE,
            f"no memory_limit: only the machine's {_size(memory)} bound a flood of messages",
            f'[broker] memory_limit = "{max(1, memory * 3 // 4 // 2**30)}G"',
        )


def _doors(settings: Settings) -> Iterator[Finding]:
    """Look at ports, certificates and logins."""
    for connector in settings.connectors:
        yield from _certificate(connector)
        host = connector.bind.rpartition(":")[0]
        is_local = host in ("127.0.0.1", "localhost", "[::1]")
        if not is_local and connector.tls is None:
            yield Finding(
                NOTE,
                f"connector {connector.id} listens on {connector.bind} without TLS",
                "[connector.tls], or a proxy in front of it",
            )
    if not settings.permissions and len(settings.users) > 1:
        yield Finding(
            NOTE,
            "there is no [[permission]]: every user may send to and read from everything",
            "docs/security.md shows how to say who may do what",
        )


def _certificate(connector: ConnectorSettings) -> Iterator[Finding]:
    """Look at one connector's certificate as a client would: can it be used, and for how long?"""
    if connector.tls is None:
        return
    files = connector.tls
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate, files.key)
        ends = _ends(Path(files.certificate))
    except (OSError, ssl.SSLError, ValueError) as error:
        yield Finding(
            WRONG,
            f"the certificate of connector {connector.id}: {error}",
            "name PEM files that fit",
        )
        return
    days = int((ends - time.time()) / DAY_S)
    state = WRONG if days < 0 else NOTE if days < CERTIFICATE_DAYS else OK
    text = f"the certificate of connector {connector.id} ends in {days} days"
    yield Finding(state, text, "" if state == OK else "renew it; SIGHUP reads the new one")


def _ends(certificate: Path) -> float:
    # The standard library reads a certificate only this way without a connection.
    decoded: dict[str, Any] = ssl._ssl._test_decode_cert(str(certificate))  # type: ignore[attr-defined]
    return ssl.cert_time_to_seconds(str(decoded["notAfter"]))


def _running(broker: str) -> Iterator[Finding]:
    """Look at the broker that runs, if one does."""
    place = place_of(broker, PORT)
    try:
        with socket.create_connection((place.host, place.port), PROBE_S):
            pass
    except OSError:
        yield Finding(NOTE, f"no broker listens at {place.address}", "covey serve, or -b PLACE")
        return
    try:
        with Management(place) as client:
            (found,) = client.query("broker")
            waiting = client.query("group", 1, waiting=True)
            blocked = client.query("connection", 1, waiting=True)
    except ClientError as error:
        yield Finding(WRONG, f"the broker at {place.address} cannot be asked: {error}", "see -b")
        return
    yield Finding(OK, f"the broker at {place.address} answers: {found['messages']} messages")
    if found["alarm"]:
        yield Finding(WRONG, f"producers wait: {found['alarm']}", "make room, or raise the limit")
    for damage in found["damages"]:
        yield Finding(
            WRONG, f"the store is damaged: {damage}", "docs/durability.md says what to do"
        )
    if blocked:
        yield Finding(
            NOTE, f"a producer waits: {blocked[0]['blocked_on']}", "covey connection list --blocked"
        )
    if waiting:
        row = waiting[0]
        text = f"group {row['group']} of {row['queue']} has waited longest: {row['why']}"
        yield Finding(NOTE, text, f"covey group list {row['queue']}")


def _size(count: int) -> str:
    """Return bytes as people say them."""
    value = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


Look = Callable[[Settings], Iterator[Finding]]
LOOKS: Final[tuple[Look, ...]] = (_build, _files, _limits, _doors)
