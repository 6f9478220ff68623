"""A tap fills its queue from topics, through its selector."""

from __future__ import annotations

from covey.core.host.feed import Tap
from covey.core.model.message import Message
from covey.core.queue.queue import Queue
from tests.core.double import letter, make_host
from tests.core.support import selector_of


def test_a_tap_puts_what_its_selector_admits() -> None:
    queue = make_host().queue("a")
    taken: list[tuple[Queue, Message]] = []
    tap = Tap(queue, lambda place, message: taken.append((place, message)))
    yes, no = letter("yes"), letter("no")
    tap.selector = selector_of("name = 'yes'")
    for message in (yes, no):
        tap.offer(message)
    assert taken == [(queue, yes)]
