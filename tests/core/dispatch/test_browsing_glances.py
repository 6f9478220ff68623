"""Glances: a browser takes what was read for it in order, and what is outdated does no harm."""

from __future__ import annotations

from covey.core.dispatch.browsing import Glances
from covey.core.model.message import Message
from tests.core.support import Letter


def read(*numbers: int) -> tuple[Glances, dict[int, Message]]:
    glances = Glances(numbers[0])
    letters: dict[int, Message] = {number: Letter() for number in numbers}
    for number, letter in letters.items():
        glances.put(number, letter)
    return glances, letters


def test_messages_are_taken_once_and_vanished_ones_passed_over() -> None:
    glances, letters = read(3, 4, 5, 6)
    assert glances.take(3) is letters[3]
    assert glances.take(6) is letters[6]
    assert len(glances) == 0


def test_what_was_not_read_is_where_the_next_page_begins() -> None:
    glances, _ = read(3, 5, 6)
    assert glances.take(4) is None
    assert (glances.ahead, len(glances)) == (4, 0)


def test_while_a_page_is_under_way_nothing_is_asked_for_again() -> None:
    glances, letters = read(3)
    glances.ahead, glances.is_asked = 9, True
    assert glances.take(4) is None
    assert glances.ahead == 9
    glances.put(4, letters[3])
    assert glances.take(4) is letters[3]
