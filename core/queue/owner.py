# Compiled by mypyc: see setup.py.
"""QueueOwner: what a queue asks of the broker that it belongs to.

A queue keeps order, and changes nothing outside itself. It tells its owner what has to happen
elsewhere. The owner is given to the queue when the queue is made, and never changes.

| call         | when                                   | the broker then                         |
|--------------|----------------------------------------|-----------------------------------------|
| mark         | something happened to the queue        | pumps it at the end of the turn         |
| removed      | a message that is on disk has gone     | deletes it from the store               |
| retried      | a delivery failed                      | counts that in the store                |
| dead_letter  | a message has died                     | puts it into the dead-letter queue      |
| rest_dies    | the rest of its group must follow it   | dead-letters the rest, in portions      |
| parked       | its group must be parked instead       | remembers that in the store             |
| freed        | an awaited queue lost a message        | tries the work that waits for room      |
| let_in       | a delayed message's time has come      | enqueues the message, through the store |
| put          | a topic has a message for the queue    | puts it in, as the quota allows         |
| group_done   | a consumer's one group is empty        | ends its subscription                   |
| opened       | a window has more consumers to tell    | lets it tell them, after this pump      |
| given_up     | a delayed message will never come in   | deletes it from the store               |

The queue reports groups in trouble to the owner's `audit`.

All calls but `put` and `let_in` may come in the middle of a dispatch. So an owner takes a note or
changes another queue, and never calls back into the same queue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

from mypy_extensions import mypyc_attr

from covey.core.events.audit import Audit, Unheard

if TYPE_CHECKING:
    from covey.core.dispatch.state import ParkRecord
    from covey.core.model.consumer import Consumer, Window
    from covey.core.model.entry import Entry
    from covey.core.model.message import Message
    from covey.core.queue.queue import Queue
    from covey.core.queue.timers import Waiting


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueOwner(ABC):
    """What a queue belongs to: the broker, as the queue sees it."""

    def __init__(self, audit: Audit) -> None:
        self.audit = audit

    @abstractmethod
    def mark(self, queue: Queue) -> None:
        """Pump the queue at the end of this turn; called once between two pumps."""

    @abstractmethod
    def removed(self, queue: Queue, entry: Entry) -> None:
        """Forget a stored message that has left the queue."""

    @abstractmethod
    def retried(self, queue: Queue, entry: Entry) -> None:
        """Remember how often a message was delivered and came back."""

    @abstractmethod
    def dead_letter(self, queue: Queue, entry: Entry, reason: str) -> None:
        """Put a message that has died where the queue's policy says."""

    @abstractmethod
    def rest_dies(self, queue: Queue, group: str, reason: str) -> None:
        """Dead-letter the rest of a group whose message has died; the group's lane is seized."""

    @abstractmethod
    def parked(self, queue: Queue, group: str, record: ParkRecord) -> None:
        """Remember that a group is parked until somebody un-parks it."""

    @abstractmethod
    def freed(self, queue: Queue) -> None:
        """Note that a queue with waiting producers has more room, or has ended."""

    @abstractmethod
    def let_in(self, queue: Queue, waiting: Waiting) -> None:
        """Enqueue a message whose time has come."""

    @abstractmethod
    def put(self, queue: Queue, message: Message) -> None:
        """Put a message of a topic into the queue, as its quota allows."""

    @abstractmethod
    def group_done(self, consumer: Consumer, group: str) -> None:
        """End the subscription of a consumer that is done with its one group."""

    @abstractmethod
    def opened(self, window: Window) -> None:
        """Once the queues are pumped, let a window tell its next consumers that it is open."""

    @abstractmethod
    def given_up(self, queue: Queue, waiting: Waiting) -> None:
        """Forget a delayed message that will never come in."""


class Sparing(Protocol):
    """Work that takes messages out of a queue, except those that were held when it began."""

    def spare(self, seq: int) -> None:
        """Called when a message has come back."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Unowned(QueueOwner):
    """No owner: for a queue on its own, in a test or a benchmark. The test pumps the queue."""

    def __init__(self, audit: Audit | None = None) -> None:
        super().__init__(audit or Unheard())

    def mark(self, queue: Queue) -> None:
        """Do nothing: the test pumps the queue."""

    def removed(self, queue: Queue, entry: Entry) -> None:
        """Do nothing: there is no store."""

    def retried(self, queue: Queue, entry: Entry) -> None:
        """Do nothing: there is no store."""

    def dead_letter(self, queue: Queue, entry: Entry, reason: str) -> None:
        """Drop the message: there is no other queue."""

    def rest_dies(self, queue: Queue, group: str, reason: str) -> None:
        """Do nothing: there is nobody to do it."""

    def parked(self, queue: Queue, group: str, record: ParkRecord) -> None:
        """Do nothing: there is no store."""

    def freed(self, queue: Queue) -> None:
        """Do nothing: nobody waits."""

    def let_in(self, queue: Queue, waiting: Waiting) -> None:
        """Drop the message: only a broker can enqueue delayed messages."""

    def put(self, queue: Queue, message: Message) -> None:
        """Enqueue it, whatever the quota says."""
        queue.enqueue(message)

    def group_done(self, consumer: Consumer, group: str) -> None:
        """Tell the consumer at once: the test ends it."""
        consumer.group_done(group)

    def opened(self, window: Window) -> None:
        """Tell the consumers at once: there is no other queue."""
        window.reconsider()

    def given_up(self, queue: Queue, waiting: Waiting) -> None:
        """Do nothing: there is no store."""
