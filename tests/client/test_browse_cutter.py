"""A browse is cut into messages, however its bytes come."""

from __future__ import annotations

import pytest

from covey.client.browse_cutter import Cutter, Rows
from covey.client.errors import AnswerError

OURS = b"MESSAGE\nsubscription:1\nmessage-id:m%d"
END = b"MESSAGE\nsubscription:1\nbrowser:end\nfirst-seq:1\n\n\0\n"


def message(seq: int, body: bytes, lines: bytes = b"", *, before: bytes = b"") -> bytes:
    length = b"\ncontent-length:%d" % len(body) if body else b""
    seq_line = b"\ncovey-seq:%d" % seq
    return (OURS % seq) + seq_line + before + length + lines + b"\n\n" + body + b"\0\n"


def cut(data: bytes, *, step: int, end: int = 100) -> tuple[Cutter, list[tuple[object, ...]]]:
    """Cut bytes that come so many at a time, until it is over."""
    cutter = Cutter(end)
    found: list[tuple[object, ...]] = []
    for at in range(0, len(data), step):
        rows: Rows = cutter.cut(data[at : at + step])
        found += zip(rows.seqs, rows.ours, rows.theirs, rows.bodies, strict=True)
        if cutter.is_over:
            break
    return cutter, found


MESSAGES = (
    message(1, b"one", b"\ndestination:/queue/q\ncolour:red")
    + message(2, b"t\0w\n\no", b"\ncovey-seq:9\ncontent-length-hint:3")
    + message(4, b"", b"\ncolour:blue")
    + message(5, b"x", b"\na:b", before=b"\nexpires:77")
    + message(6, b"y", before=b"\nexpires:78")
)


@pytest.mark.parametrize("step", [1, 7, 64, 10_000])
def test_messages_are_the_same_however_the_bytes_come(step: int) -> None:
    cutter, found = cut(MESSAGES + END, step=step)
    assert [(seq, theirs, body) for seq, _, theirs, body in found] == [
        (1, b"destination:/queue/q\ncolour:red", b"one"),
        (2, b"covey-seq:9\ncontent-length-hint:3", b"t\0w\n\no"),
        (4, b"colour:blue", b""),
        (5, b"expires:77\na:b", b"x"),
        (6, b"expires:78", b"y"),
    ]
    assert (cutter.is_over, cutter.is_odd) == (True, True)


def test_what_is_no_message_is_left_whole_for_the_codec() -> None:
    error = b"ERROR\nmessage:the queue is gone\n\n\0\n"
    cutter, found = cut(message(1, b"x") + error, step=10_000)
    assert len(found) == 1
    assert cutter.rest() == b"\n" + error


def test_a_number_behind_the_end_is_not_taken() -> None:
    cutter, found = cut(MESSAGES, step=10_000, end=4)
    assert [row[0] for row in found] == [1, 2]
    assert (cutter.is_over, cutter.is_odd) == (True, False)


def test_a_body_longer_than_it_says_is_refused() -> None:
    with pytest.raises(AnswerError, match="message 1 is longer"):
        cut(message(1, b"four").replace(b"length:4", b"length:3"), step=10_000)


def test_a_body_of_less_than_nothing_is_refused() -> None:
    with pytest.raises(AnswerError, match="message 1 has a content-length below 0"):
        cut(message(1, b"four").replace(b"length:4", b"length:-9"), step=10_000)
