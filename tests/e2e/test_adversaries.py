"""Peers that mean harm, on every port at once: what they cost ends with them, and nobody waits.

Slow ones send a byte at a time or stop in the middle of a login, a handshake, a request; floods of
small things go on until the broker reads no more. Everything is seeded and takes seconds.
"""

from __future__ import annotations

import base64
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trustme

from tests.e2e.support import HOST, MIB, PASSCODE, BrokerProcess, Client, running_broker
from tests.e2e.test_bad_input import SESSION, mutated, say

PORTS = {"stomp": 0, "amqp": 1, "http": 2, "tls stomp": 3, "tls http": 4}
LIMIT_S = 1.0
PATIENCE_S = 15.0
DRIP_S = 0.02
GROWTH_MAX = 24 * MIB  # the allocator's; what is looked for is much larger
GROUPS = 40_000
BATCH = 500

CONFIG = """
[broker]
logins_pending_max = 1000
[[connector]]
id = "stomp"
protocol = "stomp"
bind = "127.0.0.1:0"
[connector.stomp]
login_timeout_s = {limit_s}
die_delay_ms = 100
[[connector]]
id = "amqp"
protocol = "amqp"
bind = "127.0.0.1:0"
[connector.amqp]
open_timeout_s = {limit_s}
[[connector]]
id = "http"
protocol = "http"
bind = "127.0.0.1:0"
[connector.http]
request_timeout_s = {limit_s}
idle_timeout_s = {limit_s}
[connector.stomp]
login_timeout_s = {limit_s}
[[connector]]
id = "stomps"
protocol = "stomp"
bind = "127.0.0.1:0"
[connector.tls]
certificate = "{folder}/chain"
key = "{folder}/key"
handshake_timeout_s = {limit_s}
[[connector]]
id = "https"
protocol = "http"
bind = "127.0.0.1:0"
[connector.tls]
certificate = "{folder}/chain"
key = "{folder}/key"
handshake_timeout_s = {limit_s}
"""

LOGIN = base64.b64encode(f"admin:{PASSCODE}".encode())
POST = (
    b"POST /api/v1/queues/q/messages HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic "
    + LOGIN
    + b"\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n"
)
UPGRADE = (
    b"GET /stomp HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-protocol: v12.stomp\r\n\r\n"
)
HELLO = b"\x16\x03\x01\x02\x00\x01"
H2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")

