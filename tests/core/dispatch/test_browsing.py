"""ReadAhead: a browser takes what was read for it in order, and what is outdated does no harm."""

from __future__ import annotations

from covey.core.dispatch.browsing import ReadAhead
from covey.core.model.message import Message
from tests.doubles import Letter


def read(*numbers: int) -> tuple[ReadAhead, dict[int, Message]]:
    read_ahead = ReadAhead(numbers[0])
    letters: dict[int, Message] = {number: Letter() for number in numbers}
    for number, letter in letters.items():
        read_ahead.put(number, letter)
    return read_ahead, letters


def test_messages_are_taken_once_and_vanished_ones_passed_over() -> None:
    read_ahead, letters = read(3, 4, 5, 6)
    assert read_ahead.take(3) is letters[3]
    assert read_ahead.take(6) is letters[6]
    assert len(read_ahead) == 0


def test_what_was_not_read_is_where_the_next_page_begins() -> None:
    read_ahead, _ = read(3, 5, 6)
    assert read_ahead.take(4) is None
    assert (read_ahead.ahead, len(read_ahead)) == (4, 0)


def test_while_a_page_is_under_way_nothing_is_asked_for_again() -> None:
    read_ahead, letters = read(3)
    read_ahead.ahead, read_ahead.is_asked = 9, True
    assert read_ahead.take(4) is None
    assert read_ahead.ahead == 9
    read_ahead.put(4, letters[3])
    assert read_ahead.take(4) is letters[3]
