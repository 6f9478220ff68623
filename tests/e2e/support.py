"""The real broker as a process of its own, and a client that only knows bytes.

`running_broker` starts `python -m covey serve` on ports that the system chooses, in a directory of
its own, and returns once it listens. It runs the same `covey` that the tests import: the source
tree, or an installed wheel. Nothing here sleeps: a started broker is waited for by reading its
welcome, an answer by reading the socket.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.request import Request, urlopen

import pytest

import covey
from covey.protocols.stomp.frame import Frame, encode
from covey.protocols.stomp.line_parser import Limits
from covey.protocols.stomp.parser import FrameParser
from covey.protocols.stomp.versions import Version

HOST = "127.0.0.1"
LOGIN = "admin"
PASSCODE = "password"
TIMEOUT_S = 30.0  # for one answer, on a machine that is busy with other tests
MIB = 1024 * 1024
INTERNAL_ERRORS = "covey_internal_errors_total"
LAST_LINE = "printf 'CONNECT"  # ends the welcome

STOMP_CONNECTOR = """
[[connector]]
id = "stomp"
protocol = "stomp"
bind = "127.0.0.1:0"
"""


class BrokerProcess:
    """A broker that runs: where it listens, what it uses, how it ended."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.welcome = _read_welcome(process)
        self.host = HOST
        self.port = _stomp_port(self.welcome) if self.welcome else 0

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return (self.folder / "log").read_text()

    def rss_bytes(self) -> int:
        """Memory that it uses now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) * 1024

    def open_files(self) -> int:
        """How many files and sockets it has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def port_of(self, connector: int) -> int:
        """The port of a connector, by its place in the welcome."""
        listed = [line.split() for line in self.welcome.splitlines()]
        ports = [words[1] for words in listed if words[0] in ("stomp", "amqp", "http")]
        return int(ports[connector].rpartition(":")[2])

    def client(self, **headers: str) -> Client:
        """Connect and log in."""
        client = Client(self.port)
        client.log_in(**headers)
        return client

    def signal(self, number: signal.Signals) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT_S)

    def internal_errors(self) -> int | None:
        """How often it failed by its own count; None if it cannot be asked."""
        ports = [line.split()[1] for line in self.welcome.splitlines() if line.startswith("http ")]
        if not ports or self.process.poll() is not None:
            return None
        login = b64encode(f"{LOGIN}:{PASSCODE}".encode()).decode()
        asked = Request(f"http://{ports[0]}/metrics", headers={"Authorization": f"Basic {login}"})
        try:
            with urlopen(asked, timeout=TIMEOUT_S) as answer:
                text = answer.read().decode()
        except (OSError, HTTPException):  # it has other users, speaks TLS, or has no room
            return None
        lines = [line for line in text.splitlines() if line.startswith(INTERNAL_ERRORS)]
        assert lines, text
        return sum(int(line.rpartition(" ")[2]) for line in lines)  # one of each worker

    def assert_serves(self) -> None:
        """Send a message through it, from one client to another."""
        with self.client() as sender, self.client() as receiver:
            receiver.subscribe("/queue/e2e.alive")
            sender.send("SEND", {"destination": "/queue/e2e.alive"}, b"alive")
            assert receiver.frame().body == b"alive"


class Client:
    """A socket that speaks STOMP frames, or whatever bytes a test wants."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), TIMEOUT_S)
        self.parser = FrameParser(Limits())
        self.parser.version = Version.V1_2
        self.version = Version.V1_2

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def log_in(self, **headers: str) -> Frame:
        """CONNECT as the default user; returns CONNECTED. `heart_beat` becomes `heart-beat`."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        login = {"accept-version": "1.2", "host": HOST, "login": LOGIN, "passcode": PASSCODE}
        self.send("CONNECT", login | given)
        connected = self.frame()
        assert connected.command == "CONNECTED", connected.block
        return connected

    def send(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send one frame."""
        self.socket.sendall(encode(command, list(headers.items()), body, self.version))

    def subscribe(self, destination: str, **headers: str) -> None:
        """Subscribe under the id `s` and wait until that is done."""
        wanted = {"id": "s", "destination": destination, "receipt": "subscribed"}
        self.send("SUBSCRIBE", wanted | headers)
        assert self.frame().command == "RECEIPT"

    def sync(self) -> None:
        """Return when everything sent so far has been handled; nothing else may be waiting."""
        self.send("BEGIN", {"transaction": "sync"})
        self.send("ABORT", {"transaction": "sync", "receipt": "sync"})
        frame = self.frame()
        assert frame.command == "RECEIPT", frame.block

    def frame(self) -> Frame:
        """Read the next frame; EOFError when the broker has closed."""
        while (frame := self.parser.next_frame()) is None:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError("the broker closed the connection")
            self.parser.feed(data)
        return frame

    def until_closed(self) -> bytes:
        """Read everything up to the close."""
        parts = []
        try:
            while data := self.socket.recv(65536):
                parts.append(data)
        except ConnectionResetError:
            pass  # it closed with words of ours unread
        return b"".join(parts)


@contextmanager
def running_broker(
    folder: Path, *, config: str = "", arguments: tuple[str, ...] = (), fails: bool = False
) -> Iterator[BrokerProcess]:
    """Run a broker for the length of a `with`; one that `fails` may end before its welcome.

    Whatever is done to it, it must not have failed itself: its own count says so at the end.
    """
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "covey", "serve", "--data", str(folder / "data")]
    for protocol in ("stomp", "amqp", "http"):
        if f"--{protocol}" not in arguments:
            command += [f"--{protocol}", f"{HOST}:0"]
    if config:
        (folder / "covey.toml").write_text(config)
        command += ["--config", str(folder / "covey.toml")]
    environment = dict(os.environ, PYTHONPATH=str(Path(covey.__file__).parent.parent))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            cwd=folder,
        )
    try:
        broker = BrokerProcess(process, folder)
        assert fails or broker.welcome, broker.log
        yield broker
        assert broker.internal_errors() in (0, None), broker.log
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for the tests of a module that do not harm it."""
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def _read_welcome(process: subprocess.Popen[str]) -> str:
    """Read what it prints until it is ready; "" if it ended instead."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if LAST_LINE in line:
            return "".join(lines)
    return ""


def _stomp_port(welcome: str) -> int:
    lines = [line for line in welcome.splitlines() if line.split()[0] == "stomp"]
    return int(lines[0].rpartition(":")[2])