SLOW = [
    # the port, what is sent at once, what follows a byte at a time for ever
    ("stomp", b"", b""),
    ("stomp", b"", b"CONNECT\nlogin:" + b"a" * 1000),
    ("stomp", b"CONNECT\nlogin:admin\n", b""),
    ("amqp", b"", b""),
    ("amqp", b"AMQP\3\1\0\0", b""),
    ("amqp", b"AMQP\3\1\0\0", b"\0\0\1\0\2\1\0\0"),
    ("amqp", b"AMQP\0\1", b""),
    ("http", b"", b""),
    ("http", b"", b"GET /livez HTTP/1.1\r\nx: " + b"a" * 1000),
    ("http", POST, b""),
    ("http", POST, b" "),
    ("http", H2, b""),
    ("http", H2, bytes.fromhex("000008060000000000") + bytes(8)),
    ("http", UPGRADE, b""),
    ("http", UPGRADE, b"\x81\xfe\x02\x00" + bytes(512)),
    ("tls stomp", b"", b""),
    ("tls stomp", HELLO, b"\0"),
    ("tls http", b"", b""),
    ("tls http", HELLO, b"\0"),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with every kind of port, and little patience on each."""
    folder = tmp_path_factory.mktemp("broker")
    issued = trustme.CA().issue_cert(HOST)
    issued.private_key_pem.write_to_path(folder / "key")
    issued.cert_chain_pems[0].write_to_path(folder / "chain")
    config = CONFIG.format(folder=folder, limit_s=LIMIT_S)
    with running_broker(folder, config=config) as running:
        yield running


@pytest.fixture(autouse=True)
def unharmed(broker: BrokerProcess) -> Iterator[None]:
    """Nothing is left of anybody, the broker serves, and no bug of ours was logged."""
    broker.assert_serves()
    files = broker.open_files()
    yield
    broker.assert_serves()
    until(lambda: broker.open_files() <= files)
    assert "Traceback" not in broker.log


def until(is_so: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < give_up_at, "it did not come to pass"
        time.sleep(0.05)


def closed_after_s(port: int, opening: bytes, drip: bytes) -> float:
    """Be slow until the broker has enough of it; return how long that took."""
    with socket.create_connection((HOST, port)) as peer:
        begun = time.monotonic()
        peer.settimeout(DRIP_S)
        at = 0
        try:
            peer.sendall(opening)
            while time.monotonic() < begun + PATIENCE_S:
                if drip:
                    peer.sendall(drip[at % len(drip) :][:1])
                    at += 1
                try:
                    if not peer.recv(65536):
                        break
                except TimeoutError:
                    continue
        except OSError:
            pass  # it was reset
        return time.monotonic() - begun


def test_who_never_finishes_is_closed_on_every_port_while_others_are_served(
    broker: BrokerProcess,
) -> None:
    with ThreadPoolExecutor(len(SLOW)) as threads:
        waits = [
            threads.submit(closed_after_s, broker.port_of(PORTS[port]), opening, drip)
            for port, opening, drip in SLOW
        ]
        broker.assert_serves()
        took = [wait.result() for wait in waits]
    assert [case for case, s in zip(SLOW, took, strict=True) if s > PATIENCE_S / 2] == []


def test_many_broken_sessions_at_once_leave_nothing_behind(broker: BrokerProcess) -> None:
    before = broker.rss_bytes()
    dice = random.Random(61614)
    sessions = [mutated(SESSION, dice) for _ in range(400)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda session: say(broker.port, session), sessions))
    assert broker.rss_bytes() - before < GROWTH_MAX


def test_a_flood_of_pings_that_reads_no_pong_costs_no_memory(broker: BrokerProcess) -> None:
    ping = b"\x89\xfd" + bytes(4) + b"p" * 125
    with socket.create_connection((HOST, broker.port_of(PORTS["http"]))) as peer:
        peer.sendall(UPGRADE)
        assert peer.recv(4096).startswith(b"HTTP/1.1 101")
        before = broker.rss_bytes()
        peer.settimeout(2.0)
        with pytest.raises(OSError):  # it reads no more, or it closes
            for _ in range(2000):
                peer.sendall(ping * 500)
        assert broker.rss_bytes() - before < GROWTH_MAX
        broker.assert_serves()


def test_groups_that_come_and_go_leave_no_memory_behind(broker: BrokerProcess) -> None:
    with broker.client() as reader, broker.client() as sender:
        reader.subscribe("/queue/passing")
        counts = [pass_groups(sender, reader, 0, GROUPS)]
        before = broker.rss_bytes()
        counts.append(pass_groups(sender, reader, GROUPS, 3 * GROUPS))
        assert counts == [GROUPS, 2 * GROUPS]
        assert broker.rss_bytes() - before < GROWTH_MAX


def pass_groups(sender: Client, reader: Client, first: int, last: int) -> int:
    """Send one message of each group to a reader; return how many it got."""
    frame = b"SEND\ndestination:/queue/passing\nmessage_group:g%d\n\nx\0"
    thread = threading.Thread(target=send_all, args=(sender, frame, first, last))
    thread.start()
    got = 0
    while got < last - first:
        got += reader.socket.recv(1 << 20).count(b"\0")
    thread.join()
    return got


def send_all(sender: Client, frame: bytes, first: int, last: int) -> None:
    for start in range(first, last, BATCH):
        sender.socket.sendall(b"".join(frame % n for n in range(start, start + BATCH)))


def test_ten_thousand_patterns_and_new_names_hold_nobody_up(broker: BrokerProcess) -> None:
    clients = [broker.client() for _ in range(40)]
    frame = b"SUBSCRIBE\nid:%d\ndestination:/topic/p.*.%d.**\n\n\0"
    for number, client in enumerate(clients):
        ids = range(number * 250, number * 250 + 250)
        client.socket.sendall(b"".join(frame % (n, n) for n in ids))
        client.sync()
    begun = time.monotonic()
    with broker.client() as sender:
        for n in range(0, 10_000, 20):
            sender.send("SEND", {"destination": f"/topic/p.q.{n}.r"}, b"%d" % n)
        sender.sync()
    assert time.monotonic() - begun < 10  # a minute when each pattern is asked
    assert clients[0].frame().body == b"0"
    for client in clients:
        client.socket.close()


@pytest.mark.timeout(60)
def test_a_broker_that_stood_still_does_not_blame_its_peers(tmp_path: Path) -> None:
    with running_broker(tmp_path) as stopped, stopped.client(heart_beat="400,0") as client:
        client.subscribe("/queue/held", ack="client")
        client.send("SEND", {"destination": "/queue/held"}, b"held")
        held = client.frame().headers(client.version)
        stopped.process.send_signal(signal.SIGSTOP)
        for _ in range(30):
            client.socket.sendall(b"\n")
            time.sleep(0.1)
        stopped.process.send_signal(signal.SIGCONT)
        for _ in range(10):
            client.socket.sendall(b"\n")
            time.sleep(0.1)
        client.send("ACK", {"id": held["ack"], "receipt": "acked"})
        assert client.frame().command == "RECEIPT"
