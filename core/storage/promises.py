# Compiled by mypyc: see setup.py.
"""Promises: whose changes are on their way to the disk, and whom to call when the disk has them.

Each batch has a ticket. A session's receipts wait for the last batch that holds a change of this
session, and for no other session's changes. A session claims the changes of its turn (`claim`).
What the broker does by itself belongs to nobody: a delivery, an expiry, a body put out of memory. A
change that nobody has claimed counts for the next session that asks. So a receipt may be late, but
is never early. After a failure of the store nothing is ever promised again.

A batch for which nobody waits may rest in the store for a moment (`core.storage.commits`). Who asks
for a promise that it holds makes the store hurry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covey.core.session import Session


class Promises:
    """Who waits for which batch."""

    __slots__ = (
        "_can_hurry",
        "_gathered",
        "_hurry",
        "_under_way",
        "failure",
        "is_unclaimed",
        "ticket",
    )

    def __init__(self, hurry: Callable[[], None]) -> None:
        """Begin with nothing; `hurry` tells the store to write the batches that can wait."""
        self.ticket = 0  # of the last batch that was handed over
        self.is_unclaimed = False  # there are changes that no session has claimed
        self.failure: Exception | None = None
        self._hurry = hurry
        self._can_hurry = False  # the last batch can wait
        self._gathered: list[Callable[[], None]] = []  # for the batch that is being gathered
        self._under_way: dict[int, list[Callable[[], None]]] = {}

    # For sessions.

    def claim(self, session: Session) -> None:
        """Count the unclaimed changes as this session's: its receipts wait for them."""
        if self.is_unclaimed:
            self.is_unclaimed = False
            session.ticket = self.ticket + 1

    def disclaim(self) -> None:
        """Count the unclaimed changes as nobody's: no receipt waits for them."""
        self.is_unclaimed = False

    def after(self, session: Session, callback: Callable[[], None]) -> None:
        """Call back when all changes of the session so far are safe; at once if they are."""
        waiting = self._claim(session)
        if waiting is not None:
            waiting.append(callback)
        elif self.failure is None:
            callback()

    def claim_safe(self, session: Session) -> bool:
        """Claim the changes for the session; return True if all of its changes are safe."""
        return self._claim(session) is None and self.failure is None

    def claim_behind(self, session: Session, callback: Callable[[], None] | None) -> bool:
        """Claim the changes; return True if the last to wait for them is this callback already."""
        waiting = self._claim(session)
        return waiting is not None and len(waiting) > 0 and waiting[-1] is callback

    def _claim(self, session: Session) -> list[Callable[[], None]] | None:
        """Claim the changes; return the callbacks that wait for them, None if they are safe."""
        if self.is_unclaimed:  # `claim` by hand: this runs for each message with a receipt
            self.is_unclaimed = False
            session.ticket = self.ticket + 1
        if session.ticket > self.ticket:
            return self._gathered
        if not session.is_answered_in_order:
            return None
        waiting = self._under_way.get(session.ticket)
        if self._can_hurry and waiting is not None:
            self._can_hurry = False
            self._hurry()
        return waiting

    # For the store.

    def is_anybody_waiting(self) -> bool:
        """Return True if somebody waits for the batch that is being gathered."""
        return bool(self._gathered)

    def hand_over(self, can_wait: bool) -> int:
        """Give the gathered batch its ticket, and begin to gather the next one."""
        self._can_hurry = can_wait
        self.ticket += 1
        self._under_way[self.ticket] = self._gathered
        self._gathered = []
        self.is_unclaimed = False
        return self.ticket

    def keep(self, ticket: int) -> None:
        """Call the callbacks that waited for a batch: the disk has it."""
        for callback in self._under_way.pop(ticket):
            callback()
        self.disclaim()

    def fail(self, error: Exception | None) -> None:
        """Called when nothing can be promised any more; the first reason is kept."""
        self.failure = self.failure or error
