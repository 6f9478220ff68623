# Compiled by mypyc: see setup.py.
"""Feed: how messages of topics reach those who listen: connected readers, and queues.

A `Feed` is one subscriber of topics. It keeps nothing when the subscriber leaves. A message is
delivered at once while the subscriber has credit. Otherwise it waits here, in order, until it
expires. The waiting bytes are limited. A feed with more than its buffer `is_over`, and whoever
publishes to it is blocked until it has caught up (`slow_consumer_policy = "block"`; with "queue"
the buffer is larger).

A `Fan` has the messages of one topic that came in a row, on their way to all its readers. What is
the same for all of them is done once. Subscribers whose deliveries are settled on sending share the
entries, and the bytes that their protocol writes. Such a subscriber gets a whole fan at once if it
has credit for all of it.

A `Binding` fills a queue from topics: the queue of a durable subscription, or a mirrored queue.
Unlike a feed it takes a message the moment it is published. If the queue has to wait for the store,
so has the sender's receipt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from covey.core.clock import Clock
from covey.core.dispatch.lane import Lane
from covey.core.model.consumer import Source
from covey.core.model.entry import ACQUIRED, GONE, PENDING, SHARED, Entry, Outcome

if TYPE_CHECKING:
    from covey.core.host.topic import Topic
    from covey.core.model.consumer import Consumer
    from covey.core.model.message import Message
    from covey.core.queue.queue import Queue
    from covey.core.selector import Selector
    from covey.core.session import Session


NO_LANE: Final = Lane("", is_grouped=False)  # for entries that come from no topic


class Fan:
    """A few messages for many readers."""

    __slots__ = ("_entries", "can_expire", "lane", "messages", "size", "written")

    def __init__(self, lane: Lane = NO_LANE) -> None:
        """Begin with no message; the lane has the topic's name."""
        self.lane = lane
        self.messages: list[Message] = []
        self.size = 0  # bytes of their bodies
        self.can_expire = False  # one of the messages can expire
        self.written: list[bytes] = []  # written once, by the first reader that can share it
        self._entries: list[Entry] = []

    def add(self, message: Message) -> None:
        """Add the next message."""
        self.messages.append(message)
        self.size += message.size
        if message.expires_ms:
            self.can_expire = True

    def entries(self) -> list[Entry]:
        """Return an entry for each message; all readers share the same entries."""
        if not self._entries:
            lane = self.lane
            self._entries = [Entry(SHARED, message, lane, PENDING) for message in self.messages]
        return self._entries


ENTRY_COST: Final = 256  # bytes of memory that a waiting message takes beside its body


