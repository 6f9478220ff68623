"""Several brokers that share virtual hosts: who serves what, how it moves, what clients see."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from covey.client.management import Management
from covey.client.place import Place
from tests.core.storage.postgres.server import Postgres, Server
from tests.e2e.cluster import nodes as nodes_module
from tests.e2e.cluster.nemesis import Nemesis, play
from tests.e2e.cluster.network import why_not
from tests.e2e.cluster.nodes import LEASE_S, Node, ending, owners, wait_until
from tests.e2e.cluster.unfenced import take_off
from tests.e2e.support import HOST, LOGIN, PASSCODE, TIMEOUT_S, BrokerProcess, Client

SPACES = ("default", "one", "two", "three")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.remove()


def command(broker: BrokerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `covey cluster` against a broker."""
    place = f"{LOGIN}/{PASSCODE}@{HOST}:{broker.port_of(1)}"
    return subprocess.run(
        [sys.executable, "-m", "covey", "cluster", *arguments, "-b", place],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def http(
    broker: BrokerProcess, path: str, body: dict[str, object] | None = None
) -> tuple[int, str]:
    """Ask a broker's HTTP port."""
    login = b64encode(f"{LOGIN}:{PASSCODE}".encode()).decode()
    asked = Request(
        f"http://{HOST}:{broker.port_of(2)}{path}",
        headers={"Authorization": f"Basic {login}", "Content-Type": "application/json"},
        data=None if body is None else json.dumps(body).encode(),
    )
    with urlopen(asked, timeout=TIMEOUT_S) as answer:
        return answer.status, answer.read().decode()


def is_even(broker: BrokerProcess) -> bool:
    found = list(owners(broker).values())
    return found.count("a") == found.count("b") == len(SPACES) // 2


def test_virtual_hosts_are_shared_moved_drained_and_inherited(
    tmp_path: Path, server: Server
) -> None:
    postgres = Postgres(server)
    nodes = [Node(tmp_path, postgres, "a", spaces=SPACES)]
    with ending(nodes):
        first = nodes[0].served()
        assert set(owners(first).values()) == {"a"}
        nodes.append(Node(tmp_path, postgres, "b", spaces=SPACES))
        second = nodes[1].served()
        wait_until(lambda: is_even(second), *nodes)

        listed = json.loads(command(second, "list", "--json").stdout)
        assert list(listed) == ["spaces", "nodes"]
        assert list(listed["spaces"][0]) == [
            "space", "owner", "epoch", "since", "lease_left_s", "messages", "connections",
        ]  # fmt: skip
        assert list(listed["nodes"][0]) == [
            "node", "address", "version", "draining", "load", "config_digest",
        ]  # fmt: skip
        shown = json.loads(http(first, "/api/v1/cluster")[1])
        assert [row["space"] for row in shown["spaces"]] == sorted(SPACES)
        assert len({row["config_digest"] for row in shown["nodes"]}) == 1

        space = next(name for name, owner in owners(first).items() if owner == "a")
        done = command(second, "move", space, "b")
        assert done.stdout == f"{space} is served by b\n", done.stderr
        status, _ = http(first, f"/api/v1/cluster/spaces/{space}/move", {"node": "a"})
        assert status == 202
        wait_until(lambda: owners(second)[space] == "a", *nodes)

        done = command(first, "drain", "b")
        assert done.stdout == "b serves nothing\n", done.stderr
        assert "no other node could serve" in command(first, "drain", "a").stderr
        assert command(first, "drain", "b", "--undo").returncode == 0
        assert "there is no node x now; there are a, b" in command(first, "move", space, "x").stderr

        nodes[0].process.kill()
        began = time.monotonic()
        wait_until(lambda: set(owners(second).values()) == {"b"}, nodes[1])
        assert time.monotonic() - began < LEASE_S + 8
        metrics = http(second, "/metrics")[1]
        assert f'covey_space_owned{{space="{space}"}} 1' in metrics
        assert 'covey_takeovers_total{reason="free"}' in metrics


def test_the_list_comes_at_once_while_an_owner_is_frozen(tmp_path: Path, server: Server) -> None:
    postgres = Postgres(server)
    nodes = [Node(tmp_path, postgres, "a")]
    with ending(nodes):
        nodes[0].served()
        nodes.append(Node(tmp_path, postgres, "b"))
        second = nodes[1].served()
        with second.client(host="$cluster") as client:
            headers = {"destination": "/queue/q", "persistent": "true", "receipt": "r"}
            client.send("SEND", headers, b"nobody would find it again")
            assert b"keeps no messages" in client.frame().block
        nodes[0].process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        assert owners(second) == {"default": "a"}
        assert time.monotonic() - began < 2
        wait_until(lambda: owners(second) == {"default": "b"}, nodes[1])


def test_many_idle_virtual_hosts_need_few_connections_to_the_database(tmp_path: Path) -> None:
    server = Server(("max_connections=12", "superuser_reserved_connections=1"))
    spaces = ("default", *[f"s{number}" for number in range(23)])
    nodes: list[Node] = []
    try:
        postgres = Postgres(server)
        with ending(nodes):
            nodes += [Node(tmp_path, postgres, name, spaces=spaces) for name in "ab"]
            brokers = [node.served() for node in nodes]
            wait_until(lambda: set(owners(brokers[1]).values()) == {"a", "b"}, *nodes)
            for space in spaces[:4]:
                with brokers[0].client(host=f"{space}.example") as client:
                    send(client, 0, 3)
            nodes[0].process.kill()
            nodes[0].process.wait(TIMEOUT_S)
            wait_until(lambda: set(owners(brokers[1]).values()) == {"b"}, nodes[1])
            for space in spaces[:4]:
                with brokers[1].client(host=f"{space}.example") as client:
                    client.subscribe("/queue/q")
                    assert [client.frame().body for _ in range(3)] == [b"0", b"1", b"2"]
    finally:
        server.remove()


def test_a_name_that_is_alive_is_refused_with_one_line(tmp_path: Path, server: Server) -> None:
    postgres = Postgres(server)
    (tmp_path / "other").mkdir()
    nodes = [Node(tmp_path, postgres, "a")]
    with ending(nodes):
        nodes[0].served()
        nodes.append(Node(tmp_path / "other", postgres, "a"))
        assert nodes[1].process.wait(TIMEOUT_S) == 1
        last = nodes[1].log.splitlines()[-1]
        assert last.startswith("covey: another broker is called a, and it is alive")


def test_a_broker_whose_port_is_taken_takes_no_virtual_host(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres = Postgres(server)
    with closing(socket.create_server((HOST, 0))) as taken:
        monkeypatch.setattr(nodes_module, "free_port", lambda: taken.getsockname()[1])
        node = Node(tmp_path, postgres, "a")
        with ending([node]):
            assert node.process.wait(TIMEOUT_S) == 1
    assert "covey: cannot listen on" in node.log
    with postgres.connect() as connection:
        assert connection.execute("select epoch, owner from covey_spaces").fetchall() == [(0, None)]


def test_a_connection_reaches_its_virtual_host_through_any_broker(
    tmp_path: Path, server: Server
) -> None:
    postgres = Postgres(server)
    nodes = [Node(tmp_path, postgres, "a", spaces=SPACES)]
    with ending(nodes):
        first = nodes[0].served()
        nodes.append(Node(tmp_path, postgres, "b", spaces=SPACES))
        second = nodes[1].served()
        wait_until(lambda: is_even(second), *nodes)
        wait_until(lambda: owners(first) == owners(second), *nodes)
        hosts = [f"{space}.example" for space in SPACES]
        for host in hosts:
            with first.client(host=host) as sender, second.client(host=host) as receiver:
                receiver.subscribe("/queue/q")
                headers = {"destination": "/queue/q", "persistent": "true", "receipt": "r"}
                sender.send("SEND", headers, host.encode())
                assert sender.frame().command == "RECEIPT"
                assert receiver.frame().body == host.encode()
            place = Place(HOST, first.port_of(1), LOGIN, PASSCODE, virtual_host=host)
            with Management(place, TIMEOUT_S) as client:
                assert client.read("queue", "q")["acknowledged"] == 1
        assert "covey_forwarded_connections" in http(first, "/metrics")[1]


def test_clients_of_both_protocols_lose_nothing_over_a_few_faults(tmp_path: Path) -> None:
    verdict = play(tmp_path, 1, ["move", "kill", "short"], lambda text: None)
    assert verdict.is_good, verdict
    assert verdict.safe > 0
    assert verdict.settled > 0


@pytest.mark.slow
def test_without_the_fence_the_checker_finds_what_is_lost(tmp_path: Path) -> None:
    nemesis = Nemesis(tmp_path, 1, program="tests.e2e.cluster.unfenced")
    try:
        take_off(nemesis.postgres)
        nemesis.begin()
        for _ in range(6):
            nemesis.strike("long")
        verdict = nemesis.finish()
    finally:
        nemesis.close()
    assert verdict.safe > 0
    assert not verdict.is_good, verdict


def test_clients_lose_nothing_when_packets_are_dropped_and_a_standby_is_promoted(
    tmp_path: Path,
) -> None:
    if why_not():
        pytest.skip(why_not())
    command = [
        sys.executable,
        "-m",
        "tests.e2e.cluster.nemesis",
        "--seed",
        "1",
        "--folder",
        str(tmp_path),
    ]
    # A process of its own, since it leaves the network that it is in.
    done = subprocess.run(
        [*command, "--seed", "1", "--faults", "3", "--only", "cut,deaf,promote"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=10 * TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost 0, phantom 0, redelivered 0, reordered 0, split 0" in done.stdout


# One virtual host: one broker serves, the other one stands by.


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
