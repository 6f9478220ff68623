# Compiled by mypyc: see setup.py.
"""QueueOwner: what a queue asks of the broker that it belongs to.

A queue keeps order, and does nothing beyond itself. What has to happen elsewhere it tells its
owner, which is given to it when it is made and stays the same.

| call         | when                                   | the broker then                         |
|--------------|----------------------------------------|-----------------------------------------|
| mark         | something happened to it               | pumps it at the end of the turn         |
| removed      | a message that is on disk has gone     | deletes it from the store               |
| retried      | a delivery failed                      | counts that in the store                |
| dead_letter  | a message has died                     | puts it into the dead-letter queue      |
| rest_dies    | its group is to follow it              | does so, in portions                    |
| parked       | its group is to be parked instead      | remembers that in the store             |
| freed        | it lost a message and `is_awaited`     | tries the work that waits for room      |
| let_in       | a delayed message's time has come      | enqueues the message, through the store |
| put          | a topic it listens to has a message    | puts it in, as the quota allows         |
| group_done   | a consumer's one group is empty        | ends its subscription                   |
| opened       | a window has more consumers to tell    | lets it tell them, after this pump      |
| given_up     | a delayed message will never come in   | deletes it from the store               |

Groups in trouble are told to the owner's `audit`.

All of them but `put` and `let_in` may be called in the middle of a dispatch: an owner takes a note
or changes another queue, and never calls back into the same one.
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
    """Whom a queue belongs to."""

    def __init__(self, audit: Audit) -> None:
        self.audit = audit

    @abstractmethod
    def mark(self, queue: Queue) -> None:
        """Pump the queue at the end of this turn; called once until it is pumped."""

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
        """Send the rest of a group, whose lane is seized, after its message that has died."""

    @abstractmethod
    def parked(self, queue: Queue, group: str, record: ParkRecord) -> None:
        """Remember that a group is parked until somebody un-parks it."""

    @abstractmethod
    def freed(self, queue: Queue) -> None:
        """Note that a queue somebody waits for has more room, or has ended."""

    @abstractmethod
    def let_in(self, queue: Queue, waiting: Waiting) -> None:
        """Enqueue a message whose time has come."""

    @abstractmethod
    def put(self, queue: Queue, message: Message) -> None:
        """Put a message of a topic into the queue, as its quota allows."""

    @abstractmethod
    def group_done(self, consumer: Consumer, group: str) -> None:
        """End a consumer that took one group and is done with it."""

    @abstractmethod
    def opened(self, window: Window) -> None:
        """Let a window tell the next of its consumers once the queues were pumped."""

    @abstractmethod
    def given_up(self, queue: Queue, waiting: Waiting) -> None:
        """Forget a delayed message that will never come in."""


class Sparing(Protocol):
    """Work that takes messages out of a queue, and leaves those alone that were held."""

    def spare(self, seq: int) -> None:
        """Hear that a message has come back."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Unowned(QueueOwner):
    """Nobody: a queue on its own, in a test or a benchmark. Its user pumps it."""

    def __init__(self, audit: Audit | None = None) -> None:
        super().__init__(audit or Unheard())

    def mark(self, queue: Queue) -> None:
        """Leave the pump to the user."""

    def removed(self, queue: Queue, entry: Entry) -> None:
        """Do nothing: there is no store."""

    def retried(self, queue: Queue, entry: Entry) -> None:
        """Do nothing: there is no store."""

    def dead_letter(self, queue: Queue, entry: Entry, reason: str) -> None:
        """Let it go: there is no other queue."""

    def rest_dies(self, queue: Queue, group: str, reason: str) -> None:
        """Do nothing: there is nobody to do it."""

    def parked(self, queue: Queue, group: str, record: ParkRecord) -> None:
        """Do nothing: there is no store."""

    def freed(self, queue: Queue) -> None:
        """Do nothing: nobody waits."""

    def let_in(self, queue: Queue, waiting: Waiting) -> None:
        """Let it go: delayed messages are the broker's to keep."""

    def put(self, queue: Queue, message: Message) -> None:
        """Enqueue it, whatever the quota says."""
        queue.enqueue(message)

    def group_done(self, consumer: Consumer, group: str) -> None:
        """Tell it at once: its user ends it."""
        consumer.group_done(group)

    def opened(self, window: Window) -> None:
        """Tell them at once: there is no other queue."""
        window.reconsider()

    def given_up(self, queue: Queue, waiting: Waiting) -> None:
        """Do nothing: there is no store."""
