# Compiled by mypyc: see setup.py.
"""Transfer: jobs by which an operator moves, drops, buries or retries some messages of a queue.

    move          puts them at the end of another queue
    purge         drops them
    dead-letter   puts them into the queue's own dead-letter queue, with a reason
    retry         puts dead letters back, each into the queue that it came from

Which messages: all of one group (`Group`), those with some numbers (`Numbered`), or all dead
letters that match (`Letters`). Only messages are taken that were there when the command came, and
that nobody holds. They go in order. A message is removed and put in one turn, so both are in one
batch of the store: a message is never lost and never in both queues. After a kill the first ones
have gone, and all others are still in their queue.

While a group is worked on, none of its messages is delivered, and the group's state tells operators
why. Other groups go on. Messages of the group that somebody holds are left alone, and counted. With
`waits` the work begins only when all of these are settled or have come back.

If the target is full, `full_policy = "block"` makes the work wait; with another policy the work
ends there and says so. Nothing is dropped for a message that an operator moves. The work also
waits while a body is read from the store, while the disk is short of room, and for a message that
is still being written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from mypy_extensions import mypyc_attr

from covey.core.dispatch.lane import Lane
from covey.core.errors import RefusedError
from covey.core.events.event import EventKind
from covey.core.jobs.job import WAIT, Job, Steps
from covey.core.model.entry import ACQUIRED, STORING, Entry
from covey.core.model.message import Message
from covey.core.publishing.arrivals import Arrivals
from covey.core.queue.queue import Queue
from covey.core.queue.quota import has_room

if TYPE_CHECKING:
    from covey.core.selector import Selector
    from covey.core.session import Session

READ_AHEAD: Final = 100  # bodies that are asked for together


@mypyc_attr(allow_interpreted_subclasses=True)
class Choice(ABC):
    """Which messages of a queue are chosen, one after the other."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.held = 0  # chosen messages that are left alone, as somebody holds them

    def begin(self) -> bool:
        """Get ready; False: it is not ready yet, call again later."""
        return True

    @abstractmethod
    def following(self) -> Entry | None:
        """Return the next message, which may still be on its way to the disk; None: no more.

        The same message is returned until it is gone, or was passed by.
        """

    @abstractmethod
    def pass_by(self, entry: Entry) -> None:
        """Leave a message where it is, and go on with the next."""

    def means(self, entry: Entry) -> bool:
        """Return True if the message is chosen, and nobody holds it."""
        return True

    def ahead(self) -> list[Entry]:
        """Return the messages whose bodies will be needed soon, if that is known."""
        return []

    def end(self) -> None:  # noqa: B027 - only a group is held
        """Release what was stopped for the work."""


class Group(Choice):
    """All messages of one group, in order."""

    def __init__(
        self, queue: Queue, group: str, *, waits: bool = False, is_seized: bool = False
    ) -> None:
        """Seize the group; `is_seized` says that it was seized for this work already."""
        super().__init__(queue)
        self.lane: Lane | None = queue.state.lanes.get(group)
        self._last = queue.next_seq - 1
        self._waits = waits
        # Numbers of messages that had come back at the beginning. What comes back later was held
        # then, and is left alone: nothing of a seized group goes out.
        self._returned: deque[int] = deque()
        self._has_begun = False
        if self.lane is not None:
            if queue.placement.is_seized(self.lane) and not is_seized:
                raise RefusedError(
                    f"queue {queue.name}: another command works on group {group}", "conflict"
                )
            queue.placement.seize(self.lane)

    def begin(self) -> bool:
        """Wait for held messages, if that is wanted; else count them."""
        lane = self.lane
        if self._has_begun or lane is None:
            return True
        if self._waits and lane.unsettled and not self.queue.is_ended:
            return False
        self._has_begun = True
        self.held = lane.unsettled
        if lane.back is not None:
            self._returned = deque(sorted(lane.back))
        return True

    def following(self) -> Entry | None:
        """Return the oldest of the lane's line, of the returned ones, and of those set aside."""
        lane = self.lane
        if lane is None:
            return None
        index = self.queue.state.index
        found = lane.first_living(index)
        aside = None if lane.aside is None else index.get(lane.aside.first())
        for other in (self._next_returned(), aside):
            if other is not None and (found is None or other.seq < found.seq):
                found = other
        return found if found is not None and found.seq <= self._last else None

    def pass_by(self, entry: Entry) -> None:
        """End the work: the order of a group forbids to skip a message that cannot go."""
        self._last = 0
        self._returned.clear()

    def ahead(self) -> list[Entry]:
        """Return the next messages of the group, as far as that is simple."""
        entry = self.following()
        if entry is None or self.lane is None:
            return []
        return self.lane.ahead(entry, self.queue.state.index, READ_AHEAD)

    def end(self) -> None:
        """Let the group go on."""
        if self.lane is not None:
            self.queue.placement.release(self.lane)
            self.queue.mark()

    def _next_returned(self) -> Entry | None:
        while self._returned:
            entry = self.queue.state.index.get(self._returned[0])
            if entry is not None and entry.state != ACQUIRED and entry.lane is self.lane:
                return entry
            self._returned.popleft()
        return None


