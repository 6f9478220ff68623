"""SCRAM-SHA-256 over TCP: scramp's client on frames by hand, since proton builds without it."""

from __future__ import annotations

import socket

import pytest
from scramp import ScramClient, ScramException

from covey.protocols.amqp.codec import encoder
from covey.protocols.amqp.codec.decoder import Described, decode
from covey.protocols.amqp.login.sasl import AMQP_HEADER, INIT, OUTCOME, RESPONSE, SASL_HEADER
from tests.e2e.support import HOST, LOGIN, PASSCODE, TIMEOUT_S, BrokerProcess
from tests.interop.amqp import amqp_port

pytestmark = pytest.mark.interop

OPEN = 0x10
SASL_FRAME = 1
AMQP_FRAME = 0


class Wire:
    """A socket that speaks frames."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), TIMEOUT_S)
        self.stream = self.socket.makefile("rb")

    def send(self, kind: int, code: int, *fields: bytes) -> None:
        body = encoder.section(code, encoder.compound(fields))
        size = (8 + len(body)).to_bytes(4, "big")
        self.socket.sendall(size + bytes((2, kind, 0, 0)) + body)

    def frame(self) -> tuple[object, list[object]]:
        size = int.from_bytes(self.stream.read(4), "big")
        body = decode(b"\0\0\0\0" + self.stream.read(size - 4), 8)
        assert isinstance(body, Described)
        assert isinstance(body.value, list)
        return body.descriptor, body.value

    def header(self, header: bytes) -> None:
        self.socket.sendall(header)
        assert self.stream.read(8) == header


def log_in(wire: Wire, password: str) -> object:
    """Log in; return the code of the outcome."""
    client = ScramClient(["SCRAM-SHA-256"], LOGIN, password)
    wire.header(SASL_HEADER)
    _, (offered, *_) = wire.frame()
    assert isinstance(offered, list)
    assert "SCRAM-SHA-256" in offered
    first = encoder.binary(client.get_client_first().encode())
    wire.send(SASL_FRAME, INIT, encoder.symbol("SCRAM-SHA-256"), first)
    _, (challenge, *_) = wire.frame()
    assert isinstance(challenge, bytes)
    client.set_server_first(challenge.decode())
    wire.send(SASL_FRAME, RESPONSE, encoder.binary(client.get_client_final().encode()))
    code, outcome = wire.frame()
    assert code == OUTCOME
    if outcome[0] == 0:
        assert isinstance(outcome[1], bytes)
        client.set_server_final(outcome[1].decode())  # the broker knows the password, too
    return outcome[0]


def test_scram_lets_in_and_the_connection_opens(broker: BrokerProcess) -> None:
    wire = Wire(amqp_port(broker))
    assert log_in(wire, PASSCODE) == 0
    wire.header(AMQP_HEADER)
    wire.send(AMQP_FRAME, OPEN, encoder.string("scram-client"))
    code, _ = wire.frame()
    assert code == OPEN


def test_scram_refuses_a_wrong_password(broker: BrokerProcess) -> None:
    wire = Wire(amqp_port(broker))
    assert log_in(wire, "wrong") == 1
    assert wire.stream.read() == b""


def test_scramp_itself_would_notice_a_broker_that_does_not_know_the_password() -> None:
    client = ScramClient(["SCRAM-SHA-256"], LOGIN, PASSCODE)
    client.get_client_first()
    with pytest.raises(ScramException):
        client.set_server_first("r=other,s=AAAA,i=4096")
