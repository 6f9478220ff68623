# Compiled by mypyc: see setup.py.
"""Job: work that may be long, done in portions, so that nobody else waits for it.

A job says what it does (`verb`, `target`), for whom (`session`, None: the broker itself), and how
far it is (`done` of `total`). Its `steps` is a generator. It does a small piece of the work, yields
how many items that was, and goes on from there. What it works on may have changed between two
portions. So `steps` looks things up again after each yield.

- The first portion is done at once (`Jobs.begin`). So short work is done in the same turn as ever,
  and nobody sees that it is a job.
- Then each turn of the event loop does one portion of each job, as far as the time lasts. A portion
  ends after `work_portion` items or `work_portion_ms`, whichever is first.
- If `steps` cannot go on yet, it yields `WAIT`. The portion ends then, and the job *rests*: it is
  tried again in later turns, but asks for no turn itself.
- `then` calls back when the whole job is done, in the turn of the last portion.
- A session may have to wait for its job (`is_waited_for`): the client's next frame may ask for what
  the job changes. Heart-beats go on, and all other sessions do.
- A job that is stopped does no more portions. `ended` is called either way, once.
- What a portion changes in the store counts as changed by its session (`JobKeeper`). So an answer
  that waits for the disk waits for all portions.

The core has no clock that runs within a turn. The server gives a stopwatch. Without one, as in a
test, only the number of items limits a portion.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from covey.core.clock import Clock
from covey.core.errors import BrokerError, RefusedError

if TYPE_CHECKING:
    from covey.core.session import Session

Steps = Iterator[int]  # how many items each piece of the work was

WAIT: Final = -1  # yielded by steps that cannot go on yet
LOOK_EVERY: Final = 16  # items between two looks at the stopwatch
FAR: Final = 1e18  # a time that never comes


@mypyc_attr(allow_interpreted_subclasses=True)
class Job(ABC):
    """One piece of long work."""

    def __init__(self, verb: str, target: str, session: Session | None, total: int) -> None:
        """Begin with nothing done; `total` is a good guess of the items there are."""
        self.verb = verb
        self.target = target
        self.session = session
        self.total = total
        self.done = 0
        self.number = 0  # given when the job needs a second portion
        self.begun_at = 0.0
        self.now = 0.0  # the time of the portion that is being done
        self.is_over = False
        self.is_resting = False  # it waits for something, and is tried again in later turns
        self.is_waited_for = False
        self.outlives_session = True  # False: it is stopped when its session goes
        self.is_stoppable = False  # by an operator: what is done stays done
        self._steps: Steps | None = None
        self._followers: list[Callable[[], None]] = []

    @abstractmethod
    def steps(self) -> Steps:
        """Do the work piece by piece; yield how many items each piece was."""

    def ended(self) -> None:  # noqa: B027 - most jobs leave nothing to put in order
        """Called when the last step is done or the job was stopped, before those of `then`."""

    def then(self, call: Callable[[], None]) -> None:
        """Call back when the job is over; at once if it is over already."""
        if self.is_over:
            call()
        else:
            self._followers.append(call)

    @property
    def left(self) -> int:
        """Return how many items are still to be done, as far as is known."""
        return max(0, self.total - self.done)

    def advance(self, items: int, stopwatch: Callable[[], float] | None, deadline: float) -> bool:
        """Do a portion; True: that was the last."""
        if self._steps is None:
            self._steps = self.steps()
        done = 0
        looked = 0
        self.is_resting = False
        for count in self._steps:
            if count == WAIT:
                self.is_resting = True
                self.done += done
                return False
            done += count
            if done >= items:
                self.done += done
                return False
            if stopwatch is not None and done - looked >= LOOK_EVERY:
                looked = done
                if stopwatch() >= deadline:
                    self.done += done
                    return False
        self.done += done
        return True

    def finish(self) -> None:
        """End the job, and call back those who wait for its end."""
        self.is_over = True
        self._steps = None
        self.ended()
        followers, self._followers = self._followers, []
        for call in followers:
            call()


@mypyc_attr(allow_interpreted_subclasses=True)
class JobKeeper(ABC):
    """What jobs need from the broker."""

    @abstractmethod
    def claim(self, session: Session, *, is_over: bool) -> None:
        """Let the session's answers wait until what was just changed for it is on disk."""

    @abstractmethod
    def wake(self) -> None:
        """Ask for another turn, in which the next portion is done."""