class Numbered(Choice):
    """The messages with some numbers, in ascending order."""

    def __init__(self, queue: Queue, numbers: Sequence[int]) -> None:
        super().__init__(queue)
        self._left = deque(sorted(set(numbers)))
        self.missing = 0  # numbers that no message has

    def following(self) -> Entry | None:
        """Return the first message that is there and that nobody holds."""
        while self._left:
            entry = self.queue.state.index.get(self._left[0])
            if entry is not None and entry.state != ACQUIRED:
                return entry
            self.held += entry is not None
            self.missing += entry is None
            self._left.popleft()
        return None

    def pass_by(self, entry: Entry) -> None:
        """Go on with the next number."""
        self._left.popleft()

    def taken(self) -> None:
        """Called when the first message has gone."""
        self._left.popleft()


class Letters(Choice):
    """All messages that were there; only those of one group if it is named."""

    def __init__(
        self, queue: Queue, group: str = "", selector: Selector | None = None, last: int = 0
    ) -> None:
        super().__init__(queue)
        self.selector = selector
        self.last = min(last or queue.next_seq - 1, queue.next_seq - 1)
        self._group = group
        self._cursor = 0

    def following(self) -> Entry | None:
        """Return the next message in the queue, chosen or not."""
        index = self.queue.state.index
        entry = index.look_from(self._cursor)
        if entry is None or entry.seq > self.last:
            return None
        return index.get(entry.seq) if self.means(entry) else entry

    def means(self, entry: Entry) -> bool:
        """Return True if the message is of the group, and nobody holds it."""
        return entry.state != ACQUIRED and (not self._group or entry.lane.name == self._group)

    def pass_by(self, entry: Entry) -> None:
        """Go on with the message after this one."""
        is_meant = not self._group or entry.lane.name == self._group
        self.held += is_meant and entry.state == ACQUIRED
        self._cursor = entry.seq + 1

    def ahead(self) -> list[Entry]:
        """Return the next messages in the queue, of the group if it is named."""
        found: list[Entry] = []
        index = self.queue.state.index
        entry = index.look_from(self._cursor)
        while entry is not None and entry.seq <= self.last and len(found) < READ_AHEAD:
            if not self._group or entry.lane.name == self._group:
                found.append(entry)
            entry = index.look_from(entry.seq + 1)
        return found


