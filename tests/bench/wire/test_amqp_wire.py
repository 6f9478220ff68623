"""The generator's own AMQP bytes, read back by its own reader and by the broker's."""

from __future__ import annotations

from random import Random

import pytest

from covey.bench.wire import amqp_wire as amqp


def transfer(number: int) -> bytes:
    head = amqp.described(amqp.TRANSFER, amqp.uint(0), amqp.uint(number), amqp.binary(b"tag"))
    return amqp.frame(head, b"payload")


def test_frames_are_cut_behind_the_last_whole_one() -> None:
    whole = transfer(1) + transfer(2)
    for length in range(len(whole)):
        assert amqp.cut(whole[:length]) in (0, len(transfer(1)))
    assert amqp.cut(whole) == len(whole)


def test_performatives_are_named_by_their_code_and_heart_beats_have_none() -> None:
    frames = transfer(1) + amqp.frame(b"") + amqp.frame(amqp.described(amqp.FLOW))
    assert [code for code, _ in amqp.performatives(frames)] == [amqp.TRANSFER, amqp.FLOW]


def test_fields_are_numbers_and_truths_and_all_else_is_stepped_over() -> None:
    state = amqp.described(amqp.ACCEPTED)
    frame = amqp.frame(
        amqp.described(
            amqp.DISPOSITION, amqp.string("x"), state, amqp.TRUE, amqp.NULL, amqp.ubyte(7)
        )
    )
    assert amqp.fields(frame, 0, 6) == [None, None, True, None, 7, None]


def test_short_forms_of_a_broker_are_read() -> None:
    # list8: uint0, smalluint 5, symbol "ab", uint 256
    body = bytes.fromhex("005313c00c04435205a3026162700000 0100".replace(" ", ""))
    assert amqp.fields(amqp.frame(body), 0, 4) == [0, 5, None, 256]


def test_frames_of_one_size_are_found_together_wherever_the_bytes_end() -> None:
    random = Random(7)
    for _ in range(200):
        frames = [amqp.frame(b"x" * random.choice((0, 3, 3, 3, 300))) for _ in range(40)]
        whole = b"".join(frames)
        data = whole[: random.randrange(len(whole) + 1)]
        expected = []
        place = 0
        for frame in frames:
            if place + len(frame) > len(data):
                break
            expected.append((place, len(frame)))
            place += len(frame)
        found = [
            (first + size * each, size)
            for first, size, count in amqp.rows(data)
            for each in range(count)
        ]
        assert found == expected
        assert amqp.cut(data) == place


def test_a_row_is_no_longer_than_what_is_looked_at_together() -> None:
    data = amqp.frame(b"abc") * (amqp.ROW_MAX + 1)
    assert [count for _, _, count in amqp.rows(data)] == [amqp.ROW_MAX, 1]


def test_a_frame_that_cannot_be_one_ends_the_walk() -> None:
    assert list(amqp.rows(bytes(16))) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ((amqp.uint(300), amqp.NULL, amqp.TRUE), True),
        ((b"\x52\x07", amqp.NULL), True),
        ((b"\x43", amqp.NULL), True),
        ((amqp.uint(300), amqp.uint(301), amqp.TRUE), False),
        ((amqp.uint(300),), False),  # nothing more: it is read field by field
    ],
)
def test_a_disposition_of_one_delivery_is_told_at_a_glance(
    fields: tuple[bytes, ...], expected: bool
) -> None:
    frame = amqp.frame(amqp.described(amqp.DISPOSITION, amqp.TRUE, *fields))
    assert amqp.is_of_one(amqp.frame(b"") + frame + amqp.frame(b""), 8) is expected
