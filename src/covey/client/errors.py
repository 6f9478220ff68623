"""Errors of a client: their class tells a command which exit code to choose.

ClientError
├── UnreachableError     nobody answers there, or the broker went away
│   └── StrangerError    somebody else answers: trying again does not help
├── DeniedError          the broker denies the login or the action
└── AnswerError          the broker understood and said no

Why a broker could not be reached is told in one sentence that says what to look at:

    no host is named X             the name is wrong
    no broker answers at X         nothing listens there: is it running?
    X speaks STOMP, not AMQP       the wrong port
    X does not speak TLS           tls:// at a plain port
    X closed without a word        as OpenSSL does if the client does not speak TLS

proton does not tell these cases apart well. So after a failure the AMQP clients try once more with
a plain socket, to see who answers.
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
    """Something else than a broker of this protocol answers; trying again does not help."""


class DeniedError(ClientError):
    """The broker denies the login or the action."""


class AnswerError(ClientError):
    """The broker understood and said no."""


# AMQP, STOMP and TLS servers answer to AMQP's header, HTTP servers to the blank line.
QUESTION: Final = b"AMQP\x03\x01\x00\x00\r\n\r\n"
WAIT_S: Final = 2.0  # for an answer to it; silence means none of these protocols
READ_BYTES: Final = 64


def unreached(place: Place, error: OSError) -> UnreachableError:
    """Return the error that says why no connection was made."""
    if isinstance(error, socket.gaierror):
        return UnreachableError(f"no host is named {place.host}")
    return UnreachableError(f"no broker answers at {place.address}; is it running there?")


def misunderstood(place: Place, wanted: str, answer: bytes) -> UnreachableError | None:
    """Return the error if the answer's first bytes are of another protocol; None if not."""
    name = spoken(answer)
    if not answer:
        return None if place.is_tls else wordless(place)
    if name and name != TLS and place.is_tls:
        return without_tls(place)
    if name and name != wanted:
        return StrangerError(f"{place.address} speaks {name}, not {wanted}: another port?")
    return None


def wordless(place: Place) -> UnreachableError:
    """Return the error for a connection that closed without an answer."""
    return UnreachableError(
        f"{place.address} closed without a word; if it wants TLS, write tls:// before its name"
    )


def without_tls(place: Place) -> UnreachableError:
    """Return the error for a port that does not speak TLS."""
    return StrangerError(f"{place.address} does not speak TLS; leave tls:// out")


def asked_again(place: Place, wanted: str) -> UnreachableError | None:
    """Return the error for what answers there; None if it is the wanted protocol, or silent."""
    try:
        with socket.create_connection((place.host, place.port), WAIT_S) as peer:
            peer.sendall(QUESTION)
            answer = peer.recv(READ_BYTES)
    except TimeoutError:
        return None
    except OSError as error:
        return unreached(place, error)
    return misunderstood(place, wanted, answer)
