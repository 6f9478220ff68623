"""The generator's own AMQP bytes, read back by its own reader and by the broker's."""

from __future__ import annotations

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
