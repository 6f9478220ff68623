"""`covey doctor`: what is wrong with this installation, and what to do about it.

It looks at this machine and this configuration: the build, files, limits, certificates. Then it
asks the broker that listens there, if one does. Each finding says what to do. Nothing is changed.

    ok      as it should be
    note    works, and could be better
    wrong   will fail, loses something, or lets somebody in: the exit code is 1
"""

from __future__ import annotations

import errno
import os
import resource
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from covey import __version__
from covey.cli.options import LOCAL, AsJson, Broker, place_of
from covey.cli.output import say, show_one
from covey.cli.upkeep.installation import (
    NOTE,
    OK,
    WRONG,
    Finding,
    look_at_build,
    look_at_files,
    look_at_postgres,
    look_at_stores,
)
from covey.client.errors import ClientError
from covey.client.management import PORT, Management
from covey.config.connectors import ConnectorSettings
from covey.config.errors import ConfigError
from covey.config.load import load
from covey.config.record import human_size
from covey.config.settings import BrokerSettings, Settings
from covey.core.management.settings_check import flaws
from covey.protocols.process import memory_bytes

FILES_BESIDE: Final = 100  # open files of a broker that are no connections
CERTIFICATE_DAYS: Final = 30
DAY_S: Final = 86_400
PROBE_S: Final = 2.0
# What a client says first, and how the answer of a broker may begin.
GREETINGS: Final = {
    "stomp": (b"CONNECT\naccept-version:0\n\n\0", (b"ERROR", b"CONNECTED")),
    "amqp": (b"AMQP\3\1\0\0", (b"AMQP",)),
    "http": (b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", (b"HTTP/1.1",)),
}
UNBINDABLE: Final = "bind to an address of this machine, and to a port that its user may have"


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
    yield from _memory(settings.broker, memory_bytes())


def _memory(limits: BrokerSettings, most: int) -> Iterator[Finding]:
    """Look at what the broker may use of the memory that this process may have."""
    if not limits.memory_limit and not most:
        yield Finding(
            NOTE,
            "the system does not tell how much memory there is: nothing bounds a flood of messages",
            "memory_limit of [broker]",
        )
    elif most and limits.memory_limit > most:
        yield Finding(
            NOTE,
            f"memory_limit is {human_size(limits.memory_limit)},"
            f" but this machine, or its container, has {human_size(most)}",
            "memory_limit = 0 of [broker]: as much as there is",
        )
    else:
        used = (limits.memory_limit or most) * limits.memory_alarm_percent // 100
        yield Finding(OK, f"producers wait once {human_size(used)} of memory are used")


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


def _ports(settings: Settings) -> Iterator[Finding]:
    """Look whether the ports can be had: they are free, or a broker listens there already."""
    for connector in settings.connectors:
        host, _, port = connector.bind.rpartition(":")
        place = (host.strip("[]"), int(port))
        title = f"connector {connector.id}: {connector.bind}"
        try:
            (family, *_), *_ = socket.getaddrinfo(*place, type=socket.SOCK_STREAM)
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(place)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and _speaks(connector, place):
                yield Finding(OK, f"{title}: a broker listens there")
            elif error.errno == errno.EADDRINUSE:
                do = f"stop that one (ss -ltnp 'sport = :{port}' names it), or choose another port"
                yield Finding(WRONG, f"{title} is taken by another program", do)
            else:
                cause = error.strerror or str(error)
                yield Finding(WRONG, f"{title} cannot be had: {cause}", UNBINDABLE)


def _speaks(connector: ConnectorSettings, place: tuple[str, int]) -> bool:
    """Return True if whoever listens there speaks the connector's protocol, as a broker does."""
    ask, answers = GREETINGS[connector.protocol]
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}
    try:
        with socket.create_connection(
            (everywhere.get(place[0], place[0]), place[1]), PROBE_S
        ) as probe:
            if connector.tls is not None:
                return True  # without its certificate's authority nobody can tell
            probe.settimeout(PROBE_S)
            probe.sendall(ask)
            return probe.recv(16).startswith(answers)
    except OSError:
        return False


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


Look = Callable[[Settings], Iterator[Finding]]
LOOKS: Final[tuple[Look, ...]] = (
    look_at_build,
    look_at_files,
    look_at_stores,
    look_at_postgres,
    _limits,
    _doors,
    _ports,
)
