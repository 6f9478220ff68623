"""Transacted: deliveries of the judged queue that are settled in a transaction.

Until it ends they are out and hold their group, but count for their consumer no more; one that
left meanwhile does not change that. After an abort they are the consumer's again, or come back.
"""

from __future__ import annotations

from covey.core.model.entry import Entry, Outcome
from covey.core.publishing.transactions import Transaction
from tests.properties.judged import outcome_of
from tests.properties.referee import Referee


class Transacted:
    """One transaction after the other."""

    def __init__(self, referee: Referee) -> None:
        self.referee = referee
        self._begin()

    def enlist(self, entry: Entry, outcome: Outcome, now: float) -> None:
        """Settle a delivery in the open transaction."""
        self.referee.enlisted(entry.seq)
        self.transaction.settle(entry, outcome, now)

    def end(self, now: float, *, is_commit: bool) -> None:
        """Commit or abort, and begin the next."""
        for done in self.transaction.settlements:
            if is_commit:
                self.referee.heard(done.consumer.id)
                outcome_of(self.referee, done.entry.seq, done.outcome)
            elif done.consumer.is_gone:
                outcome_of(self.referee, done.entry.seq, Outcome.FAILED)
            else:
                self.referee.given_back(done.entry.seq)
        if is_commit:
            self.transaction.commit_settlements(now)
        else:
            for _ in self.transaction.aborting(now):
                pass
        self._begin()

    def _begin(self) -> None:
        self.transaction = Transaction(1000, 1000)
