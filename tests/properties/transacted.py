"""Transacted: deliveries of the judged queue that are settled in a transaction.

Until it ends they are out and hold their group, but count for their consumer no more; one that
left meanwhile does not change that. An abort goes in portions. It gives a delivery back to its
consumer, or to its place if the consumer is gone or its client has settled the delivery for good.
"""

from __future__ import annotations

from random import Random

from covey.core.jobs.job import Steps
from covey.core.model.entry import Entry, Outcome
from covey.core.publishing.transactions import Settlement, Transaction
from tests.properties.judged import outcome_of
from tests.properties.referee import Referee


class Transacted:
    """One transaction after the other."""

    def __init__(self, referee: Referee, random: Random) -> None:
        self.referee = referee
        self.random = random
        self.undoing: list[tuple[list[Settlement], Steps]] = []
        self.now = 0.0
        self._begin()

    def enlist(self, entry: Entry, outcome: Outcome, now: float) -> None:
        """Settle a delivery in the open transaction."""
        self.referee.enlisted(entry.seq)
        done = self.transaction.settle(entry, outcome, now)
        assert done is not None
        done.is_final = self.random.random() < 0.3

    def enlisted(self) -> list[Entry]:
        """Tell what belongs to a transaction, also to one that is being undone."""
        rows = [self.transaction.settlements, *(left for left, _ in self.undoing)]
        return [done.entry for row in rows for done in row]

    def end(self, now: float, *, is_commit: bool) -> None:
        """Commit, or begin to abort; and begin the next."""
        if is_commit:
            for done in self.transaction.settlements:
                self.referee.heard(done.consumer.id)
                outcome_of(self.referee, done.entry.seq, done.outcome)
            self.transaction.commit_settlements(now)
        else:
            left = list(self.transaction.settlements)
            self.undoing.append((left, self.transaction.aborting(lambda: self.now)))
            self.go_on(now)
        self._begin()

    def go_on(self, now: float, *, at_most: int = 0) -> None:
        """Undo a portion of each transaction that is being undone."""
        self.now = now
        for place in list(self.undoing):
            left, steps = place
            for _ in range(at_most or self.random.choice((0, 1, 2, 100))):
                if left:
                    self._undo(left.pop(0))
                if next(steps, None) is None:
                    self.undoing.remove(place)
                    break

    def _undo(self, done: Settlement) -> None:
        if done.consumer.is_gone or done.is_final:
            self.referee.heard(done.consumer.id)
            outcome_of(self.referee, done.entry.seq, Outcome.FAILED)
        else:
            self.referee.given_back(done.entry.seq)

    def _begin(self) -> None:
        self.transaction = Transaction(1000, 1000)
