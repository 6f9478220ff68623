"""Two brokers and one PostgreSQL: the one that dies, freezes or stops is followed without loss."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import covey
from tests.core.storage.postgres.server import Postgres, Server
from tests.e2e.support import HOST, TIMEOUT_S, BrokerProcess, Client

LEASE_S = 2.0


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.remove()


class Node:
    """A broker of two; its ports are open while it serves."""

    def __init__(self, folder: Path, postgres: Postgres, name: str) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        (self.folder / "covey.toml").write_text(
            f'[store]\nkind = "postgres"\ndsn = "{postgres.dsn}"\n'
            f'[cluster]\nnode = "{name}"\nlease_s = {LEASE_S}\n'
        )
        command = [sys.executable, "-m", "covey", "serve"]
        command += ["--config", str(self.folder / "covey.toml")]
        for protocol in ("stomp", "amqp", "http"):
            command += [f"--{protocol}", f"{HOST}:0"]
        environment = dict(os.environ, PYTHONPATH=str(Path(covey.__file__).parent.parent))
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def served(self) -> BrokerProcess:
        """Wait until it serves."""
        return BrokerProcess(self.process, self.folder)

    def wait_for(self, word: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while word not in self.log:
            assert time.monotonic() < deadline and self.process.poll() is None, self.log
            time.sleep(0.02)


@contextmanager
def two_nodes(folder: Path, server: Server) -> Iterator[tuple[Node, BrokerProcess, Node]]:
    """Run a broker that serves, and one that stands by."""
    postgres = Postgres(server)
    nodes = [Node(folder, postgres, "a")]
    try:
        serving = nodes[0].served()
        nodes.append(Node(folder, postgres, "b"))
        nodes[1].wait_for("standing by")
        yield nodes[0], serving, nodes[1]
    finally:
        for node in nodes:
            with suppress(ProcessLookupError):
                node.process.send_signal(signal.SIGCONT)
                node.process.kill()
            node.process.wait(TIMEOUT_S)


def send(client: Client, first: int, count: int) -> None:
    """Send messages of ten groups, and wait until all are confirmed."""
    for number in range(first, first + count):
        headers = {
            "destination": "/queue/q",
            "persistent": "true",
            "message_group": f"{number % 10}",
        }
        client.send("SEND", headers, b"%d" % number)
    client.sync()


def drained(broker: BrokerProcess, count: int) -> list[int]:
    """Take so many messages."""
    with broker.client() as client:
        client.subscribe("/queue/q")
        return [int(client.frame().body) for _ in range(count)]


def test_a_broker_that_is_killed_is_followed_by_the_one_that_stands_by(
    tmp_path: Path, server: Server
) -> None:
    with two_nodes(tmp_path, server) as (first, serving, second):
        with serving.client() as client:
            send(client, 0, 500)
            client.subscribe("/queue/q", ack="client-individual")
            for _ in range(100):
                frame = client.frame()
                client.send("ACK", {"id": frame.headers(client.version)["ack"]})
            client.send("BEGIN", {"transaction": "t", "receipt": "settled"})
            while client.frame().command != "RECEIPT":
                pass
            first.process.kill()
            first.process.wait(TIMEOUT_S)
        began = time.monotonic()
        following = second.served()
        waited_s = time.monotonic() - began
        assert drained(following, 400) == list(range(100, 500))
        assert waited_s < LEASE_S + 8
        with following.client() as client:
            send(client, 500, 10)


def test_a_broker_that_was_frozen_confirms_nothing_any_more(tmp_path: Path, server: Server) -> None:
    with two_nodes(tmp_path, server) as (first, serving, second):
        with serving.client() as client:
            send(client, 0, 50)
            first.process.send_signal(signal.SIGSTOP)
            following = second.served()
            headers = {"destination": "/queue/q", "persistent": "true", "receipt": "late"}
            client.send("SEND", headers, b"50")
            first.process.send_signal(signal.SIGCONT)
            assert b"RECEIPT" not in client.until_closed()
        assert first.process.wait(TIMEOUT_S) == 1
        assert "is over, another has it" in first.log
        assert drained(following, 50) == list(range(50))


def test_a_broker_that_stops_is_followed_at_once(tmp_path: Path, server: Server) -> None:
    with two_nodes(tmp_path, server) as (first, serving, second):
        with serving.client() as client:
            send(client, 0, 20)
        first.process.send_signal(signal.SIGTERM)
        assert first.process.wait(TIMEOUT_S) == 0
        assert drained(second.served(), 20) == list(range(20))


def test_a_database_that_crashes_makes_a_pause_and_no_loss(tmp_path: Path) -> None:
    server = Server()
    try:
        node = Node(tmp_path, Postgres(server), "a")
        serving = node.served()
        with serving.client() as client:
            send(client, 0, 50)
            server.stop("immediate")
            headers = {"destination": "/queue/q", "persistent": "true", "receipt": "after"}
            client.send("SEND", headers, b"50")
            server.start()
            assert client.frame().command == "RECEIPT"
        assert drained(serving, 51) == list(range(51))
        assert serving.signal(signal.SIGTERM) == 0
    finally:
        node.process.kill()
        server.remove()
