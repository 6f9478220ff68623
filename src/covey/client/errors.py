"""Errors of a client: what kept it from its answer, so that a command can choose its exit code.

ClientError
├── UnreachableError     nobody answers there, or the broker went away
│   └── StrangerError    somebody else answers: trying again does not help
├── DeniedError          the broker is there and does not let us
└── AnswerError          the broker understood and said no

Why a broker could not be reached is told in one sentence that says what to look at:

    no host is named X             the name is wrong
    no broker answers at X         nothing listens there: is it running?
    X speaks STOMP, not AMQP       the wrong port
    X does not speak TLS           tls:// at a plain port
    X closed without a word        so does OpenSSL where it hears no TLS

proton tells these apart badly, so the AMQP clients ask again with a socket once they have failed.
"""

from __future__ import annotations

import socket
from typing import Final

from covey.client.place import Place
from covey.protocols.sniff import TLS, spoken


class ClientError(Exception):
    """The root: a sentence for people."""


class UnreachableError(ClientError):
    """Nobody answers at that address."""


class StrangerError(UnreachableError):
    """Somebody answers there, but not as was asked; trying again does not help."""


class DeniedError(ClientError):
    """The broker is there and does not let us in, or not do this."""


class AnswerError(ClientError):
    """The broker understood and said no."""


# AMQP's header draws an answer out of AMQP, STOMP and TLS, the blank line one out of HTTP.
QUESTION: Final = b"AMQP\x03\x01\x00\x00\r\n\r\n"
WAIT_S: Final = 2.0  # for an answer to it; who says nothing speaks none of them
READ_BYTES: Final = 64


def unreached(place: Place, error: OSError) -> UnreachableError:
    """Say why no connection was made."""
    if isinstance(error, socket.gaierror):
        return UnreachableError(f"no host is named {place.host}")
    return UnreachableError(f"no broker answers at {place.address}; is it running there?")


def misunderstood(place: Place, wanted: str, answer: bytes) -> UnreachableError | None:
    """Say that somebody else answers, by the first bytes of the answer; None if it is not so."""
    name = spoken(answer)
    if not answer:
        return None if place.is_tls else wordless(place)
    if name and name != TLS and place.is_tls:
        return without_tls(place)
    if name and name != wanted:
        return StrangerError(f"{place.address} speaks {name}, not {wanted}: another port?")
    return None


def wordless(place: Place) -> UnreachableError:
    """Say that the first word was answered by none."""
    return UnreachableError(
        f"{place.address} closed without a word; if it wants TLS, write tls:// before its name"
    )


def without_tls(place: Place) -> UnreachableError:
    """Say that a port is a plain one."""
    return StrangerError(f"{place.address} does not speak TLS; leave tls:// out")


def asked_again(place: Place, wanted: str) -> UnreachableError | None:
    """Look who listens there; None if it is whom we wanted, or says nothing."""
    try:
        with socket.create_connection((place.host, place.port), WAIT_S) as peer:
            peer.sendall(QUESTION)
            answer = peer.recv(READ_BYTES)
    except TimeoutError:
        return None
    except OSError as error:
        return unreached(place, error)
    return misunderstood(place, wanted, answer)
