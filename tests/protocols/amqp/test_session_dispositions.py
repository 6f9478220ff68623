"""Dispositions: what is said of neighbours alike is said once."""

from __future__ import annotations

import pytest

from covey.protocols.amqp.codec import decoder
from covey.protocols.amqp.codec.performatives import HEAD_SIZE, MASK
from covey.protocols.amqp.outcomes import ACCEPTED_STATE, plain
from covey.protocols.amqp.session import Dispositions

RELEASED = plain(0x26)


def ranges(said: list[tuple[int, bytes, bool]]) -> list[tuple[object, object, object]]:
    """Say these in turn; return first, last and settled of each frame."""
    dispositions = Dispositions(receives=True)
    for number, state, is_settled in said:
        dispositions.add(number, state, is_settled)
    parts: list[bytes] = []
    dispositions.write(3, parts)
    dispositions.write(3, parts)  # once is enough
    found = []
    for part in parts:
        body = decoder.decode(part, HEAD_SIZE)
        assert isinstance(body, decoder.Described) and isinstance(body.value, list)
        found.append((body.value[1], body.value[2], body.value[3]))
    return found


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([], []),
        ([(0, ACCEPTED_STATE, True)], [(0, None, True)]),
        ([(n, ACCEPTED_STATE, True) for n in range(5)], [(0, 4, True)]),
        ([(n, ACCEPTED_STATE, True) for n in (1, 2, 4)], [(1, 2, True), (4, None, True)]),
        (
            [(2, ACCEPTED_STATE, True), (1, ACCEPTED_STATE, True)],
            [(2, None, True), (1, None, True)],
        ),
        ([(0, ACCEPTED_STATE, True), (1, RELEASED, True)], [(0, None, True), (1, None, True)]),
        ([(0, RELEASED, False), (1, RELEASED, True)], [(0, None, False), (1, None, True)]),
        ([(n & MASK, RELEASED, True) for n in range(MASK, MASK + 3)], [(MASK, 1, True)]),
    ],
)
def test_neighbours_of_which_the_same_is_said_are_one_range(
    said: list[tuple[int, bytes, bool]], expected: list[tuple[object, object, object]]
) -> None:
    assert ranges(said) == expected
