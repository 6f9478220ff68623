# Compiled by mypyc: see setup.py.
"""Feed: how messages of topics reach those who listen: connected readers, and queues.

A `Feed` is one subscriber of topics that keeps nothing when it goes. A message is handed on at once
while the subscriber has credit. Else it waits here, in order, until it expires. What waits is
bounded: a feed above its buffer `is_over`, and whoever publishes to it is blocked until it has
caught up (`slow_consumer_policy = "block"`; with "queue" the buffer is larger).

A `Fan` has the messages of one topic that came in a row, on their way to everybody who listens.
What is the same for all subscribers is done once: the entries, which subscribers that settle as
they are sent share, and what their protocol writes of the messages. A subscriber that settles as it
is sent, and has credit for all of a fan, gets it whole.

A `Binding` fills a queue from topics: that of a durable subscription, or the one that a mirrored
topic fills. Unlike a feed it takes a message the moment it is published: the sender's receipt has
to wait for the store if the queue does.
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


NO_LANE: Final = Lane("", is_grouped=False)  # of what came from nowhere


class Fan:
    """A few messages for many readers."""

    __slots__ = ("_entries", "can_expire", "lane", "messages", "size", "written")

    def __init__(self, lane: Lane = NO_LANE) -> None:
        """Begin with none; the lane has the topic's name."""
        self.lane = lane
        self.messages: list[Message] = []
        self.size = 0  # bytes of their bodies
        self.can_expire = False  # one of them has a time to live
        self.written: list[bytes] = []  # by the first reader whose protocol can share it
        self._entries: list[Entry] = []

    def add(self, message: Message) -> None:
        """Take the next one."""
        self.messages.append(message)
        self.size += message.size
        if message.expires_ms:
            self.can_expire = True

    def entries(self) -> list[Entry]:
        """Return an entry for each message, the same ones to everybody."""
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
        self.waited_for_by: list[Session] = []  # producers, once for each message they are ahead
        self.topics: dict[Topic, None] = {}  # its subscription's
        self.reached = 0  # by the messages that go out in portions, up to this number
        consumer.queue = self
        consumer.window.consumers[consumer] = None

    def take(self, fan: Fan) -> None:
        """Take messages of a topic: all at once if nothing stands in the way of any."""
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
        """Take a message of a topic, whose name the lane has: deliver it now, or let it wait."""
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
        self.size += message.size + ENTRY_COST
        if self.size > self.buffer_size:
            self.is_over = True

    def keep_waiting(self, senders: list[Session], topic: str, now: float) -> None:
        """Let those who have sent too much for this reader wait until it has caught up."""
        for session in senders:
            session.block(f"a slow subscriber of topic {topic}", now)
            self.waited_for_by.append(session)

    def allow(self, buffer_size: int) -> None:
        """Let so much wait from now on; its producers need not, if that is enough."""
        self.buffer_size = buffer_size
        if self.is_over and self.size <= buffer_size:
            self._keep_up()

    def credit_changed(self, consumer: Consumer) -> None:
        """Send what waits, as far as the credit goes."""
        while self.waiting and consumer.is_willing():
            entry = self.waiting.popleft()
            self.size -= entry.size + ENTRY_COST
            if not self.clock.has_passed(entry.expires_ms):
                self._hand_over(entry)
        if self.waiting:
            consumer.window.stall(consumer)
        if self.is_over and self.size <= self.buffer_size // 2:
            self._keep_up()

    def settle(self, entry: Entry, outcome: Outcome, now: float, reason: str = "") -> None:
        """Forget an entry; one that comes back is first in line again.

        A topic has no other reader for what its only one will not have again, and no dead letters.
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
        """End: a topic keeps nothing for a subscriber that went."""
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
        # Few ever come back: a walk to its place is simpler than an index.
        place = 0
        for waiting in self.waiting:
            if waiting.seq > entry.seq:
                break
            place += 1
        self.waiting.insert(place, entry)
        self.consumer.window.stall(self.consumer)
        self.size += entry.size + ENTRY_COST

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
        self.topics: dict[Topic, None] = {}  # an ordered set: a pattern may mean very many

    def admits(self, message: Message, client: str) -> bool:
        """Return True if it takes a message of a client."""
        if self.not_from and self.not_from == client:
            return False
        return self.selector is None or self.selector.matches(message.lookup)

    def offer(self, message: Message, client: str = "") -> None:
        """Put a client's message into the queue if it is admitted."""
        if self.admits(message, client):
            self.queue.owner.put(self.queue, message)
