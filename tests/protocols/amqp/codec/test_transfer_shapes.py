"""Transfers of the last one's shape are read in one step, and say what the long way says."""

from __future__ import annotations

from random import Random
from struct import pack

from covey.protocols.amqp.codec.performatives import HEAD, HEAD_SIZE, NUMBER_SIZE, USUAL
from covey.protocols.amqp.codec.transfer import Transfer

FIELDS = ("number", "handle", "payload", "tag", "format", "is_settled", "has_more", "has_tag")
FLAGS = ("settles_second", "is_aborted", "is_whole", "state", "rest")
NULL, TRUE, FALSE = b"\x40", b"\x41", b"\x42"
ACCEPTED = b"\x00\x53\x24\x45"


def frame(fields: list[bytes], payload: bytes, *, channel: int = 0, is_long: bool = False) -> bytes:
    body = b"".join(fields)
    if is_long:
        listed = b"\xd0" + pack(">II", len(body) + 4, len(fields)) + body
    else:
        listed = b"\xc0" + bytes((len(body) + 1, len(fields))) + body
    rest = b"\x00\x53\x14" + listed + payload
    return HEAD.pack(HEAD_SIZE + len(rest), USUAL << 16 | channel) + rest


def some(random: Random, number: int) -> bytes:
    """Return a transfer; a few shapes are far more frequent than all others."""
    tag = random.choice((b"\xa0\x04" + pack(">I", number), b"\xa0\x02ab", b"\xb0\x00\x00\x00\x01x"))
    short = b"\x52" + bytes((number & 0xFF,))
    fields = [
        random.choice((b"\x43", b"\x43", b"\x43", b"\x52\x01", b"\x70" + pack(">I", 1))),
        random.choice((b"\x70" + pack(">I", number),) * 6 + (short, NULL)),
        random.choice((tag,) * 8 + (NULL,)),
        random.choice((b"\x43", NULL)),
        random.choice((TRUE, FALSE, NULL)),
        random.choice((FALSE, FALSE, TRUE)),
        random.choice((NULL, b"\x50\x01")),
        random.choice((NULL, ACCEPTED)),
        NULL,
        random.choice((NULL, TRUE)),
    ]
    payload = b"p" * random.choice((0, 1, 7, 300))
    count = random.choice((3, 5, 6, 10))
    is_long = random.random() < 0.2
    return frame(fields[:count], payload, channel=random.randrange(2), is_long=is_long)


def read(transfer: Transfer, data: bytes, at: int) -> int:
    """Read the frame at a place as `Framing` does; return where it ends."""
    following = transfer.repeats(data, at, len(data))
    if not following:
        size, rest = HEAD.unpack_from(data, at)
        following = at + size
        transfer.read(data, at + HEAD_SIZE + NUMBER_SIZE, following, rest)
    return following


def told(transfer: Transfer) -> dict[str, object]:
    return {name: getattr(transfer, name) for name in FIELDS + FLAGS}


def test_what_repeats_is_read_as_if_it_were_the_first() -> None:
    random = Random(5)
    for _ in range(300):
        kinds = [some(random, 1000 + number) for number in range(3)]
        frames = [random.choice(kinds[: random.randrange(1, 4)]) for _ in range(30)]
        numbered = [_numbered(each, random.randrange(2**32)) for each in frames]
        data = b"".join(numbered)
        used = Transfer()
        used.keeps_tag = True
        at = 0
        for each in numbered:
            fresh = Transfer()
            assert read(used, data, at) == at + read(fresh, each, 0)
            assert told(used) == told(fresh)
            at += len(each)


def _numbered(frame_: bytes, number: int) -> bytes:
    """Return a frame whose long number, if it has one, is another."""
    at = frame_.find(b"\x70" + pack(">I", 1000)[:3], HEAD_SIZE)
    return frame_ if at < 0 else frame_[: at + 1] + pack(">I", number) + frame_[at + 5 :]


def test_a_frame_that_has_not_come_whole_does_not_repeat() -> None:
    whole = frame([b"\x43", b"\x70" + pack(">I", 300), b"\xa0\x01t"], b"payload")
    transfer = Transfer()
    read(transfer, whole, 0)
    for length in range(len(whole)):
        assert transfer.repeats(whole[:length], 0, length) == 0
    assert transfer.repeats(whole, 0, len(whole)) == len(whole)


def test_a_frame_that_claims_to_end_within_its_own_head_does_not_repeat() -> None:
    whole = frame([b"\x43", b"\x70" + pack(">I", 300), b"\xa0\x01t"], b"payload")
    transfer = Transfer()
    read(transfer, whole, 0)
    for size in (0, 8, len(whole) - len(b"payload") - 1):
        assert transfer.repeats(pack(">I", size) + whole[4:], 0, len(whole)) == 0


def test_a_frame_of_an_unusual_form_teaches_no_shape() -> None:
    whole = frame([b"\x43", b"\x70" + pack(">I", 300), b"\xa0\x01t"], b"payload")
    transfer = Transfer()
    transfer.read(whole, HEAD_SIZE + NUMBER_SIZE, len(whole))
    assert transfer.repeats(whole, 0, len(whole)) == 0
