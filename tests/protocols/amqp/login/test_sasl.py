"""The login as frames: the first bytes, every wrong turn, anyhow cut."""

from __future__ import annotations

from random import Random

import pytest
from proton import SASL, Connection, Transport
from pydantic import SecretStr

from covey.config.settings import UserSettings
from covey.core.security.users import Identity, Users
from covey.protocols.amqp.codec import encoder
from covey.protocols.amqp.codec.checker import Checker
from covey.protocols.amqp.codec.decoder import Described, decode
from covey.protocols.amqp.login.sasl import (
    AMQP_HEADER,
    INIT,
    MECHANISMS,
    OUTCOME,
    RESPONSE,
    SASL_HEADER,
    SaslServer,
    SaslState,
)

FRAME_MAX = 4096
ALL = ("SCRAM-SHA-256", "PLAIN", "EXTERNAL")
USERS = Users(
    [
        UserSettings(name="ada", password=SecretStr("secret"), roles=("crew",)),
        UserSettings(name="admin", password=SecretStr("password")),
    ]
)
REFUSAL = (OUTCOME, [1])


def server(
    *mechanisms: str,
    allow_anonymous: bool = False,
    is_loopback: bool = True,
    certificate_name: str | None = None,
) -> SaslServer:
    return SaslServer(
        USERS,
        mechanisms or ALL,
        allow_anonymous=allow_anonymous,
        is_loopback=is_loopback,
        frame_max=FRAME_MAX,
        certificate_name=certificate_name,
    )


def frame(code: int, *fields: bytes, kind: int = 1, start: int = 2) -> bytes:
    body = b"\0" * (4 * start - 8) + encoder.section(code, encoder.compound(fields))
    return (8 + len(body)).to_bytes(4, "big") + bytes((start, kind, 0, 0)) + body


def init(mechanism: str, response: bytes | None, hostname: str = "host") -> bytes:
    encoded = encoder.NULL if response is None else encoder.binary(response)
    return frame(INIT, encoder.symbol(mechanism), encoded, encoder.string(hostname))


def response(content: bytes) -> bytes:
    return frame(RESPONSE, encoder.binary(content))


def answers(sasl: SaslServer) -> list[tuple[int, list[object]]]:
    """The frames the server has sent since it was last asked, its header left out."""
    data = sasl.outgoing().removeprefix(SASL_HEADER)
    found: list[tuple[int, list[object]]] = []
    while data:
        size = int.from_bytes(data[:4], "big")
        assert data[4:8] == b"\x02\x01\0\0"
        assert Checker(data[:size]).check(8) == size
        body = decode(data, 8)
        assert isinstance(body, Described)
        assert isinstance(body.descriptor, int)
        assert isinstance(body.value, list)
        found.append((body.descriptor, body.value))
        data = data[size:]
    return found


def login(sasl: SaslServer, *frames: bytes) -> list[tuple[int, list[object]]]:
    """Start, send the frames, return the answers behind the list of mechanisms."""
    sasl.receive(SASL_HEADER)
    assert answers(sasl)[0][0] == MECHANISMS
    for part in frames:
        sasl.receive(part)
    return answers(sasl)


def refused(sasl: SaslServer, *frames: bytes) -> None:
    assert login(sasl, *frames)[-1] == REFUSAL
    assert sasl.state is SaslState.FAILED
    with pytest.raises(AssertionError):
        assert sasl.identity
    sasl.receive(init("PLAIN", b"\0ada\0secret"))
    assert (sasl.outgoing(), sasl.state) == (b"", SaslState.FAILED)


# The first bytes.


def test_mechanisms_are_offered_in_their_order() -> None:
    sasl = server()
    sasl.receive(SASL_HEADER)
    sent = sasl.outgoing()
    assert sent.startswith(SASL_HEADER)
    sasl = server()
    sasl.receive(SASL_HEADER)
    assert answers(sasl) == [(MECHANISMS, [["SCRAM-SHA-256", "PLAIN"]])]


