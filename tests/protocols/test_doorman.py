"""The doorman reads until the virtual host is known; then that one's engine has the connection.

The engines are the real ones. What a peer sends comes in one piece, or byte by byte.
"""

from __future__ import annotations

from typing import Final

import pytest
import structlog

from covey.config.settings import ConnectorSettings, Settings
from covey.protocols.doorman import Doorman
from covey.protocols.engine import Engine, Peer
from covey.protocols.registry import engine_maker
from tests.doubles import make_directory
from tests.e2e.amqp_bytes import AMQP_HEADER, SASL_HEADER, opening, sasl_init

LOG: Final = structlog.get_logger()
PEER: Final = Peer("127.0.0.1", 1, is_loopback=True, socket_buffer=65536)
PLAIN: Final = sasl_init("PLAIN", b"\0admin\0password")
HOSTS: Final = [
    {"id": "one", "host_names": ["localhost"]},
    {"id": "two", "host_names": ["two.example"]},
]


class Door:
    """A port with two virtual hosts, and one peer of it."""

    def __init__(self, protocol: str) -> None:
        self.directory = make_directory(Settings.model_validate({"virtual_host": HOSTS}))
        connector = ConnectorSettings.model_validate(
            {"id": "test", "protocol": protocol, "bind": "127.0.0.1:0"}
        )
        self.now = 0.0
        self.said = b""
        self.engine: Engine = engine_maker(self.directory, connector, LOG)(PEER, self.now)
        assert isinstance(self.engine, Doorman)
        self.doorman = self.engine
        self.doorman.replace = self.replace

    def replace(self, engine: Engine) -> None:
        self.engine = engine

    def hear(self, data: bytes, *, piece: int = 0) -> bytes:
        """Let the broker hear bytes, in pieces; return what it says."""
        size = piece or len(data)
        for at in range(0, len(data), size):
            self.engine.receive(data[at : at + size], self.now)
            self.said += self.engine.outgoing()
        self.said += self.engine.outgoing()
        return self.said

    @property
    def served_by(self) -> list[str]:
        """The virtual hosts that have a session."""
        return [name for name, broker in self.directory.brokers.items() if broker.sessions]


def connect(**headers: str) -> bytes:
    given = {"accept-version": "1.2", "login": "admin", "passcode": "password", **headers}
    return b"CONNECT\n" + "".join([f"{k}:{v}\n" for k, v in given.items()]).encode() + b"\n\0"


@pytest.mark.parametrize("piece", [0, 1])
@pytest.mark.parametrize(("host", "space"), [("localhost", "one"), ("Two.example", "two")])
def test_stomp_is_served_by_the_host_of_its_connect(piece: int, host: str, space: str) -> None:
    door = Door("stomp")
    said = door.hear(
        b"\n\n" + connect(host=host) + b"BEGIN\ntransaction:t\nreceipt:r\n\n\0", piece=piece
    )
    assert f"host-id:{space}".encode() in said
    assert b"receipt-id:r" in said
    assert door.served_by == [space]


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (connect(), b"host-id:one"),
        (connect(**{"accept-version": "1.0", "host": "two.example"}), b"host-id:one"),
        (connect(host="three.example"), b"covey-code:not-found"),
        (connect(host="three.example", passcode="wrong"), b"covey-code:denied"),
        (b"SEND\ndestination:/queue/a\n\nx\0", b"before CONNECT"),
        (b"GET / HTTP/1.1\r\n\r\n\0", b"HTTP"),
        (b"CONNECT\n" + b"a:b\n" * 20_000, b"ERROR"),
    ],
)
def test_what_names_no_host_goes_to_the_first_whose_engine_judges(
    data: bytes, answer: bytes
) -> None:
    assert answer in Door("stomp").hear(data)


def opens(hostname: str) -> bytes:
    return SASL_HEADER + PLAIN + AMQP_HEADER + opening(hostname=hostname)


@pytest.mark.parametrize("piece", [0, 1])
@pytest.mark.parametrize(("hostname", "space"), [("", "one"), ("two.example", "two")])
def test_amqp_is_served_by_the_host_of_its_open(piece: int, hostname: str, space: str) -> None:
    door = Door("amqp")
    said = door.hear(opens(hostname), piece=piece)
    assert door.served_by == [space]
    assert said.count(SASL_HEADER) == said.count(AMQP_HEADER) == 1
    assert said.index(SASL_HEADER) < said.index(AMQP_HEADER)


def test_amqp_clients_that_wait_for_our_header_get_it_before_they_open() -> None:
    door = Door("amqp")
    assert door.hear(SASL_HEADER + PLAIN + AMQP_HEADER).endswith(AMQP_HEADER)
    assert door.served_by == []
    door.hear(opening(hostname="two.example"))
    assert door.served_by == ["two"]
    assert door.said.count(AMQP_HEADER) == 1


def test_amqp_takes_the_host_name_of_the_login_if_the_open_has_none() -> None:
    door = Door("amqp")
    login = sasl_init("PLAIN", b"\0admin\0password", hostname="two.example")
    door.hear(SASL_HEADER + login + AMQP_HEADER + opening())
    assert door.served_by == ["two"]


@pytest.mark.parametrize(
    "data",
    [
        SASL_HEADER + sasl_init("PLAIN", b"\0admin\0wrong"),
        b"GET / HTTP/1.1\r\n\r\n",
        SASL_HEADER + PLAIN + b"AMQP\x01\x01\x00\x00",
        SASL_HEADER + PLAIN + AMQP_HEADER + b"\xff" * 16,
    ],
)
def test_amqp_that_makes_no_sense_is_ended_by_an_engine(data: bytes) -> None:
    door = Door("amqp")
    door.hear(data)
    assert not isinstance(door.engine, Doorman)
    assert door.engine.is_closed
    assert door.served_by == []


@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_who_says_nothing_is_ended_in_time_by_an_engine(protocol: str) -> None:
    door = Door(protocol)
    assert door.engine.tick(1.0) == 10.0
    door.engine.tick(10.0)
    door.engine.tick(10.0)
    assert not isinstance(door.engine, Doorman)
    assert door.engine.is_closed


@pytest.mark.parametrize(
    ("protocol", "data", "answer"),
    [
        ("stomp", connect(host="two.example"), b"covey-code:unavailable"),
        ("amqp", opens("two.example"), b"amqp:connection:forced"),
    ],
)
def test_a_host_that_nobody_serves_is_refused(protocol: str, data: bytes, answer: bytes) -> None:
    door = Door(protocol)
    del door.directory.brokers["two"]
    assert answer in door.hear(data)
    assert door.served_by == []


@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_an_end_of_the_broker_is_told_to_strangers_too(protocol: str) -> None:
    door = Door(protocol)
    door.engine.shut_down("the broker is shutting down", 1.0)
    assert door.engine.is_closed


def test_a_port_with_one_virtual_host_needs_no_doorman() -> None:
    directory = make_directory(Settings())
    connector = ConnectorSettings.model_validate(
        {"id": "test", "protocol": "stomp", "bind": "127.0.0.1:0"}
    )
    assert not isinstance(engine_maker(directory, connector, LOG)(PEER, 0.0), Doorman)
