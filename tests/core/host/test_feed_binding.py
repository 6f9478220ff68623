"""A binding fills its queue from topics, through its selector."""

from __future__ import annotations

from covey.core.host.feed import Binding
from covey.core.model.message import Message
from covey.core.queue.owner import Unowned
from covey.core.queue.queue import Queue
from tests.core.double import letter, make_host
from tests.core.support import selector_of


class Taker(Unowned):
    """An owner that keeps what is meant for its queues."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[tuple[Queue, Message]] = []

    def put(self, queue: Queue, message: Message) -> None:
        self.taken.append((queue, message))


def test_a_binding_puts_what_its_selector_admits() -> None:
    owner = Taker()
    queue = make_host(owner=owner).queue("a")
    binding = Binding(queue)
    yes, no = letter("yes"), letter("no")
    binding.selector = selector_of("name = 'yes'")
    for message in (yes, no):
        binding.offer(message)
    assert owner.taken == [(queue, yes)]