def test_external_needs_a_certificate_and_anonymous_a_permission() -> None:
    sasl = server("EXTERNAL", "PLAIN", certificate_name="ada", allow_anonymous=True)
    sasl.receive(SASL_HEADER)
    assert answers(sasl) == [(MECHANISMS, [["EXTERNAL", "PLAIN", "ANONYMOUS"]])]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"G",
        b"AMQP\x00\x00\x09\x01",  # AMQP 0-9-1
        b"AMQP\x02\x01\x00\x00",  # TLS inside
        b"AMQP\x03\x01\x00\x01",
        b"AMQP\x01",
        b"\x16\x03\x01",  # a TLS hello
        b"CONNECT\n\n\0",
        AMQP_HEADER,
        AMQP_HEADER + b"\0\0\0\x08\x02\0\0\0",
    ],
)
def test_anything_else_is_shown_our_header_and_that_is_the_end(data: bytes) -> None:
    sasl = server()
    sasl.receive(data)
    assert (sasl.outgoing(), sasl.state) == (SASL_HEADER, SaslState.FAILED)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "expected AMQP, but the peer speaks HTTP"),
        (b"CONNECT\n\n\0", "expected AMQP, but the peer speaks STOMP"),
        (b"hello, hello", "expected AMQP, but the peer speaks something else"),
        (b"AMQP\x00\x00\x09\x01", "expected AMQP 1.0 with SASL, but the peer speaks another AMQP"),
        (SASL_HEADER + b"\0\0\0\x08\x02\0\0\0", "not a SASL frame"),
    ],
)
def test_the_operator_learns_what_was_wrong(data: bytes, complaint: str) -> None:
    sasl = server()
    sasl.receive(data)
    assert sasl.complaint.startswith(complaint)


def test_of_a_wrong_password_the_core_tells_itself() -> None:
    sasl = server()
    sasl.receive(SASL_HEADER + init("PLAIN", b"\0admin\0wrong"))
    assert (sasl.state, sasl.complaint) == (SaslState.FAILED, "")


def test_nothing_to_offer_is_the_end_as_well() -> None:
    sasl = server("EXTERNAL")
    sasl.receive(SASL_HEADER)
    assert (sasl.outgoing(), sasl.state) == (SASL_HEADER, SaslState.FAILED)
    assert sasl.complaint == "no SASL mechanism is left without a client certificate"


def test_half_a_header_is_waited_for() -> None:
    sasl = server()
    sasl.receive(b"AMQP")
    assert (sasl.outgoing(), sasl.state) == (b"", SaslState.WAITING)


def test_a_peer_without_sasl_is_let_in_as_nobody_where_allowed() -> None:
    sasl = server(allow_anonymous=True)
    sasl.receive(AMQP_HEADER[:3])
    sasl.receive(AMQP_HEADER[3:] + b"open")
    sasl.receive(b" more")
    assert sasl.state is SaslState.DONE
    assert sasl.identity == Identity("anonymous")
    assert (sasl.outgoing(), sasl.leftover) == (b"", AMQP_HEADER + b"open more")


# Wrong turns.


GOOD = init("PLAIN", b"\0ada\0secret")


