# Compiled by mypyc: see setup.py.
"""Consumer: one reader of one queue, the credit it has, and what it reads from.

A protocol subclasses `Consumer` and implements `deliver`, which may only append to an outbox.
`deliver` must never call back into the core, since it runs in the middle of a dispatch. A group's
owner is known by the object, or by its number, which is never used twice. An owner is never known
by a name: two links may share a name.

`Window` holds the two credit windows of the Apollo STOMP manual. Delivery goes on while either is
above zero, so each may become negative. One STOMP subscription to several queues has one window and
a consumer in each queue. There may be very many such consumers. So a window that opens tells only
those that had a message to send and found it closed (`stalled`). It tells a few at a time, since
the first of them may use up the credit.

`Source` is what a consumer reads from: a queue, or a topic subscription's feed. Both hand out
entries, have them settled, and are told when a consumer's credit has changed. Protocols settle
through this interface and need not know which of the two it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from covey.core.model.entry import ACCEPTED

if TYPE_CHECKING:
    from covey.core.dispatch.browsing import ReadAhead
    from covey.core.dispatch.lane import Lane
    from covey.core.dispatch.view import View
    from covey.core.host.feed import Fan
    from covey.core.model.entry import Entry, Outcome
    from covey.core.selector import Selector
    from covey.core.session import Session


TOLD_AT_A_TIME: Final = 32  # so many consumers hear at once that their window has opened
NO_CLOCKS: Final[dict[int, float]] = {}  # shared by all that need none, and never changed
CREDIT_MAX: Final = 2**53  # far above any real window: sums stay exact integers everywhere


class Window:
    """Credit by messages and by content bytes; `is_paused` while the peer's outbox is full."""

    __slots__ = ("browsing", "consumers", "count", "is_automatic", "is_paused", "size", "stalled")

    def __init__(self, count: int, size: int = 0, *, is_automatic: bool = False) -> None:
        self.count = count
        self.size = size
        self.is_automatic = is_automatic  # credit is not counted: only a full outbox stops delivery
        self.is_paused = False
        self.browsing = 0  # browsers that have not seen the end of their queue yet
        self.consumers: dict[Consumer, None] = {}  # an ordered set: there may be very many
        self.stalled: dict[Consumer, None] = {}  # had a message, and found the window closed

    def is_open(self) -> bool:
        """Return True if another message may be sent."""
        return not self.is_paused and self.has_credit()

    def has_credit(self) -> bool:
        """Return True if the peer wants another message, whether its outbox is full or not."""
        return self.is_automatic or self.count > 0 or self.size > 0

    def grant(self, count: int, size: int) -> None:
        """Raise the windows, and let the consumers that waited for credit go on."""
        was_open = self.count > 0 or self.size > 0
        count += self.count
        size += self.size
        self.count = count if count < CREDIT_MAX else CREDIT_MAX
        self.size = size if size < CREDIT_MAX else CREDIT_MAX
        if not was_open:
            self.reconsider()

    def reconsider(self) -> None:
        """Tell the queues behind this window that it may have opened, a few at a time."""
        told = 0
        while self.stalled and self.is_open():
            consumer = next(iter(self.stalled))
            queue = consumer.queue
            if told == TOLD_AT_A_TIME and queue is not None:
                queue.tell_later(self)
                return
            del self.stalled[consumer]
            if queue is not None:
                told += 1
                queue.credit_changed(consumer)

    def stall(self, consumer: Consumer) -> None:
        """Note that a consumer must be told when the window opens, if the window is closed.

        A consumer may also wait because it holds all it may hold. It gets more when it settles.
        """
        if not self.is_open():
            self.stalled[consumer] = None

    def leave(self, consumer: Consumer) -> None:
        """Forget a consumer."""
        self.consumers.pop(consumer, None)
        if consumer.is_browser and consumer.browse_ends:
            self.browsing -= 1
        self.stalled.pop(consumer, None)


