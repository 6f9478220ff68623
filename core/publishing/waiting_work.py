# Compiled by mypyc: see setup.py.
"""WaitingWork: messages that wait until they may be published, in the order they came.

A producer whose message finds its queue full (`full_policy = "block"`) waits for the queue. A
producer that finds a gate shut waits for the gate, and one whose topic is held for the topic. So
does a commit. When the queue has lost a message, or may hold more, the gate opens, or the topic is
free, the oldest piece of work is tried again, as a whole. It may then wait for something else.

When a queue or a gate gets room it only calls `free`, and tries nothing itself: it may be in the
middle of a change, and must not get a new message then. The broker retries between dispatches.

Ten thousand producers may wait for one queue, and all of them may go at once. So a session's own
work is found without a look at that of others, and work is tried again in portions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from covey.core.errors import BrokerError
from covey.core.host.topic import Topic
from covey.core.queue.queue import Queue
from covey.core.storage.overload import Gate

if TYPE_CHECKING:
    from covey.core.model.message import Message
    from covey.core.naming.destination import Destination
    from covey.core.session import Session

Send = tuple[tuple["Destination", ...], "Message"]
Obstacle = Queue | Gate | Topic


ANY: Final = 1 << 60  # queues


class Needs:
    """How much room messages that are published together need, queue by queue."""

    __slots__ = ("counts", "held", "is_persistent", "is_wide", "retained", "sizes", "topic_max")

    def __init__(self, topic_max: int = ANY) -> None:
        self.topic_max = topic_max  # queues that a topic may fill at once
        self.is_wide = False  # a topic on their way fills more
        self.counts: dict[Queue, int] = {}
        self.sizes: dict[Queue, int] = {}
        self.is_persistent = False  # one of the messages is
        self.retained = 0  # bytes that topics keep of them for later subscribers
        self.held: Topic | None = None  # a topic on their way that can take no message now

    def add(self, queue: Queue, count: int, size: int) -> None:
        """Add to what is needed of a queue."""
        self.counts[queue] = self.counts.get(queue, 0) + count
        self.sizes[queue] = self.sizes.get(queue, 0) + size

    def forget_ended(self) -> None:
        """Forget the queues that were deleted meanwhile."""
        for queue in [each for each in self.counts if each.is_ended]:
            del self.counts[queue]
            del self.sizes[queue]


class Work:
    """Messages to be published all together, and what to call then."""

    __slots__ = (
        "done",
        "is_long",
        "is_ours",
        "is_passed",
        "needs",
        "refused",
        "sends",
        "session",
        "taken",
        "told",
    )

    def __init__(
        self,
        session: Session,
        sends: list[Send],
        done: Callable[[], None] | None = None,
        refused: Callable[[], None] | None = None,
        taken: Callable[[], None] | None = None,
        *,
        is_ours: bool = False,
        needs: Needs | None = None,
        is_passed: Callable[[], bool] | None = None,
        told: Callable[[BrokerError], None] | None = None,
    ) -> None:
        self.told = told  # told why it is refused, if it was begun; else its session is kicked
        self.needs = needs  # if given, the caller has weighed the messages, and puts them itself
        self.is_ours = is_ours  # an answer of the broker itself: no gate keeps it back
        self.session = session
        self.sends = sends
        self.taken = taken  # called in the turn that takes the work: its changes join the batch
        self.done = done  # called once all of the work is safe
        self.refused = refused  # called if the work is refused after it had to wait
        self.is_long = False  # found out when it was weighed: it is to be done in portions
        self.is_passed = is_passed  # returns True if the same work was done before


TRIED_AT_ONCE: Final = 100  # pieces of work, before others have their turn


class WaitingLine:
    """The work that waits for one obstacle, in the order it came; any of it may go at once."""

    __slots__ = ("obstacle", "works")

    def __init__(self, obstacle: Obstacle) -> None:
        self.obstacle = obstacle
        self.works: OrderedDict[Work, None] = OrderedDict()


class WaitingWork:
    """Which work waits for which queue, gate or topic."""

    def __init__(self, opened: list[Gate]) -> None:
        """Begin with none; `opened` has the gates that have opened since the last retry."""
        self.lines: dict[Obstacle, WaitingLine] = {}
        self._places: dict[Session, dict[Work, WaitingLine]] = {}  # where each one's work waits
        self.freed: dict[Obstacle, None] = {}  # those that may have room now for work that waits
        self._opened = opened

    def add(self, obstacle: Obstacle, work: Work) -> None:
        """Let a piece of work wait for a queue, a gate or a topic."""
        line = self.lines.get(obstacle)
        if line is None:
            line = self.lines[obstacle] = WaitingLine(obstacle)
        self._put(work, line)
        obstacle.is_awaited = True

    def free(self, obstacle: Obstacle) -> None:
        """Called when a queue has more room or is gone, a gate has opened, or a topic is free."""
        if obstacle in self.lines:
            self.freed[obstacle] = None

    @property
    def is_due(self) -> bool:
        """Return True if a queue or a gate that work waits for was freed."""
        return bool(self.freed or self._opened)

    def sessions(self) -> list[Session]:
        """Return the sessions whose work waits."""
        return list(self._places)

    def retry(self, attempt: Callable[[Work], Obstacle | None]) -> None:
        """Try the work behind each freed queue or gate, oldest first, until one finds no room.

        `attempt` returns what stands in the way, None if the work was done or refused. After
        `TRIED_AT_ONCE` pieces of work the rest is still due.
        """
        left = TRIED_AT_ONCE
        while left > 0 and self.is_due:
            while self._opened:
                self.free(self._opened.pop(0))
            if not self.freed:
                return
            obstacle = next(iter(self.freed))
            del self.freed[obstacle]
            left = self._retry(obstacle, attempt, left)

    def forget(self, session: Session) -> list[Work]:
        """Drop and return the work of a session that ended; work behind it may go on."""
        places = self._places.pop(session, {})
        for work, line in places.items():
            del line.works[work]
            obstacle = line.obstacle
            if self.lines.get(obstacle) is not line:
                continue  # it is being tried just now
            if line.works:
                self.freed[obstacle] = None
            else:
                del self.lines[obstacle]
                self.freed.pop(obstacle, None)
                obstacle.is_awaited = False
        return list(places)

    def _retry(
        self, obstacle: Obstacle, attempt: Callable[[Work], Obstacle | None], left: int
    ) -> int:
        """Try the work behind one obstacle; return how much more may be tried."""
        line = self.lines.pop(obstacle, None)
        obstacle.is_awaited = False
        if line is None:
            return left
        found: Obstacle | None = None
        while line.works and left > 0:
            left -= 1
            work = next(iter(line.works))
            found = attempt(work)
            if found is obstacle:
                break
            if work in line.works:  # else its session has ended meanwhile
                self._take(work, line)
                if found is not None:
                    self.add(found, work)
        if line.works:
            newer = self.lines.get(obstacle)
            for work in [] if newer is None else list(newer.works):
                self._put(work, line)
            self.lines[obstacle] = line
            obstacle.is_awaited = True
            if found is not obstacle:
                self.freed[obstacle] = None
        return left

    def _put(self, work: Work, line: WaitingLine) -> None:
        line.works[work] = None
        self._places.setdefault(work.session, {})[work] = line

    def _take(self, work: Work, line: WaitingLine) -> None:
        del line.works[work]
        places = self._places[work.session]
        del places[work]
        if not places:
            del self._places[work.session]
