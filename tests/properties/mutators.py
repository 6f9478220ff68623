"""Mutators: bytes that are broken at random, a little, so that they get far before they fail."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from tests.properties.stage import Talk

STOMP_TOKENS: Final = (
    *(b"\n", b"\0", b"\r\n", b":", b"\\", b"\n\n", b"\xff", b"-1", b"9" * 20),
    *(b"content-length:", b"ACK\nid:", b"\n\n\0ACK\nid:1\n\n\0", b"receipt:", b"transaction:"),
    *(b"selector:", b"/queue/", b"/topic/*", b"credit:", b"ack:client-individual\n"),
)
AMQP_TOKENS: Final = (
    *(b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff", b"\x00", b"\x40", b"\x43", b"\x45", b"\xff"),
    *(b"\x00\x53\x14", b"\x00\x53\x12", b"\x00\x53\x75", b"\xa1\xff", b"\xb1\xff\xff\xff\xff"),
    *(b"\xc0\x00\x00", b"\xd0\x00\x00\x00\x00\x00\x00\x00\x00", b"\x02\x00\x00\x00", bytes(80)),
)
HTTP_TOKENS: Final = (
    *(b"\r\n", b"\n", b"\r\n\r\n", b" ", b":", b",", b";", b"%00", b"%ff", b"\xff", b"\0", b"../"),
    *(b"content-length: 5\r\n", b"transfer-encoding: chunked\r\n", b"0\r\n\r\n", b"9" * 20),
    *(b"connection: upgrade\r\n", b"expect: 100-continue\r\n", b"HTTP/2.0", b"?limit=-1&offset=x"),
    *(b"authorization: Basic \xc3\xa9\r\n", b"host: \r\n", b"origin: null\r\n"),
)


def mutated(data: bytes, dice: Random, tokens: Sequence[bytes]) -> bytes:
    """Change one to four places: a byte, a token, a part less, a part twice, two parts swapped."""
    for _ in range(int(dice.random() ** 2 * 4) + 1):
        at = int(dice.random() * (len(data) + 1))
        kind = int(dice.random() * 7)
        token = tokens[int(dice.random() * len(tokens))]
        length = int(2 ** (dice.random() * 7))
        if kind == 0:
            data = data[:at] + bytes((int(dice.random() * 256),)) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + token + data[at:]
        elif kind == 2:
            data = data[:at] + token + data[at + len(token) :]  # as long as before
        elif kind == 3:
            data = data[:at] + data[at + length :]
        elif kind == 4:
            data = data[:at] + data[max(at - length, 0) :]
        elif kind == 5:
            data = data[:at] + dice.randbytes(min(length, 12)) + data[at:]
        else:
            middle, end = at + length, at + 2 * length
            data = data[:at] + data[middle:end] + data[at:middle] + data[end:]
    return data


def tokens_of(protocol: str) -> Sequence[bytes]:
    """Return what means something in a protocol."""
    return STOMP_TOKENS if protocol == "stomp" else AMQP_TOKENS


def mutated_talk(talk: Talk, dice: Random) -> Talk:
    """Break a step of a talk, or leave one out, say it twice or cut it short."""
    steps = list(talk.steps)
    at = int(dice.random() * len(steps))
    client, said = steps[at]
    kind = int(dice.random() * 10)
    if kind == 0:
        del steps[at]
    elif kind == 1:
        steps.insert(at, steps[at])
    elif kind == 2:
        steps[at] = (client, said[: int(dice.random() * len(said))])
    else:
        steps[at] = (client, mutated(said, dice, tokens_of(talk.clients[client])))
    return talk._replace(steps=tuple(steps))
