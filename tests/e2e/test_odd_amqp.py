"""Whatever an AMQP client says: a condition of the specification's, and everybody else is served.

Conditions are those of AMQP 1.0 sections 2.8.15 to 2.8.18. Where the specification leaves open
whether a link, a session or the connection ends, the connection does.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

from covey.protocols.amqp.codec.encoder import (
    FALSE,
    NULL,
    TRUE,
    binary,
    compound,
    section,
    symbol,
    uint,
)
from tests.e2e.amqp_bytes import (
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    DATA,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    SASL_HEADER,
    SASL_OUTCOME,
    TRANSFER,
    WINDOW,
    AmqpBytes,
    accepting,
    attaching,
    beginning,
    frame,
    granting,
    opening,
    sasl_init,
    says,
    transferring,
)
from tests.e2e.support import LOGIN, MIB, PASSCODE, TIMEOUT_S, BrokerProcess, running_broker
from tests.interop.amqp import amqp_port

CONFIG = '[[queue]]\nid = "odd.full"\nquota_messages = 1\n'
LAST = 2**32 - 1
LINKS_MAX = 1000  # of a connection, by default
CREDIT = 1000  # of a link, by default
SESSIONS = 120  # of each kind of nonsense
AT_ONCE = 24  # one that is turned away keeps its socket for half a second, to read why
GROWTH_MAX = 8 * MIB
PLAIN = sasl_init("PLAIN", f"\0{LOGIN}\0{PASSCODE}".encode())


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all of these."""
    with running_broker(tmp_path_factory.mktemp("broker"), config=CONFIG) as running:
        yield running


@pytest.fixture(autouse=True)
def unharmed(broker: BrokerProcess) -> Iterator[None]:
    """The broker serves after each test here, and no bug of ours was logged."""
    yield
    broker.assert_serves()
    assert "Traceback" not in broker.log


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[AmqpBytes]:
    """A client that has opened and begun a session."""
    with AmqpBytes(amqp_port(broker)) as opened:
        yield opened.open()


RECEIVER = attaching("odd", 0, "odd.read", sends=False)
SENDER = attaching("odd", 0, "odd.write", sends=True)
FRAMING = "amqp:connection:framing-error"

WRONG = {
    "a channel above channel-max": (FRAMING, [beginning(channel=300)]),
    "a handle above handle-max": (FRAMING, [attaching("odd", 2**31, "odd.q", sends=True)]),
    "a frame above max-frame-size": (FRAMING, [frame(bytes(70_000))]),
    "a frame of four bytes": (FRAMING, [struct.pack(">IBBH", 4, 2, 0, 0)]),
    "a body before the header ends": (FRAMING, [struct.pack(">IBBH", 8, 1, 0, 0)]),
    "a frame of no known type": (FRAMING, [frame(b"\x00\x53\x13\x45", kind=7)]),
    "no known performative": (FRAMING, [says(0x55, NULL)]),
    "a channel without a session": ("amqp:not-allowed", [says(END, channel=9)]),
    "a second open": ("amqp:not-allowed", [opening()]),
    "a second end": ("amqp:not-allowed", [says(END), says(END)]),
    "a channel begun again and again": ("amqp:illegal-state", [beginning()] * 300),
    "a name for two links": ("amqp:invalid-field", [SENDER, attaching("odd", 1, "q", sends=True)]),
    "a transfer where it receives": ("amqp:illegal-state", [RECEIVER, transferring(0, 0, b"x")]),
    "a range of all deliveries": ("amqp:not-allowed", [RECEIVER, accepting(0, LAST)]),
    "a range that ends before it starts": ("amqp:not-allowed", [RECEIVER, accepting(5, 2)]),
    "a transfer without an id": (
        "amqp:invalid-field",
        [SENDER, says(TRANSFER, uint(0), payload=section(DATA, binary(b"x")))],
    ),
    "links whose end it never confirms": (
        "amqp:resource-limit-exceeded",
        [attaching(f"odd-{n}", n, "odd.q", sends=True) for n in range(2 * LINKS_MAX + 1)],
    ),
}

