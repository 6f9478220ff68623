# Compiled by mypyc: see setup.py.
"""MessageStore: where persistent messages survive the process.

Nothing in the core waits for a disk. The core issues changes as it works. At the end of a turn it
calls `flush(ticket)`. Once all changes issued before are on stable storage, the store tells its
listener (`core.storage.listener`). The core asks for bodies by `page(ticket, places)`, and the
listener gets them.

Every change is a record (`core.storage.changes`), and each store writes records in its own way. A
store is registered in `core.storage`, and `tests/core/storage/contract` says what any store does.

A batch is atomic: changes issued between two flushes are on disk all or not at all. So a
transaction is atomic, too. A long transaction is carried out in portions, while batches of others
go to the disk. So its changes of messages are gathered in a *part* (`open_part`), which joins one
batch at the end (`join_part`). The store knows a queue by a number, since two virtual hosts may
each have a queue of the same name. The core gives the numbers out, from `FIRST_QUEUE` up.

Group ownership is not stored: after a restart every group is without an owner.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Final, NamedTuple

from mypy_extensions import mypyc_attr

from covey.config.settings import StoreSettings
from covey.core.model.message import Message
from covey.core.storage.listener import NobodyYet, StoreListener

FIRST_QUEUE: Final = 1  # 0 means: the store does not know this queue
QUEUE: Final = "queue"
DAMAGES_MAX: Final = 1000  # texts kept; a broken disk must not fill the memory
DURABLE: Final = "durable"  # the queue behind a durable subscription

Place = tuple[int, int]  # the queue's number, the message's


class QueueRecord(NamedTuple):
    """A queue as a restart finds it.

    `next_seq` is above every sequence number ever given in the queue. A queue that is not live was
    swept away, and only `next_seq` is left of it. `settings` is the policy it was declared with, as
    JSON; "" if nobody declared it. Every message above `dropped_to` that has gone was settled.
    """

    number: int
    host: str
    kind: str
    name: str
    next_seq: int
    is_live: bool
    settings: str
    dropped_to: int = 0


class DurableRecord(NamedTuple):
    """A durable subscription: the destinations it hears, as written by the default syntax.

    `not_from` is the client whose own messages it does not take, "" for none.
    """

    host: str
    name: str
    destinations: tuple[str, ...]
    selector: str
    not_from: str = ""


class NamedRecord(NamedTuple):
    """Something small that a virtual host keeps: of a kind, under a key, a text such as JSON.

    Each kind belongs to one feature, which says what the key and the value mean.
    """

    host: str
    kind: str
    key: str
    value: str


class MessageRecord(NamedTuple):
    """One message without its body; they come with ascending numbers within a queue."""

    queue: int
    seq: int
    group: str
    deliveries: int
    size: int
    priority: int
    expires_ms: int
    due_ms: int


class IdRecord(NamedTuple):
    """The digest of a message id that a queue remembers; they come with ascending numbers."""

    queue: int
    number: int
    digest: bytes


class BodyRecord(NamedTuple):
    """What `Message.encode` gave, and the kind that names its decoder."""

    queue: int
    seq: int
    kind: str
    head: bytes
    body: bytes


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageStore(ABC):
    """The interface of every store."""

    # A ClassVar, or compiled code would read this default instead of a subclass's own.
    is_durable: ClassVar[bool] = True

    def __init__(self) -> None:
        self.listener: StoreListener = NobodyYet()
        self.damages: list[str] = []  # what was found damaged or missing, with its place
        self.losses: list[str] = []  # what was confirmed and is missing; no name is in these texts
        self.exposed: list[str] = []  # what other users may read or change, and who

    def listen(self, listener: StoreListener) -> None:
        """Report to this listener from now on."""
        self.listener = listener

    # What a restart finds; called once, in this order, before any change is issued.

    @abstractmethod
    def queues(self) -> list[QueueRecord]:
        """Return every queue, swept ones included."""

    @abstractmethod
    def durables(self) -> list[DurableRecord]:
        """Return every durable subscription."""

    @abstractmethod
    def records(self) -> list[NamedRecord]:
        """Return every named record."""

    @abstractmethod
    def messages(self) -> Iterator[MessageRecord]:
        """Walk all messages, queue by queue, ascending."""

    @abstractmethod
    def ids(self) -> Iterator[IdRecord]:
        """Walk all remembered message ids, queue by queue, ascending."""

    # Changes, gathered until the next flush.

    def valid_until(self) -> float:
        """Return until when no other broker can own the store (monotonic clock); 0: for ever."""
        return 0.0

    def renew(self) -> None:  # noqa: B027 - most stores have nothing to renew
        """Extend the right to write, if it ends by itself; the server calls this every second."""

    def rest(self) -> None:  # noqa: B027 - most stores hold nothing that others could use
        """Called when all was read that a start reads: let go of what only busy stores need."""

    @abstractmethod
    def append(self, queue: int, seq: int, group: str, message: Message) -> None:
        """Keep a message at its number."""

    @abstractmethod
    def delete(self, queue: int, seq: int) -> None:
        """Forget a message that was settled."""

    @abstractmethod
    def move(self, queue: int, seq: int, to: int) -> None:
        """Give a message another number in its queue; a batch moves before it deletes."""

    @abstractmethod
    def remember(self, queue: int, number: int, digest: bytes) -> None:
        """Remember a message id."""

    @abstractmethod
    def forget_ids(self, queue: int, below: int) -> None:
        """Forget a queue's message ids below a number."""

    @abstractmethod
    def count_retry(self, queue: int, seq: int, deliveries: int) -> None:
        """Remember how often a message was delivered and came back."""

    @abstractmethod
    def spill(self, queue: int, seq: int, message: Message) -> None:
        """Keep a body that memory has no room for; it does not survive a restart."""

    @abstractmethod
    def unspill(self, queue: int, seq: int) -> None:
        """Forget a spilled body."""

    @abstractmethod
    def define(self, record: QueueRecord) -> None:
        """Remember a queue, or what changed about it."""

    @abstractmethod
    def reserve(self, queue: int, next_seq: int) -> None:
        """Never again give a number below this one in that queue."""

    @abstractmethod
    def note_dropped(self, queue: int, dropped_to: int) -> None:
        """Remember up to which number messages went without being settled."""

    @abstractmethod
    def forget(self, queue: int) -> None:
        """Forget a queue with all its messages."""

    @abstractmethod
    def empty(self, queue: int) -> None:
        """Forget all messages of a queue, and keep the queue."""

    @abstractmethod
    def bind(self, record: DurableRecord) -> None:
        """Remember a durable subscription, or what it hears now."""

    @abstractmethod
    def unbind(self, host: str, name: str) -> None:
        """Forget a durable subscription; its queue is forgotten by `forget`."""

    @abstractmethod
    def put(self, record: NamedRecord) -> None:
        """Remember a named record, in place of the one that has its name."""

    @abstractmethod
    def remove(self, host: str, kind: str, key: str) -> None:
        """Forget a named record."""

    # Parts; a store that keeps nothing needs none.

    def open_part(self) -> int:
        """Begin a part; return its number, which is above 0."""
        return 1

    def enter_part(self, part: int) -> None:  # noqa: B027 - see above
        """Gather the changes of messages in this part from now on; 0: in the batch, as usual."""

    def join_part(self, part: int) -> None:  # noqa: B027
        """Add a part to the batch that is being gathered."""

    def withdraw(self, queue: int, seq: int) -> bool:
        """Take a message out of the part that has yet to bring it; False: it is in no part."""
        return False

    def move_within(self, queue: int, seq: int, to: int) -> int:
        """Renumber a message inside the part that has yet to bring it; return the part, or 0."""
        return 0

    # Work.

    @abstractmethod
    def allow(self, settings: StoreSettings) -> None:
        """Apply new limits; where and how the store keeps things does not change."""

    @abstractmethod
    def flush(self, ticket: int, can_wait: bool = False) -> None:
        """Hand over all changes issued so far; the listener is told when they are on disk.

        If they `can_wait`, the store may keep them for the next batch, some milliseconds at most.
        """

    def hurry(self) -> None:  # noqa: B027 - a store that keeps nothing back need not
        """Write at once what was handed over and can wait: somebody waits for it now."""

    @abstractmethod
    def page(self, ticket: int, places: list[Place]) -> None:
        """Read bodies; the listener gets them later."""

    @abstractmethod
    def close(self) -> None:
        """Finish what was handed over and let go of the disk."""