@mypyc_attr(allow_interpreted_subclasses=True)
class Consumer(ABC):
    """A reader: what it wants, what it holds, and where it stands in its queue's lists.

    A subscription by pattern may have tens of thousands. So nothing is made ahead that can be made
    when it is needed.
    """

    __slots__ = (
        "browse_ends",
        "client_id",
        "clock_from",
        "clocks",
        "cursor",
        "deadline_asked",
        "deadline_s",
        "delivered",
        "from_seq",
        "group",
        "group_asked",
        "heeds_holders",
        "id",
        "is_barred",
        "is_browser",
        "is_exclusive",
        "is_gone",
        "is_no_local",
        "is_overdue",
        "is_presettled",
        "is_retiring",
        "is_timed",
        "joined_at",
        "lanes",
        "last_assigned",
        "line_load",
        "name",
        "places",
        "priority",
        "queue",
        "read_ahead",
        "ready",
        "sees_acquired",
        "selector",
        "served",
        "session",
        "unsettled",
        "unsettled_max",
        "view",
        "wants_revoked",
        "weight",
        "window",
    )

    def __init__(self, session: Session, window: Window) -> None:
        self.id = 0  # given by the queue when it joins
        self.session = session
        self.window = window
        self.queue: Source | None = None
        self.name = ""  # subscription id or link name, for people
        self.client_id = ""  # stays the same over reconnects, for sticky return; "" = none
        # What it asks for.
        self.selector: Selector | None = None
        self.from_seq = 0
        self.is_exclusive = False
        self.is_presettled = False  # a delivery is settled as it is sent
        self.is_no_local = False
        self.wants_revoked = False
        self.priority = 0
        self.weight = 1
        self.unsettled_max = 100_000
        self.deadline_asked = -1.0  # seconds it may hold a message; below 0: as its queue says
        self.group_asked = ""  # the one group it wants, or `NEXT`; see `core.dispatch.claims`
        # Browsers only look: they own nothing and keep a number as their cursor.
        self.is_browser = False
        self.browse_ends = True
        self.sees_acquired = True
        self.heeds_holders = False  # with shared groups it sees only what nobody has acquired
        self.cursor = 0
        self.read_ahead: ReadAhead | None = None
        # Kept by the queue.
        self.view: View | None = None
        self.unsettled: dict[int, Entry] = {}
        self.lanes: dict[Lane, None] = {}  # those it owns, as an ordered set
        self.group = ""  # the group it has claimed
        self.ready: list[int] = []  # heap: heads only this consumer may take
        self.is_gone = False
        self.is_overdue = False  # it held a message for too long: it gets none until it settles one
        self.is_barred = False  # gone or overdue
        self.deadline_s = 0.0  # how long it may hold a message; 0 = for ever
        self.clocks = NO_CLOCKS  # when it got which message; its own once it has a deadline
        self.clock_from = 0.0  # when it last settled something
        self.is_timed = False  # it is in the heap of its queue's `Deadlines`
        self.is_retiring = False  # keeps its groups until they are empty, takes no new ones
        self.joined_at = 0.0
        self.delivered = 0
        self.served = 0.0  # deliveries per weight, for fairness in the ungrouped line
        self.last_assigned = 0
        self.line_load = 0  # how many groups it had when it got its place in the lane line
        self.places = [0, 0]  # its valid place in the lane line and the ungrouped line

    @abstractmethod
    def deliver(self, entry: Entry) -> None:
        """Put the message into the peer's outbox. Must not call back into the core."""

    def deliver_fan(self, fan: Fan) -> None:
        """Put messages of a topic into the outbox, all settled as they are sent."""
        for entry in fan.entries():
            self.deliver(entry)

    def browse_ended(self) -> None:  # noqa: B027 - only protocols with an end-of-browse word act
        """Called when a browser has seen the last message."""

    def revoked(self, group: str) -> None:  # noqa: B027 - opt-in per subscription
        """Called when a group this consumer owned is no longer its own."""

    def group_done(self, group: str) -> None:  # noqa: B027 - only those that ask for one group
        """Called between dispatches when the one group of this consumer has no message left.

        The consumer gets nothing more, and ends its subscription.
        """

    def cancelled(self, reason: str) -> None:  # noqa: B027 - a test's consumer need not care
        """Called when this consumer's queue is gone."""

    def ran_out(self, entries: list[Entry]) -> None:  # noqa: B027 - a test's need not care
        """Called when messages that this consumer held for too long have gone back.

        If the peer settles these deliveries later, that is too late and changes nothing.
        """

    def drained(self) -> None:  # noqa: B027 - only AMQP asks for a drain
        """Called when nothing more can come for the credit given (AMQP drain)."""

    def is_willing(self) -> bool:
        """Return True if the consumer can take a message now."""
        window = self.window  # `is_open` written out: asked several times a message
        return (
            (window.count > 0 or window.is_automatic or window.size > 0)
            and not window.is_paused
            and not self.is_barred
            and len(self.unsettled) < self.unsettled_max
        )


class Source(ABC):
    """A queue or a feed, as its consumer sees it."""

    name: str

    @abstractmethod
    def settle(self, entry: Entry, outcome: Outcome, now: float, reason: str = "") -> None:
        """Settle an acquired entry; ignore an entry that is settled already.

        `reason` is the consumer's reason for a rejection: the dead letter shows it.
        """

    def accept(self, consumer: Consumer, entries: Sequence[Entry], now: float) -> None:
        """Settle entries that a consumer has accepted: clients acknowledge many at once."""
        for entry in entries:
            self.settle(entry, ACCEPTED, now)

    def heard(self, consumer: Consumer, now: float) -> None:  # noqa: B027 - a feed never waits
        """Called when a consumer is at work: it has settled something, in time or late."""

    def heard_late(self, consumer: Consumer, seq: int, now: float) -> None:
        """Called when a consumer settles a message that it had lost for holding it too long."""
        self.heard(consumer, now)

    def record(self, kind: int, entry: Entry) -> None:  # noqa: B027 - a feed has no events
        """Report an event of one entry, if anybody listens."""

    @abstractmethod
    def settled(self, entry: Entry) -> None:
        """Remove an entry that was settled as it was sent."""

    @abstractmethod
    def credit_changed(self, consumer: Consumer) -> None:
        """Called when the consumer's window opened."""

    def tell_later(self, window: Window) -> None:  # noqa: B027 - a feed is alone behind its window
        """Have the window tell more consumers, once those told before have had their turn."""

    def leave(self, consumer: Consumer, now: float, *, counted: bool = True) -> None:
        """Let the consumer go; what it held returns."""
        for _ in self.leaving(consumer, now, counted=counted):
            pass

    @abstractmethod
    def leaving(self, consumer: Consumer, now: float, *, counted: bool = True) -> Iterator[int]:
        """Let the consumer go step by step, as a job does; yield how many items each step was."""