class Jobs:
    """The jobs that are under way, and whose turn it is."""

    def __init__(
        self, clock: Clock, keeper: JobKeeper, stopwatch: Callable[[], float] | None = None
    ) -> None:
        """Begin with none; the stopwatch gives seconds, and runs within a turn."""
        self.portion = 1000
        self.portion_s = 0.005
        self.pending_max = 1_000_000
        self.last_done = ""  # the job of the last portion, in words for people
        self.finished = 0  # jobs that are over, of those with more than one portion
        self._clock = clock
        self._keeper = keeper
        self._stopwatch = stopwatch
        self._line: deque[Job] = deque()  # the next one first
        self._numbers = 0

    def allow(self, portion: int, portion_ms: float, pending_max: int) -> None:
        """Use other limits from now on."""
        self.portion = portion
        self.portion_s = portion_ms / 1000
        self.pending_max = pending_max

    @property
    def is_any(self) -> bool:
        """Return True if there is a portion to do."""
        return bool(self._line)

    @property
    def is_busy(self) -> bool:
        """Return True if some job can go on now; a resting job cannot."""
        return any([not job.is_resting for job in self._line])

    def running(self) -> list[Job]:
        """Return the jobs that are under way, the oldest first."""
        return sorted([job for job in self._line if not job.is_over], key=_by_number)

    def check(self, session: Session, items: int) -> None:
        """Raise RefusedError if a session may not have so much more work under way."""
        pending = sum([job.left for job in self._line if job.session is session])
        if pending + items > self.pending_max:
            raise RefusedError(
                f"{pending} items of work are under way for the connection, {items} more are above"
                f" the {self.pending_max} that session_work_max allows",
                "limit",
            )

    def begin(self, job: Job, *, is_waited_for: bool = False) -> None:
        """Do the first portion now, and the others in later turns.

        With `is_waited_for` the session's protocol must hand in nothing until the job is over.
        """
        job.begun_at = job.now = self._clock.now
        try:
            is_over = job.advance(self.portion, self._stopwatch, self._deadline())
        except BaseException:
            job.is_over = True
            job.ended()  # or what it holds up would wait for ever
            raise
        if is_over:
            job.finish()
            return
        self._numbers += 1
        job.number = self._numbers
        self._line.append(job)
        if is_waited_for and job.session is not None:
            job.is_waited_for = True
            job.session.begin_work()
        self._keeper.wake()

    def run(self) -> None:
        """Do a portion of one job after the other, until the time of a portion is over."""
        deadline = self._deadline()
        for _ in range(len(self._line)):
            job = self._line.popleft()
            if not job.is_over and not self._advance(job, deadline):
                self._line.append(job)
            if self._stopwatch is not None and self._stopwatch() >= deadline:
                break

    def rouse(self) -> None:
        """Have all resting jobs tried again soon: what some of them wait for may be there."""
        for job in self._line:
            job.is_resting = False

    def complete(self, job: Job) -> None:
        """Do all that is left of a job now: for a test, and for an end that cannot wait."""
        while not job.is_over:
            self._advance(job, FAR)

    def stop(self, job: Job) -> None:
        """Do no more of a job."""
        if not job.is_over:
            self._over(job)

    def of(self, session: Session) -> list[Job]:
        """Return what a session has under way."""
        return [job for job in self._line if job.session is session and not job.is_over]

    def _advance(self, job: Job, deadline: float) -> bool:
        job.now = self._clock.now
        self.last_done = f"{job.verb} {job.target}"
        try:
            is_over = job.advance(self.portion, self._stopwatch, deadline)
        except BrokerError as error:
            self._over(job)
            if job.session is not None:
                job.session.kick(f"{job.verb} {job.target}: {error.text}")
            return True
        except BaseException:
            self._over(job)  # whoever waits for it must not wait for ever
            raise
        if is_over:
            self._over(job)
        elif job.session is not None:
            self._keeper.claim(job.session, is_over=False)
        return is_over

    def _over(self, job: Job) -> None:
        self.finished += 1
        session = job.session
        if session is not None:
            self._keeper.claim(session, is_over=True)
        job.finish()
        if session is not None and job.is_waited_for:
            session.end_work()

    def _deadline(self) -> float:
        return FAR if self._stopwatch is None else self._stopwatch() + self.portion_s


def _by_number(job: Job) -> int:
    return job.number
