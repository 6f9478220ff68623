"""Other people's clients over the loss of the broker that serves them.

Two brokers share a PostgreSQL. A client sends numbers in five groups, each when the one before was
confirmed, and receives them. Meanwhile the owner of the virtual host is killed. The client knows
both brokers, or a HAProxy before them that tells clients' addresses (PROXY v2). It goes on within
the time that docs/cluster.md names, everything confirmed comes, and each group in order.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import stomp

from tests.core.storage.postgres.server import Postgres, Server
from tests.e2e.cluster.nodes import LEASE_S, Node, ending, owners, wait_until
from tests.e2e.support import HOST, LOGIN, PASSCODE, TIMEOUT_S, BrokerProcess
from tests.interop.java import start_java
from tests.interop.node import start_node

pytestmark = [pytest.mark.interop, pytest.mark.slow]

COUNT = 300
GROUPS = 5
WITHIN_S = LEASE_S + 8  # docs/cluster.md
HAPROXY = shutil.which("haproxy")
CONFIG = "".join(
    f'[[connector]]\nid = "{name}"\nprotocol = "{name.partition("-")[0]}"\nbind = "{HOST}:0"\n'
    + ("proxy_protocol = true\n" if name.endswith("-behind") else "")
    for name in ("stomp", "amqp", "http", "stomp-behind", "amqp-behind")
)
# A user of its own: the one that everybody knows comes from this machine alone, through no proxy.
CONFIG += "".join(
    f'[[user]]\nname = "{name}"\npassword = "{password}"\nroles = ["admin"]\n'
    for name, password in ((LOGIN, PASSCODE), ("ann", "secret"))
)
PLACES = {"stomp": 0, "amqp": 1, "http": 2, "stomp-behind": 3, "amqp-behind": 4}


class Outcome(NamedTuple):
    """What a client has seen."""

    confirmed: list[int]
    received: list[int]
    pause_s: float


class StompPy:
    """stomp.py with several hosts: it connects to the next one when it is told to connect again."""

    def __init__(self, ports: list[int]) -> None:
        self.received: list[int] = []
        self.answers: queue.Queue[str] = queue.Queue()
        self.connection = stomp.StompConnection12(
            [(HOST, port) for port in ports],
            reconnect_sleep_initial=0.1,
            reconnect_sleep_max=0.5,
            reconnect_attempts_max=30,
        )
        self.connection.set_listener("test", self)

    def on_message(self, frame: Any) -> None:
        self.received.append(int(frame.body))
        with suppress(OSError, stomp.exception.StompException):  # it comes again, then
            self.connection.ack(frame.headers["ack"])

    def on_receipt(self, frame: Any) -> None:
        self.answers.put(frame.headers["receipt-id"])

    def come_in(self) -> None:
        """Connect to whichever broker answers, and subscribe."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            try:
                self.connection.connect("ann", "secret", wait=True)
                self.connection.subscribe("/queue/failover.stomp", "s", ack="client-individual")
                return
            except (OSError, stomp.exception.StompException):
                assert time.monotonic() < deadline, "nobody lets it in"

    def send(self, number: int) -> None:
        """Send a number until it is confirmed."""
        while True:
            try:
                self.connection.send(
                    "/queue/failover.stomp", str(number), receipt=str(number), persistent="true",
                    message_group=f"g{number % GROUPS}",
                )  # fmt: skip
                if self._is_confirmed(number):
                    return
            except (OSError, stomp.exception.StompException):
                pass
            self.come_in()

    def _is_confirmed(self, number: int) -> bool:
        """Wait for a receipt, or for the end of the connection."""
        while self.connection.is_connected():
            with suppress(queue.Empty):
                if self.answers.get(timeout=0.1) == str(number):
                    return True
        return False


def use_stomp_py(ports: list[int], ready: Callable[[], None]) -> Outcome:
    client = StompPy(ports)
    client.come_in()
    pause_s, latest = 0.0, time.monotonic()
    for number in range(COUNT):
        client.send(number)
        pause_s = max(pause_s, time.monotonic() - latest)
        latest = time.monotonic()
        if number == COUNT // 5:
            ready()
    while len(set(client.received)) < COUNT:
        assert time.monotonic() < latest + TIMEOUT_S, sorted(set(range(COUNT)) - {*client.received})
        time.sleep(0.02)
    return Outcome(list(range(COUNT)), client.received, pause_s)


