"""Drain: a peer's wish to have the credit of its link used up now, or given back.

Every queue that the link reads is asked to deliver what it has; once all have said that nothing
more will come, and what waited for the peer has left, the link's credit is given back by a flow.
That flow is owed also where no credit is left. A topic keeps nothing back, so it is not asked.

Source: AMQP 1.0 section 2.6.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.consumer import Consumer
from covey.core.queue import Queue

if TYPE_CHECKING:
    from covey.protocols.amqp.outgoing import OutgoingLink


class Drain:
    """What one link was asked for, and who has still to answer."""

    __slots__ = ("_waiting", "is_asked", "is_due", "link")

    def __init__(self, link: OutgoingLink) -> None:
        self.link = link
        self.is_asked = False  # by the last flow of the peer
        self.is_due = False  # all have answered
        self._waiting: set[Consumer] = set()

    def ask(self) -> None:
        """Have everybody behind the link deliver what there is."""
        self.is_asked = True
        self.is_due = False
        consumers = self.link.window.consumers
        self._waiting = {each for each in consumers if isinstance(each.queue, Queue)}
        for consumer in self._waiting:
            queue = consumer.queue
            assert isinstance(queue, Queue)
            if consumer not in queue.draining:
                queue.draining.append(consumer)
            queue.mark()
        self._look()

    def cancel(self) -> None:
        """Hear that the credit is to last again."""
        self.is_asked = False
        self.is_due = False
        self._waiting = set()

    def answered(self, consumer: Consumer) -> None:
        """Hear that a queue has nothing more for the credit given."""
        if self.link.window.is_paused:
            return  # the outbox is full, not the queue empty: `go_on` asks again
        if consumer in self._waiting:
            self._waiting.remove(consumer)
            self._look()

    def go_on(self) -> None:
        """Hear that deliveries go on after the outbox was full."""
        if self._waiting:
            self.ask()

    def give_back(self, parts: list[bytes]) -> None:
        """Write the answer: no credit is left, whether or not some had to be given back."""
        link = self.link
        self.is_due = False
        link.delivery_count = max(link.delivery_count, link.delivery_limit)
        parts.append(link.channel.flow(link.flow_fields()))
        link.window.count = 0

    def _look(self) -> None:
        if not self._waiting:
            self.is_due = True
            self.link.pressure.queued(self.link)
