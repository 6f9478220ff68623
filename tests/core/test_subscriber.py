"""A tap fills its queue from topics, through its selector."""

from __future__ import annotations

from covey.core.entry import PENDING, SHARED, Entry
from covey.core.feed import NO_LANE
from covey.core.message import Message
from covey.core.queue import Queue
from covey.core.subscriber import Tap
from tests.core.double import letter, make_host
from tests.core.support import selector_of


def test_a_tap_puts_what_its_selector_admits() -> None:
    queue = make_host().queue("a")
    taken: list[tuple[Queue, Message]] = []
    tap = Tap(queue, lambda place, message: taken.append((place, message)))
    yes, no = letter("yes"), letter("no")
    tap.selector = selector_of("name = 'yes'")
    for message in (yes, no):
        tap.offer(message, Entry(SHARED, message, NO_LANE, PENDING))
    assert taken == [(queue, yes)]
    assert not tap.is_over