def use_rhea(ports: list[int], ready: Callable[[], None]) -> Outcome:
    script = Path(__file__).parent / "js" / "failover.js"
    return use(start_node(script, ",".join(map(str, ports)), str(COUNT)), ready)


def use_qpid_jms(ports: list[int], ready: Callable[[], None]) -> Outcome:
    brokers = ",".join([f"amqp://{HOST}:{port}" for port in ports])
    options = "failover.maxReconnectDelay=500"
    return use(start_java("Failover", f"failover:({brokers})?{options}", str(COUNT)), ready)


def use(program: subprocess.Popen[str], ready: Callable[[], None]) -> Outcome:
    """Let a program say when it is ready, and in the end what it has seen."""
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        ready()
        said, complaints = program.communicate(timeout=2 * TIMEOUT_S)
    finally:
        program.kill()
    assert program.returncode == 0, said + complaints
    return Outcome(**json.loads(said))


CLIENTS = {
    "stomp.py": ("stomp", use_stomp_py),
    "rhea": ("amqp", use_rhea),
    "Qpid JMS": ("amqp", use_qpid_jms),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.remove()


@contextmanager
def two_brokers(folder: Path, server: Server) -> Iterator[tuple[list[Node], list[BrokerProcess]]]:
    """Run two brokers; the first one is the owner."""
    postgres = Postgres(server)
    nodes = [Node(folder, postgres, "a", config=CONFIG)]
    with ending(nodes):
        brokers = [nodes[0].served()]
        nodes.append(Node(folder, postgres, "b", config=CONFIG))
        brokers.append(nodes[1].served())
        wait_until(lambda: owners(brokers[1]) == {"default": "a"}, *nodes)
        yield nodes, brokers


@contextmanager
def balancer(folder: Path, targets: list[int]) -> Iterator[int]:
    """Run a HAProxy before some ports, as docs/security.md has it; give its own port."""
    with closing(socket.create_server((HOST, 0))) as free:
        port = free.getsockname()[1]
    servers = "".join(
        f"  server n{target} {HOST}:{target} send-proxy-v2 check check-send-proxy"
        " inter 200ms fall 1 rise 1 on-marked-down shutdown-sessions\n"
        for target in targets
    )
    (folder / "haproxy.cfg").write_text(
        "defaults\n  mode tcp\n  timeout connect 1s\n  timeout client 60s\n  timeout server 60s\n"
        f"  option redispatch\nlisten covey\n  bind {HOST}:{port}\n{servers}"
    )
    assert HAPROXY is not None
    process = subprocess.Popen(
        [HAPROXY, "-db", "-q", "-f", str(folder / "haproxy.cfg")], env=dict(os.environ)
    )
    try:
        yield port
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)


def first_seen(received: list[int]) -> list[int]:
    """Leave out what came again."""
    return list(dict.fromkeys(received))


def check(outcome: Outcome) -> None:
    """See that nothing is lost, groups are in order, and the pause is as short as promised."""
    assert outcome.confirmed == list(range(COUNT))
    assert set(outcome.confirmed) <= set(outcome.received)
    for group in range(GROUPS):
        numbers = [one for one in first_seen(outcome.received) if one % GROUPS == group]
        assert numbers == sorted(numbers)
    assert LEASE_S / 2 < outcome.pause_s < WITHIN_S  # less, and nobody was killed


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_knows_both_brokers_goes_on(
    tmp_path: Path, server: Server, client: str
) -> None:
    connector, run = CLIENTS[client]
    with two_brokers(tmp_path, server) as (nodes, brokers):
        ports = [broker.port_of(PLACES[connector]) for broker in brokers]
        check(run(ports, nodes[0].process.kill))


@pytest.mark.skipif(HAPROXY is None, reason="HAProxy is not installed (Debian: haproxy)")
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_behind_haproxy_goes_on(tmp_path: Path, server: Server, client: str) -> None:
    connector, run = CLIENTS[client]
    with two_brokers(tmp_path, server) as (nodes, brokers):
        targets = [broker.port_of(PLACES[f"{connector}-behind"]) for broker in brokers]
        with balancer(tmp_path, targets) as port:
            check(run([port], nodes[0].process.kill))
