"""Schedule: which of the messages that a worker holds may run now.

This is a pure state machine, without a connection or a clock. Each group has a lane. The messages
of one lane run one after the other (or a batch at a time). Messages of different lanes run at the
same time, up to `concurrency`. A message without a group has a lane of its own.

**Giving back.** When a message fails, the broker must get it back before the later messages of its
group. So the worker first refuses the failed message, then releases all that wait behind it in its
lane. Until the broker confirms that (`confirmed`), messages of the group may still come that the
broker sent before. They would overtake the failed one, so they are given back as well. But a
message that was given back in this round can only come after the broker took it back. So it may
wait in the lane. No message of the lane runs before all is confirmed.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

from covey.worker.message import Message

TROUBLED_MAX: Final = 10_000  # groups whose failures are remembered

Key = tuple[str, str | None, int]  # destination, group, and the number of a message without a group


class Lane:
    """The messages of one group that this worker holds and has not begun."""

    __slots__ = ("barriers", "given", "is_busy", "is_revoked", "key", "waiting")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.waiting: deque[Message] = deque()
        self.is_busy = False  # one of its jobs runs, or waits for its back-off
        self.is_revoked = False  # the group moves to another consumer
        self.barriers = 0  # awaited confirmations of the broker
        self.given: set[int] = set()  # numbers given back in this round that did not come again

    @property
    def may_run(self) -> bool:
        """Return True if its next message may run."""
        return bool(self.waiting) and not self.is_busy and not self.barriers


class Job:
    """The messages of one call of the handler."""

    __slots__ = ("lane", "messages")

    def __init__(self, lane: Lane, messages: list[Message]) -> None:
        self.lane = lane
        self.messages = messages


class Troubles:
    """Counts the failures in a row of each group, or of a message without one.

    The oldest counts are forgotten. After a batch has failed, it also knows up to which number the
    group's messages must run one by one.
    """

    def __init__(self, count_max: int = TROUBLED_MAX) -> None:
        self.count_max = count_max
        self._known: OrderedDict[Key, tuple[int, int]] = OrderedDict()

    def failures(self, key: Key) -> int:
        """Return the failures in a row."""
        return self._known.get(key, (0, 0))[0]

    def note(self, key: Key, single_until: int = 0) -> int:
        """Count a failure; return the number of failures in a row."""
        count, until = self._known.pop(key, (0, 0))
        self._known[key] = (count + 1, max(until, single_until))
        if len(self._known) > self.count_max:
            self._known.popitem(last=False)
        return count + 1

    def clear(self, key: Key, sequence: int) -> None:
        """Note that messages up to this number were handled without a failure."""
        if not self._known or key not in self._known:
            return
        _, until = self._known[key]
        if sequence >= until:
            del self._known[key]
        else:
            self._known[key] = (0, until)

    def is_single(self, key: Key, sequence: int) -> bool:
        """Return True if a message must run alone."""
        known = self._known.get(key)
        return known is not None and sequence <= known[1]


class Schedule:
    """All lanes of one subscription."""

    def __init__(self, concurrency: int, batch: int, troubles: Troubles) -> None:
        """Run at most `concurrency` jobs at a time, each of at most `batch` messages."""
        self.concurrency = concurrency
        self.batch = batch
        self.troubles = troubles
        self.running = 0
        self._lanes: dict[Key, Lane] = {}
        self._ready: deque[Lane] = deque()

    @property
    def missing(self) -> int:
        """How many more jobs are wanted: each handler should have one running and one ready."""
        return max(0, 2 * self.concurrency - self.running - len(self._ready))

    @property
    def is_idle(self) -> bool:
        """Return True if nothing runs and nothing waits."""
        return not self._lanes

    def add(self, message: Message) -> Lane | None:
        """Take a message; if it must be given back at once, return its lane."""
        number = 0 if message.group else message.sequence
        key = (message.destination, message.group, number)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key)
        if lane.barriers and message.sequence not in lane.given:
            self._give(lane, [message])
            return lane
        lane.given.discard(message.sequence)
        lane.waiting.append(message)
        if lane.may_run and len(lane.waiting) == 1:
            self._ready.append(lane)
        return None

    def next(self) -> Job | None:
        """Start the next job; None if none may run now."""
        while self._ready and self.running < self.concurrency:
            lane = self._ready.popleft()
            if not lane.may_run:
                continue
            waiting = lane.waiting
            messages = [waiting.popleft()]
            if self.batch > 1 and not self.troubles.is_single(lane.key, messages[0].sequence):
                while waiting and len(messages) < self.batch:
                    messages.append(waiting.popleft())
            lane.is_busy = True
            self.running += 1
            return Job(lane, messages)
        return None

    def finish(self, job: Job) -> list[Message]:
        """End a job whose messages are settled for good; return what is to be released after it."""
        self.running -= 1
        lane = job.lane
        behind: list[Message] = []
        if lane.is_revoked and lane.waiting and not lane.barriers:
            behind = self._taken_back(lane)
        self._free(lane)
        return behind

    def suspend(self, job: Job) -> None:
        """End the run of a failed job; its lane stays busy until `give_back`."""
        self.running -= 1

    def give_back(self, job: Job) -> list[Message]:
        """End a suspended job; return the messages behind it, to be released after it."""
        lane = job.lane
        behind = list(lane.waiting)
        lane.waiting.clear()
        lane.given.clear()  # earlier ones may come again before this is confirmed
        self._give(lane, [*job.messages, *behind])
        lane.is_busy = False
        return behind

    def revoke(self, destination: str | None, group: str) -> list[tuple[Lane, list[Message]]]:
        """Return the waiting messages of a group that moves away, to be released.

        Those behind a handler that runs are released when it ends: the group cannot move before.
        If the group is gone because that handler took too long, the worker should not look alive.
        """
        found = []
        for lane in list(self._lanes.values()):
            is_meant = lane.key[1] == group and destination in (None, lane.key[0])
            if is_meant:
                lane.is_revoked = True
            if is_meant and lane.waiting and not lane.barriers and not lane.is_busy:
                found.append((lane, self._taken_back(lane)))
        return found

    def _taken_back(self, lane: Lane) -> list[Message]:
        behind = list(lane.waiting)
        lane.waiting.clear()
        self._give(lane, behind)
        return behind

    def confirmed(self, lane: Lane) -> None:
        """Note that the broker has taken back the messages that were given back."""
        lane.barriers -= 1
        if not lane.barriers:
            lane.given.clear()
            if not lane.is_busy:
                self._free(lane)

    def _give(self, lane: Lane, messages: list[Message]) -> None:
        lane.barriers += 1
        lane.given.update([message.sequence for message in messages])

    def _free(self, lane: Lane) -> None:
        lane.is_busy = False
        if lane.may_run:
            self._ready.append(lane)
        elif not lane.waiting and not lane.barriers:
            self._lanes.pop(lane.key, None)
