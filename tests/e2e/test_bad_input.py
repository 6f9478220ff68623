"""Whatever bytes come in: an ERROR or a close, bounded memory, and everybody else is served."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.support import MIB, BrokerProcess, Client, running_broker

FLOOD_BYTES = 64 * MIB  # far beyond any limit; more would only take longer
GROWTH_MAX = 4 * MIB
SESSIONS = 200  # of each kind of nonsense

LOGIN = b"CONNECT\naccept-version:1.2\nhost:localhost\nlogin:admin\npasscode:password\n\n\0"
SESSION = (
    LOGIN
    + b"SUBSCRIBE\nid:1\ndestination:/queue/fuzz\nack:client\nselector:n > 1\n\n\0"
    + b"BEGIN\ntransaction:t\n\n\0"
    + b"SEND\ndestination:/queue/fuzz,/topic/fuzz\ntransaction:t\nn:2\ncontent-length:3\n\na\0b\0"
    + b"COMMIT\ntransaction:t\nreceipt:r\n\n\0"
    + b"ACK\nid:1\n\n\0"
    + b"SUBSCRIBE\nid:d\ndestination:/topic/fuzz.*\npersistent:true\ncredit:5,100,false\n\n\0"
    + b"UNSUBSCRIBE\nid:d\npersistent:true\n\n\0"
    + b"DISCONNECT\nreceipt:bye\n\n\0"
)


@pytest.fixture(autouse=True)
def unharmed(broker: BrokerProcess) -> Iterator[None]:
    """The broker serves after each test here, and no bug of ours was logged."""
    yield
    broker.assert_serves()
    assert "Traceback" not in broker.log


def flood(client: Client, data: bytes) -> int:
    """Send until the broker closes; return how much it took."""
    sent = 0
    try:
        while sent < FLOOD_BYTES:
            sent += client.socket.send(data)
    except (BrokenPipeError, ConnectionResetError):
        pass
    return sent


ENDLESS = [
    # what came before, and what follows for ever
    (b"", b"a"),
    (b"CONNECT\n", b"a"),
    (b"CONNECT\nlogin:x\n\n", b"a"),
    (LOGIN, b"a"),
    (LOGIN + b"SEND\n", b"a"),
    (LOGIN + b"SEND\nname:", b"a"),
    (LOGIN + b"SEND\n", b"a:b\n"),
]


def test_a_line_or_a_head_that_never_ends_is_cut_off_and_costs_no_memory(
    broker: BrokerProcess,
) -> None:
    before = broker.rss_bytes()

    def taken(opening: bytes, endless: bytes) -> int:
        with Client(broker.port) as client:
            client.socket.sendall(opening)
            return flood(client, endless * 65536)

    with ThreadPoolExecutor(len(ENDLESS)) as threads:
        sizes = list(threads.map(taken, *zip(*ENDLESS, strict=True)))
    assert max(sizes) < FLOOD_BYTES
    assert broker.rss_bytes() - before < GROWTH_MAX


def test_an_error_names_the_cause_before_the_close(broker: BrokerProcess) -> None:
    with broker.client() as client:
        client.socket.sendall(b"SEND\n" + b"a" * 20_000)
        assert (
            b"header line 1 of the SEND frame is longer than 10240 bytes" in client.until_closed()
        )


def test_http_on_the_stomp_port_is_answered_with_an_error(broker: BrokerProcess) -> None:
    with Client(broker.port) as client:
        client.socket.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n")
        assert client.until_closed().startswith(b"ERROR\nmessage:")


def test_tls_on_the_plain_port_is_answered_with_an_error(broker: BrokerProcess) -> None:
    hello = bytes.fromhex("16030100c4010000c00303") + bytes(range(200))
    with Client(broker.port) as client:
        client.socket.sendall(hello)
        assert client.until_closed().startswith(b"ERROR\nmessage:")


def say(port: int, data: bytes) -> None:
    """Say something, stop talking, and hear the broker out."""
    with Client(port) as client:
        try:
            client.socket.sendall(data)
            client.socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # it has closed already
        client.until_closed()


def test_random_bytes_harm_nobody(broker: BrokerProcess) -> None:
    dice = random.Random(61613)
    for _ in range(SESSIONS):
        opening = dice.choice([b"", LOGIN, b"SEND\n", LOGIN + b"SEND\ndestination:/queue/fuzz\n\n"])
        say(broker.port, opening + dice.randbytes(dice.randrange(1, 4096)))


def test_mutated_sessions_harm_nobody(broker: BrokerProcess) -> None:
    dice = random.Random(1612)
    for _ in range(SESSIONS):
        say(broker.port, mutated(SESSION, dice))


def mutated(session: bytes, dice: random.Random) -> bytes:
    """Change a few places: a byte, a piece lost, a piece twice, two pieces swapped."""
    data = bytearray(session)
    for _ in range(dice.randrange(1, 6)):
        start, end = sorted(dice.randrange(len(data)) for _ in range(2))
        piece = data[start : min(end, start + 64)]
        match dice.randrange(4):
            case 0:
                data[start] = dice.randrange(256)
            case 1:
                del data[start : start + len(piece)]
            case 2:
                data[end:end] = piece
            case _:
                data[start : start + len(piece)] = piece[::-1]
        data = data or bytearray(b"\0")
    return bytes(data)


def test_peers_that_reset_at_once_harm_nobody(broker: BrokerProcess) -> None:
    for number in range(SESSIONS):
        with Client(broker.port) as client:
            if number % 2:
                client.socket.sendall(SESSION)
            # Closing with this option sends a reset: the peer may be gone before it is accepted.
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_what_was_receipted_outlives_the_nonsense_of_others(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, broker.client() as sender:
        for number in range(20):
            sender.send("SEND", {"destination": "/queue/kept", "receipt": "r"}, b"%d" % number)
            assert sender.frame().command == "RECEIPT"
            say(broker.port, LOGIN + b"SEND\ndestination:/queue/kept\nbroken\n\n\0")
        with broker.client() as receiver:
            receiver.subscribe("/queue/kept")
            assert [receiver.frame().body for _ in range(20)] == [b"%d" % n for n in range(20)]
