"""Two brokers and one PostgreSQL: the one that dies, freezes or stops is followed without loss."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.core.storage.postgres.server import Postgres, Server
from tests.e2e.nodes import LEASE_S, Node, ending, owners, wait_until
from tests.e2e.support import TIMEOUT_S, BrokerProcess, Client


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.remove()


@contextmanager
def two_nodes(folder: Path, server: Server) -> Iterator[tuple[Node, BrokerProcess, Node]]:
    """Run a broker that serves, and one that stands by."""
    postgres = Postgres(server)
    nodes = [Node(folder, postgres, "a")]
    with ending(nodes):
        serving = nodes[0].served()
        nodes.append(Node(folder, postgres, "b"))
        yield nodes[0], serving, nodes[1]


def following(node: Node) -> BrokerProcess:
    """Wait until a broker has taken over."""
    broker = node.served()
    wait_until(lambda: owners(broker) == {"default": node.name}, node)
    return broker


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
        follower = following(second)
        waited_s = time.monotonic() - began
        assert drained(follower, 400) == list(range(100, 500))
        assert waited_s < LEASE_S + 8
        with follower.client() as client:
            send(client, 500, 10)


def test_a_broker_that_was_frozen_confirms_nothing_any_more(tmp_path: Path, server: Server) -> None:
    with two_nodes(tmp_path, server) as (first, serving, second):
        with serving.client() as client:
            send(client, 0, 50)
            first.process.send_signal(signal.SIGSTOP)
            follower = following(second)
            headers = {"destination": "/queue/q", "persistent": "true", "receipt": "late"}
            client.send("SEND", headers, b"50")
            first.process.send_signal(signal.SIGCONT)
            assert b"RECEIPT" not in client.until_closed()
        first.wait_for("is over, another has it")
        assert drained(follower, 50) == list(range(50))


def test_a_broker_that_stops_is_followed_at_once(tmp_path: Path, server: Server) -> None:
    with two_nodes(tmp_path, server) as (first, serving, second):
        with serving.client() as client:
            send(client, 0, 20)
        first.process.send_signal(signal.SIGTERM)
        assert first.process.wait(TIMEOUT_S) == 0
        assert drained(following(second), 20) == list(range(20))


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
