# Compiled by mypyc: see setup.py.
"""Settling: what a peer decides about a range of deliveries, one delivery after the other.

A range may have a hundred thousand deliveries. What is accepted and settled goes to the core in
rows (`core.queue.acceptance`). Every other outcome is this job's: released, modified, rejected, not
settled yet, or in a transaction. A few need no job, and are settled at once.

The peer's later frames may see the result: a detach returns what was not settled, a discharge
commits what was. So the connection is not read until the job is over (`AmqpEngine.work_on`), and
what came behind in the same read waits. If the connection is lost meanwhile, its links have
returned the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from covey.core.jobs.job import Job, Steps
from covey.protocols.amqp.codec.performatives import MASK
from covey.protocols.amqp.outcomes import State

if TYPE_CHECKING:
    from covey.core.session import Session
    from covey.protocols.amqp.engine import AmqpEngine
    from covey.protocols.amqp.session import Unsettled


AT_ONCE: Final = 64  # deliveries that need no job
ROW: Final = 16  # deliveries settled in one step


class Range:
    """A state that the peer has sent for `count` deliveries from `first` on."""

    __slots__ = ("count", "engine", "first", "found", "is_settled", "numbers", "state", "unsettled")

    def __init__(
        self,
        engine: AmqpEngine,
        unsettled: Unsettled,
        first: int,
        count: int,
        state: State,
        *,
        is_settled: bool,
    ) -> None:
        self.engine = engine
        self.unsettled = unsettled
        self.first = first
        self.count = count
        self.state = state
        self.is_settled = is_settled
        self.numbers = unsettled.within(first, count)
        self.found = 0

    def decide(self, numbers: Sequence[int]) -> None:
        """Tell the links of some of the deliveries."""
        for number in numbers:
            link = self.unsettled.links.get(number)
            if link is not None:
                self.found += 1
                link.decided(number, self.state, is_settled=self.is_settled)

    def end(self) -> None:
        """Called when all are settled: a transaction is spoilt if one was not there."""
        if self.found < self.count:
            last = (self.first + self.count - 1) & MASK
            cause = f"of the deliveries {self.first} to {last} not all were there to be settled"
            self.engine.coordinator.spoil(self.state, cause)


class Settling(Job):
    """A range of very many deliveries is settled."""

    def __init__(self, session: Session, settled: Range) -> None:
        count = len(settled.numbers)
        super().__init__("settle", f"{count} deliveries", session, count)
        self.outlives_session = False
        self._range = settled

    def steps(self) -> Steps:
        """Settle some at a time."""
        numbers = self._range.numbers
        for start in range(0, len(numbers), ROW):
            part = numbers[start : start + ROW]
            self._range.decide(part)
            yield len(part)
        self._range.end()

    def advance(self, items: int, stopwatch: Callable[[], float] | None, deadline: float) -> bool:
        """Do a portion, at its time."""
        engine = self._range.engine
        engine.now = max(engine.now, self.now)
        return super().advance(items, stopwatch, deadline)
