"""The PROXY protocol: heads that make sense and heads that do not; through a real HAProxy."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import anyio
import pytest

from covey.client.management import Management
from covey.client.place import parse_place
from covey.core.errors import ProtocolError
from covey.protocols.listener import read_head
from covey.protocols.proxy_v2 import SIGNATURE, Source, write_head
from tests.e2e.support import HOST, TIMEOUT_S, Client, running_broker

AT = Source("10.0.0.2", 61613)
TIMED = ("connect", "client", "server")
HAPROXY = shutil.which("haproxy")
CONFIG = """
[[connector]]
id = "stomp"
protocol = "stomp"
bind = "127.0.0.1:0"
proxy_protocol = true
[[connector]]
id = "amqp"
protocol = "amqp"
bind = "127.0.0.1:0"
proxy_protocol = true
[[connector]]
id = "http"
protocol = "http"
bind = "127.0.0.1:0"
proxy_protocol = true
[[connector]]
id = "direct"
protocol = "amqp"
bind = "127.0.0.1:0"
[[user]]
name = "admin"
password = "secret"
roles = ["admin"]
"""


def heard(data: bytes) -> tuple[Source | None, bytes]:
    """Read a head; return what it says, and what is left behind it."""
    rest = data

    async def read(count: int) -> bytes:
        nonlocal rest
        if len(rest) < count:
            raise EOFError
        piece, rest = rest[:count], rest[count:]
        return piece

    return anyio.run(read_head, read), rest


@pytest.mark.parametrize("host", ["192.0.2.7", "2001:db8::7"])
def test_a_head_tells_who_connects_and_takes_nothing_of_what_follows(host: str) -> None:
    target = AT if "." in host else Source("2001:db8::1", 61613)
    assert heard(write_head(Source(host, 40000), target) + b"CONNECT") == (
        Source(host, 40000),
        b"CONNECT",
    )


@pytest.mark.parametrize(
    "head",
    [
        SIGNATURE + b"\x20\x00\x00\x00",  # LOCAL
        SIGNATURE + b"\x20\x11\x00\x04abcd",
        SIGNATURE + b"\x21\x31\x00\x04abcd",  # a Unix socket's
    ],
)
def test_a_balancers_own_connection_is_its_own(head: bytes) -> None:
    assert heard(head + b"x") == (None, b"x")


@pytest.mark.parametrize(
    "data",
    [
        b"CONNECT\naccept-version:1.2\n\n\0",
        b"PROXY TCP4 192.0.2.7 10.0.0.2 40000 61613\r\n",  # version 1
        SIGNATURE + b"\x22\x11\x00\x0c" + b"\0" * 12,
        SIGNATURE + b"\x31\x11\x00\x0c" + b"\0" * 12,
        SIGNATURE + b"\x21\x11\x00\x04abcd",
        SIGNATURE + b"\x21\x11\xff\xff",
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="PROXY"):
        heard(data)


def test_a_head_that_ends_early_is_no_head() -> None:
    with pytest.raises(EOFError):
        heard(SIGNATURE[:5])


def remotes(port: int) -> set[str]:
    """Return the addresses of all connections, asked without a proxy."""
    with Management(parse_place(f"admin/secret@{HOST}:{port}", 0)) as client:
        return {str(row["remote"]) for row in client.query("connection")}


def test_a_port_shows_who_is_behind_the_balancer_and_closes_who_is_not(tmp_path: Path) -> None:
    with running_broker(tmp_path, config=CONFIG) as broker:
        with Client(broker.port) as client:
            client.socket.sendall(write_head(Source("192.0.2.7", 40000), AT))
            client.log_in(passcode="secret")
            assert "192.0.2.7:40000" in remotes(broker.port_of(3))
        with Client(broker.port) as client:
            client.send("CONNECT", {"accept-version": "1.2", "host": HOST})
            assert client.until_closed() == b""
        assert "proxy_head_refused" in broker.log


@contextmanager
def haproxy(folder: Path, targets: dict[str, int]) -> Iterator[dict[str, int]]:
    """Run a HAProxy before these ports; give its own ports."""
    ports = {}
    text = (
        "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n"
    )
    for name, port in targets.items():
        with closing(socket.create_server((HOST, 0))) as free:
            ports[name] = free.getsockname()[1]
        text += f"listen {name}\n  bind {HOST}:{ports[name]}\n"
        text += f"  server covey {HOST}:{port} send-proxy-v2\n"
    (folder / "haproxy.cfg").write_text(text)
    assert HAPROXY is not None
    process = subprocess.Popen([HAPROXY, "-db", "-q", "-f", str(folder / "haproxy.cfg")])
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                socket.create_connection((HOST, ports["stomp"])).close()
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline and process.poll() is None
                time.sleep(0.05)
        yield ports
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)


@pytest.mark.skipif(HAPROXY is None, reason="HAProxy is not installed (Debian: haproxy)")
def test_all_protocols_come_through_haproxy(tmp_path: Path) -> None:
    with running_broker(tmp_path, config=CONFIG) as broker:
        targets = {name: broker.port_of(at) for at, name in enumerate(("stomp", "amqp", "http"))}
        with haproxy(tmp_path, targets) as ports:
            with Client(ports["stomp"]) as client:
                client.log_in(passcode="secret")
                own = "{}:{}".format(*client.socket.getsockname())
                assert own in remotes(ports["amqp"])
            asked = Request(f"http://{HOST}:{ports['http']}/livez")
            with urlopen(asked, timeout=TIMEOUT_S) as answer:
                assert answer.status == 200