@pytest.mark.parametrize(
    "data",
    [
        init("CRAM-MD5", b""),
        init("plain", b"\0ada\0secret"),
        frame(INIT, b"\x45", encoder.binary(b"\0ada\0secret")),
        response(b"\0ada\0secret"),  # before the init
        init("SCRAM-SHA-256", b"n,,n=ada,r=x") + GOOD,  # a second init
        frame(INIT),
        frame(INIT, b"\xa3\x05PLAIN", encoder.string("\0ada\0secret")),
        frame(MECHANISMS, encoder.symbols(["PLAIN"])),
        frame(OUTCOME, b"\x50\x00"),
        frame(0x10, encoder.string("container")),  # an open
        frame(INIT, b"\xa3\x05PLAIN", kind=0),
        b"\0\0\0\x08\x02\x01\0\0",  # an empty frame
        b"\0\0\0\x07\x02\x01\0\0",
        b"\0\0\0\0\x02\x01\0\0",
        b"\0\0\0\x20\x01\x01\0\0",
        b"\0\0\0\x20\xff\x01\0\0",
        (FRAME_MAX + 1).to_bytes(4, "big") + b"\x02\x01\0\0",
        b"\xff\xff\xff\xff\x02\x01\0\0",
        b"\0\0\0\x09\x02\x01\0\0\x40",
        b"\0\0\0\x0b\x02\x01\0\0\0\x45\x45",
        b"\0\0\0\x0d\x02\x01\0\0\0\x53\x41\x45\x40",  # bytes behind the body
        AMQP_HEADER,
    ],
)
def test_a_wrong_turn_is_a_failed_login(data: bytes) -> None:
    refused(server(), data)


def test_an_extended_frame_header_and_a_written_out_descriptor_are_read() -> None:
    plain = (encoder.symbol("PLAIN"), encoder.binary(b"\0ada\0secret"))
    assert login(server(), frame(INIT, *plain, start=4)) == [(OUTCOME, [0])]
    body = b"\0" + encoder.symbol("amqp:sasl-init:list") + encoder.compound(plain)
    written = (8 + len(body)).to_bytes(4, "big") + b"\x02\x01\0\0" + body
    assert login(server(), written) == [(OUTCOME, [0])]


def test_the_answer_does_not_depend_on_how_the_bytes_are_cut() -> None:
    stream = SASL_HEADER + GOOD + AMQP_HEADER + b"open"
    whole = server()
    whole.receive(stream)
    sent = whole.outgoing()
    for cut in range(1, len(stream)):
        sasl = server()
        sasl.receive(stream[:cut])
        sasl.receive(stream[cut:])
        assert (sasl.outgoing(), sasl.leftover) == (sent, AMQP_HEADER + b"open")
    single = server()
    for at in range(len(stream)):
        single.receive(stream[at : at + 1])
    assert (single.outgoing(), single.leftover) == (sent, AMQP_HEADER + b"open")


def test_mutated_logins_wait_end_or_fail() -> None:
    random = Random(3)
    seeds = [
        SASL_HEADER + init("PLAIN", None) + response(b"\0ada\0wrong") + AMQP_HEADER,
        SASL_HEADER + init("SCRAM-SHA-256", b"n,,n=ada,r=x") + response(b"c=biws,r=x,p=eA=="),
        SASL_HEADER + init("ANONYMOUS", b"x"),
    ]
    states = set()
    for _ in range(3000):
        data = bytearray(random.choice(seeds))
        for _ in range(random.randint(1, 3)):
            data[random.randrange(len(data))] = random.randrange(256)
        sasl = server(allow_anonymous=True)
        sasl.receive(bytes(data))
        sasl.outgoing()
        states.add(sasl.state)
    assert states == set(SaslState)


# proton's own client.


@pytest.mark.parametrize("password", ["secret", "wrong"])
def test_protons_client_understands_the_outcome(password: str) -> None:
    transport = Transport()
    connection = Connection()
    connection.user = "ada"
    connection.password = password
    client = transport.sasl()
    client.allow_insecure_mechs = True
    client.allowed_mechs("PLAIN")
    transport.bind(connection)
    sasl = server()
    for _ in range(4):
        if transport.pending() > 0:
            data = bytes(transport.peek(transport.pending()) or b"")
            transport.pop(len(data))
            sasl.receive(data)
        sent = sasl.outgoing()
        if sent and transport.capacity() > 0:
            transport.push(sent)
    is_good = password == "secret"
    assert sasl.state is (SaslState.DONE if is_good else SaslState.FAILED)
    assert client.outcome == (SASL.OK if is_good else SASL.AUTH)
    if is_good:
        assert sasl.leftover.startswith(AMQP_HEADER)