WRONG_IN_A_SESSION = {
    "a handle for two links": (
        "amqp:session:handle-in-use",
        [SENDER, attaching("other", 0, "odd.other", sends=False)],
    ),
    "a transfer on no link": ("amqp:session:unattached-handle", [transferring(9, 0, b"")]),
    "a detach of no link": ("amqp:session:unattached-handle", [says(DETACH, uint(9), TRUE)]),
    "credit for no link": ("amqp:session:unattached-handle", [granting(9)]),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_ends_the_connection_with_its_condition(client: AmqpBytes, what: str) -> None:
    condition, frames = WRONG[what]
    client.say(*frames)
    assert client.condition() == condition


@pytest.mark.parametrize("what", WRONG_IN_A_SESSION)
def test_what_is_wrong_in_a_session_ends_that_and_no_other(client: AmqpBytes, what: str) -> None:
    condition, frames = WRONG_IN_A_SESSION[what]
    client.say(beginning(channel=1), *frames, transferring(0, 0, b"x"), says(END))
    assert client.until(END).condition == condition
    client.say(beginning(), SENDER, transferring(0, 0, b"x"))
    assert client.until(DISPOSITION).fields[1] == 0
    client.say(says(END, channel=1))
    assert client.until(END).condition == ""


def test_a_range_far_too_large_takes_no_time(client: AmqpBytes) -> None:
    client.say(attaching("in", 1, "odd.range", sends=True))
    client.say(attaching("out", 0, "odd.range", sends=False), granting(0))
    client.say(*[transferring(1, number, b"x", settled=True) for number in range(50)])
    for _ in range(50):
        client.until(TRANSFER)
    before = monotonic()
    client.say(accepting(0, LAST))
    assert client.condition() == "amqp:not-allowed"
    assert monotonic() - before < TIMEOUT_S / 2


@pytest.mark.parametrize(
    ("what", "condition"),
    [
        (beginning(), "amqp:illegal-state"),
        (SENDER, "amqp:not-allowed"),
        (opening(idle_ms=1), "amqp:invalid-field"),
    ],
)
def test_what_may_not_come_first_is_answered_at_once(
    broker: BrokerProcess, what: bytes, condition: str
) -> None:
    with AmqpBytes(amqp_port(broker)) as client:
        client.log_in().say(what)
        client.header()
        assert client.condition() == condition


def test_a_heart_beat_every_tenth_of_a_second_is_not_too_often(broker: BrokerProcess) -> None:
    with AmqpBytes(amqp_port(broker)) as client:
        client.log_in().say(opening(idle_ms=100), beginning())
        client.header()
        client.until(BEGIN)


@pytest.mark.parametrize(
    "login",
    [
        sasl_init("KERBEROS", b""),
        sasl_init("PLAIN", b"adminpassword"),
        sasl_init("PLAIN", b"admin\0password"),
        sasl_init("PLAIN", b"\0\xff\xfe\0\xff"),
        sasl_init("PLAIN", bytes(500)),
    ],
)
def test_a_login_that_makes_no_sense_fails(broker: BrokerProcess, login: bytes) -> None:
    with AmqpBytes(amqp_port(broker)) as client:
        client.say(SASL_HEADER, login)
        client.header()
        assert client.until(SASL_OUTCOME).fields[0] == 1
        assert client.until_closed() == []


NESTED = NULL
for _ in range(2000):
    NESTED = compound([NESTED])
DEEP = section(0x72, compound([symbol("x"), NESTED], is_map=True)) + section(DATA, binary(b""))

ALLOWED = {
    "no next-incoming-id in a flow": [
        RECEIVER,
        says(FLOW, NULL, WINDOW, uint(0), WINDOW, uint(0), uint(0), uint(1)),
    ],
    "a delivery settled that it does not have": [RECEIVER, accepting(0, 0, receives=False)],
    "a session without windows": [says(BEGIN, NULL, uint(0), uint(0), uint(0), channel=1)],
    "settled on a link that promised not to": [
        attaching("odd", 0, "odd.mixed", sends=True, settle_mode=0),
        transferring(0, 0, b"x", settled=True),
    ],
    "unsettled on a link that promised not to": [
        attaching("odd", 0, "odd.mixed", sends=True, settle_mode=1),
        transferring(0, 0, b"x"),
    ],
    "annotations 2000 deep": [SENDER, transferring(0, 0, b"", message=DEEP)],
}


@pytest.mark.parametrize("what", ALLOWED)
def test_what_is_odd_and_harmless_goes_on(client: AmqpBytes, what: str) -> None:
    client.say(*ALLOWED[what], attaching("after", 7, "odd.after", sends=False))
    while client.until(ATTACH).fields[0] != "after":
        pass
    client.say(says(CLOSE))
    assert client.condition() == ""


def test_a_deeply_nested_message_is_rejected_and_its_link_goes_on(client: AmqpBytes) -> None:
    client.say(SENDER, transferring(0, 0, b"", message=DEEP), transferring(0, 1, b"x"))
    outcomes = [client.until(DISPOSITION).fields[4] for _ in range(2)]
    assert [getattr(outcome, "descriptor", None) for outcome in outcomes] == [0x25, 0x24]


def test_one_that_sends_beyond_its_credit_while_it_has_to_wait_loses_its_link(
    client: AmqpBytes,
) -> None:
    client.say(attaching("odd", 0, "odd.full", sends=True))
    client.until(FLOW)
    client.say(*[transferring(0, number, b"x") for number in range(CREDIT + 10)])
    assert client.until(DETACH).condition == "amqp:link:transfer-limit-exceeded"


def test_what_a_link_had_unsettled_comes_again_when_it_has_gone(client: AmqpBytes) -> None:
    client.say(attaching("in", 1, "odd.again", sends=True))
    client.say(attaching("out", 0, "odd.again", sends=False), granting(0))
    client.say(*[transferring(1, number, b"x", settled=True) for number in range(5)])
    for _ in range(5):
        client.until(TRANSFER)
    client.say(says(DETACH, uint(0), TRUE))
    client.until(DETACH)
    client.say(accepting(0, 4))  # too late
    client.say(attaching("other", 2, "odd.again", sends=False), granting(2))
    for _ in range(5):
        client.until(TRANSFER)


# Nonsense in bulk.

GROUP = section(0x73, compound([NULL] * 10 + [b"\xa1\x01g"]))
RECORDED = [
    SASL_HEADER + PLAIN + AMQP_HEADER + opening(),
    beginning(),
    attaching("in", 0, "odd.fuzz", sends=True),
    attaching("out", 1, "odd.fuzz", sends=False),
    granting(1),
    transferring(0, 0, b"one"),
    transferring(0, 1, b"", message=GROUP + section(DATA, binary(b"two"))),
    accepting(0, 0),
    says(FLOW, uint(0), WINDOW, uint(0), WINDOW, uint(1), uint(0), uint(9), NULL, TRUE),
    says(DISPOSITION, TRUE, uint(1), NULL, TRUE, section(0x26, compound([]))),
    says(DETACH, uint(1), FALSE),
    says(END),
    says(CLOSE),
]
CREDITED = 5  # frames of it after which the broker gives credit
CREDIT_WAIT_S = 1.0


def mutated(dice: random.Random) -> list[bytes]:
    """Break the recorded session: a frame cut, doubled, misplaced, or bytes of it changed."""
    frames = list(RECORDED)
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(1, len(frames))
        data = bytearray(frames[at])
        place = dice.randrange(len(data))
        kind = dice.randrange(6)
        if kind == 0:
            data[place] = dice.randrange(256)
        elif kind == 1:
            del data[place : place + dice.randint(1, 20)]
        elif kind == 2:
            data[place : place + 4] = dice.choice((b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff"))
        elif kind == 3:
            data += frames[dice.randrange(1, len(frames))]
        elif kind == 4:
            other = dice.randrange(1, len(frames))
            frames[other], data = bytes(data), bytearray(frames[other])
        else:
            data[place:place] = dice.randbytes(dice.randint(1, 12))
        frames[at] = bytes(data)
    return [b"".join(frames[:CREDITED]), b"".join(frames[CREDITED:])]


def hear_out(port: int, pieces: list[bytes]) -> None:
    """Say something, stop talking, and read to the end: a close has a reason, or was asked for."""
    *first, last = pieces
    with AmqpBytes(port) as client, suppress(EOFError, OSError):  # it may close at any time
        for piece in first:
            client.say(piece)
            client.header()
            client.until(SASL_OUTCOME)
            client.header()
            client.socket.settimeout(CREDIT_WAIT_S)
            with suppress(TimeoutError):  # what it has said may deserve none
                client.until(FLOW)
        client.socket.settimeout(TIMEOUT_S)
        client.say(last)
        client.socket.shutdown(socket.SHUT_WR)
        if not first:
            client.socket.recv(1)  # a header, or an end
            return
        for heard in client.until_closed():
            assert heard.code != CLOSE or heard.condition[:5] in ("", "amqp:")


def open_files(broker: BrokerProcess) -> int:
    return len(list(Path(f"/proc/{broker.process.pid}/fd").iterdir()))


@pytest.mark.parametrize("kind", ["mutated", "random", "random after the attach", "cut"])
def test_nonsense_leaves_neither_a_connection_nor_memory_behind(
    broker: BrokerProcess, kind: str
) -> None:
    dice = random.Random(f"5672 {kind}")
    start, rest = b"".join(RECORDED[:CREDITED]), b"".join(RECORDED[CREDITED:])
    talks: dict[str, Callable[[], list[bytes]]] = {
        "mutated": lambda: mutated(dice),
        "random": lambda: [dice.randbytes(dice.randrange(1, 4096))],
        "random after the attach": lambda: [start, dice.randbytes(dice.randrange(1, 4096))],
        "cut": lambda: [start, rest[: dice.randrange(len(rest))]],
    }
    said = [talks[kind]() for _ in range(SESSIONS)]
    port = amqp_port(broker)
    files = open_files(broker)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(hear_out, [port] * 10, said[:10]))  # what is made once for all
        before = broker.rss_bytes()
        list(threads.map(hear_out, [port] * SESSIONS, said))
    deadline = monotonic() + TIMEOUT_S
    while open_files(broker) > files and monotonic() < deadline:
        broker.assert_serves()  # gives it time
    assert open_files(broker) <= files
    assert broker.rss_bytes() - before < GROWTH_MAX