class Feed(Source):
    """A consumer's share of one or more topics."""

    def __init__(self, name: str, consumer: Consumer, buffer_size: int, clock: Clock) -> None:
        self.name = name
        self.consumer = consumer
        self.buffer_size = buffer_size
        self.clock = clock
        self.waiting: deque[Entry] = deque()
        self.size = 0  # bytes of what waits
        self.next_seq = 1
        self.is_over = False
        self.waited_for_by: list[Session] = []  # producers, as often as each was blocked
        self.topics: dict[Topic, None] = {}  # its subscription's
        self.reached = 0  # the reader has all fan-outs up to this number (`core.host.fan_out`)
        consumer.queue = self
        consumer.window.consumers[consumer] = None

    def take(self, fan: Fan) -> None:
        """Take messages of a topic; deliver all at once if nothing stands in the way of any."""
        consumer = self.consumer
        window = consumer.window
        count = len(fan.messages)
        if (
            self.waiting
            or fan.can_expire
            or not consumer.is_presettled
            or consumer.is_no_local
            or consumer.selector is not None
            or not (window.is_automatic or window.count >= count)
            or not consumer.is_willing()
        ):
            for message in fan.messages:
                self.offer(message, fan.lane)
            return
        if not window.is_automatic:
            window.count -= count
            window.size -= fan.size
        consumer.delivered += count
        consumer.deliver_fan(fan)

    def offer(self, message: Message, lane: Lane = NO_LANE) -> None:
        """Take a message of a topic: deliver it now, or let it wait; the lane names the topic."""
        consumer = self.consumer
        if message.expires_ms and self.clock.has_passed(message.expires_ms):
            return
        if consumer.is_no_local and message.sender == consumer.session.id:
            return
        selector = consumer.selector
        if selector is not None and not selector.matches(message.lookup):
            return
        if not self.waiting and consumer.is_willing():
            self._hand_over(self._entry(message, lane))
            return
        self.waiting.append(self._entry(message, lane))
        consumer.window.stall(consumer)
        self.size += message.weight + ENTRY_COST
        if self.size > self.buffer_size:
            self.is_over = True

    def keep_waiting(self, senders: list[Session], topic: str, now: float) -> None:
        """Block the senders until this reader has caught up: they have sent too much for it."""
        for session in senders:
            session.block(f"a slow subscriber of topic {topic}", now)
            self.waited_for_by.append(session)

    def allow(self, buffer_size: int) -> None:
        """Set the size of the buffer; blocked producers go on if that is enough."""
        self.buffer_size = buffer_size
        if self.is_over and self.size <= buffer_size:
            self._keep_up()

    def credit_changed(self, consumer: Consumer) -> None:
        """Deliver messages that wait, as far as the credit goes."""
        while self.waiting and consumer.is_willing():
            entry = self.waiting.popleft()
            self.size -= entry.content.weight + ENTRY_COST
            if not self.clock.has_passed(entry.expires_ms):
                self._hand_over(entry)
        if self.waiting:
            consumer.window.stall(consumer)
        if self.is_over and self.size <= self.buffer_size // 2:
            self._keep_up()

    def settle(self, entry: Entry, outcome: Outcome, now: float, reason: str = "") -> None:
        """End a delivery; an entry that is released or failed goes back to its place in line.

        A rejected entry is forgotten: the feed has no other reader, and a topic no dead letters.
        """
        if entry.state != ACQUIRED:
            return
        consumer = self.consumer
        consumer.unsettled.pop(entry.seq, None)
        if consumer.is_gone or outcome not in (Outcome.RELEASED, Outcome.FAILED):
            self.settled(entry)
        else:
            entry.deliveries += outcome is Outcome.FAILED
            entry.state = PENDING
            self._put_back(entry)
        if self.waiting:
            self.credit_changed(consumer)

    def settled(self, entry: Entry) -> None:
        """Let go of an entry."""
        entry.state = GONE
        entry.message = None

    def leaving(self, consumer: Consumer, now: float, *, counted: bool = True) -> Iterator[int]:
        """End the feed: a topic keeps nothing for a subscriber that has left."""
        consumer.is_gone = consumer.is_barred = True
        consumer.queue = None
        consumer.window.leave(consumer)
        consumer.unsettled.clear()
        self.waiting.clear()
        self.size = 0
        if self.is_over:
            self._keep_up()
        yield 1

    def _keep_up(self) -> None:
        """Let the producers that waited for this subscriber go on."""
        self.is_over = False
        waited, self.waited_for_by = self.waited_for_by, []
        for session in waited:
            session.unblock()

    def _entry(self, message: Message, lane: Lane) -> Entry:
        entry = Entry(self.next_seq, message, lane, PENDING)
        self.next_seq += 1
        return entry

    def _put_back(self, entry: Entry) -> None:
        # Few entries ever come back: a walk to the right place is simpler than an index.
        place = 0
        for waiting in self.waiting:
            if waiting.seq > entry.seq:
                break
            place += 1
        self.waiting.insert(place, entry)
        self.consumer.window.stall(self.consumer)
        self.size += entry.content.weight + ENTRY_COST

    def _hand_over(self, entry: Entry) -> None:
        consumer = self.consumer
        window = consumer.window
        if not window.is_automatic:
            window.count -= 1
            window.size -= entry.size
        consumer.delivered += 1
        if not consumer.is_presettled:
            entry.state = ACQUIRED
            entry.holder = consumer
            consumer.unsettled[entry.seq] = entry
        consumer.deliver(entry)


class Binding:
    """A queue's share of one or more topics, through a selector if it has one."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.selector: Selector | None = None
        self.not_from = ""  # a client whose own messages it does not take; "": there is none
        self.topics: dict[Topic, None] = {}  # an ordered set: a pattern may match very many

    def admits(self, message: Message, client: str) -> bool:
        """Return True if the queue takes this message of this client."""
        if self.not_from and self.not_from == client:
            return False
        return self.selector is None or self.selector.matches(message.lookup)

    def offer(self, message: Message, client: str = "") -> None:
        """Put a client's message into the queue if it is admitted."""
        if self.admits(message, client):
            self.queue.owner.put(self.queue, message)