@mypyc_attr(allow_interpreted_subclasses=True)
class Transfer(Job):
    """A command that takes messages out of a queue, one after the other."""

    kind: ClassVar[EventKind] = EventKind.DROP  # the event of a message that is taken out
    needs_body: ClassVar[bool] = True

    def __init__(
        self, verb: str, choice: Choice, session: Session | None, total: int, count_max: int = 0
    ) -> None:
        queue = choice.queue
        super().__init__(verb, f"queue {queue.name}", session, total)
        self.queue = queue
        self.choice = choice
        self.count = 0
        self.count_max = count_max  # 0: all
        self.flaw: RefusedError | None = None  # why the job ended before all were done
        self.is_stoppable = True

    def steps(self) -> Steps:
        """Take one message after the other, the oldest first."""
        queue = self.queue
        choice = self.choice
        while not choice.begin():
            yield WAIT
        while not queue.is_ended and not (0 < self.count_max <= self.count):
            entry = choice.following()
            if entry is None:
                return
            if not choice.means(entry):
                choice.pass_by(entry)
                yield 1
                continue
            if self._must_wait(entry):
                yield WAIT
                continue
            queue.state.turn(self.now)
            try:
                is_done = self.take(entry)
            except RefusedError as error:
                self.flaw = error
                return
            if is_done is None:
                yield WAIT
                continue
            if is_done:
                self._remove(entry)
            else:
                choice.pass_by(entry)
            yield 1

    @abstractmethod
    def take(self, entry: Entry) -> bool | None:
        """Put a message where the command says; False: it stays, None: it has to wait."""

    def ended(self) -> None:
        """Let the queue's group go on."""
        self.choice.end()

    def answer(self, key: str) -> dict[str, int]:
        """Return how many were done and how many were held; raises the flaw, if there is one."""
        if self.flaw is not None:
            text = f"{self.flaw.text}; {self.count} were {key.replace('_', '-')} before"
            raise RefusedError(text, self.flaw.code)
        return {key: self.count, "held": self.choice.held}

    def _must_wait(self, entry: Entry) -> bool:
        """Return True if a message is being written, or its body has to be read first."""
        if entry.state == STORING:
            return True
        if not self.needs_body or entry.message is not None:
            return False
        storage_state = self.queue.storage_state
        wanted = [each.seq for each in self.choice.ahead() if each.message is None] or [entry.seq]
        known = set(storage_state.overdue)
        storage_state.overdue.extend([seq for seq in wanted if seq not in known])
        self.queue.mark()
        return True

    def _remove(self, entry: Entry) -> None:
        self.count += 1
        if entry.lane.is_grouped and entry is entry.lane.first:
            entry.lane.pop(entry, self.queue.state.index)
        counters = self.queue.counters
        if self.kind is EventKind.DROP:
            counters.dropped += 1
        elif self.kind is EventKind.MOVE:
            counters.moved += 1
        else:
            counters.dead += 1
        self.queue.drop(entry, self.kind)
        if isinstance(self.choice, Numbered):
            self.choice.taken()


@mypyc_attr(allow_interpreted_subclasses=True)
class Discard(Transfer):
    """Drop the messages."""

    needs_body: ClassVar[bool] = False

    def take(self, entry: Entry) -> bool | None:
        """Put the message nowhere."""
        return True


class Bury(Transfer):
    """Put the messages into the queue's own dead-letter queue."""

    kind: ClassVar[EventKind] = EventKind.DEAD_LETTER

    def __init__(self, choice: Choice, session: Session | None, total: int, reason: str) -> None:
        super().__init__("dead-letter", choice, session, total)
        self.reason = reason

    def take(self, entry: Entry) -> bool | None:
        """Put the message where the queue's policy says."""
        self.queue.owner.dead_letter(self.queue, entry, self.reason)
        return True


class Move(Transfer):
    """Put the messages at the end of another queue."""

    kind: ClassVar[EventKind] = EventKind.MOVE

    def __init__(
        self,
        choice: Choice,
        session: Session | None,
        total: int,
        arrivals: Arrivals,
        target: Callable[[Message], Queue | None],
        verb: str = "move",
        count_max: int = 0,
    ) -> None:
        """Begin; `target` returns the new queue of a message, None if the message stays."""
        super().__init__(verb, choice, session, total, count_max)
        self.arrivals = arrivals
        self.target_of = target

    def take(self, entry: Entry) -> bool | None:
        """Put the message into its new queue, if there is room."""
        message = entry.content
        choice = self.choice
        selector = choice.selector if isinstance(choice, Letters) else None
        if selector is not None and not selector.matches(message.lookup):
            return False
        queue = self.target_of(message)
        if queue is None or queue is self.queue:
            return False
        overload = self.arrivals.commits.overload
        if overload.is_shut and overload.gate(is_persistent=message.persistent) is not None:
            return None
        if queue.has_quota and not has_room(queue, 1, message.size, drops=False):
            return None
        self.arrivals.put_anyhow(queue, message, entry.lane.name)
        return True
