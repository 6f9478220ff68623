"""Promises: whose changes are on their way to the disk, and who is called when they are there.

Changes go to the store in batches, each under a ticket. Whose a change is decides whose receipts
wait for it: a session's wait for the last batch that holds something of its own, and for nobody
else's. What happens in a turn is its session's (`claim`); what the broker does by itself, such as a
delivery, an expiry or a body put out of memory, is nobody's. A change of which nobody has said
whose it is counts for the next session that asks, so a receipt may be late, but never early.

After a failure of the store nothing is ever promised again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covey.core.session import Session


class Promises:
    """Who waits for which batch."""

    __slots__ = ("_gathered", "_under_way", "failure", "is_unclaimed", "ticket")

    def __init__(self) -> None:
        self.ticket = 0  # of the last batch that was handed over
        self.is_unclaimed = False  # there are changes of which nobody has said whose they are
        self.failure: Exception | None = None
        self._gathered: list[Callable[[], None]] = []  # for the batch that is being gathered
        self._under_way: dict[int, list[Callable[[], None]]] = {}

    # For sessions.

    def claim(self, session: Session) -> None:
        """Hear that what was done since somebody last said so was this session's doing."""
        if self.is_unclaimed:
            self.is_unclaimed = False
            session.ticket = self.ticket + 1

    def disclaim(self) -> None:
        """Hear that it was nobody's."""
        self.is_unclaimed = False

    def after(self, session: Session, callback: Callable[[], None]) -> None:
        """Call back when what the session did so far is safe; at once if it is."""
        waiting = self._waiting(session)
        if waiting is not None:
            waiting.append(callback)
        elif self.failure is None:
            callback()

    def is_safe(self, session: Session) -> bool:
        """Say whether what the session did so far is safe."""
        return self._waiting(session) is None and self.failure is None

    def is_last(self, session: Session, callback: Callable[[], None] | None) -> bool:
        """Say whether this is what will be called last when what the session did is safe."""
        waiting = self._waiting(session)
        return waiting is not None and len(waiting) > 0 and waiting[-1] is callback

    def _waiting(self, session: Session) -> list[Callable[[], None]] | None:
        """Return those to be called when what the session did so far is safe; None if it is."""
        if self.is_unclaimed:  # as in `claim`; this is asked for each message with a receipt
            self.is_unclaimed = False
            session.ticket = self.ticket + 1
        if session.ticket > self.ticket:
            return self._gathered
        if not session.is_answered_in_order:
            return None
        return self._under_way.get(session.ticket)

    # For the store.

    def hand_over(self) -> int:
        """Give the batch that was gathered its ticket."""
        self.ticket += 1
        self._under_way[self.ticket] = self._gathered
        self._gathered = []
        self.is_unclaimed = False
        return self.ticket

    def keep(self, ticket: int) -> None:
        """Call those who waited for a batch: the disk has it."""
        for callback in self._under_way.pop(ticket):
            callback()
        self.disclaim()

    def fail(self, error: Exception | None) -> None:
        """Hear that nothing can be promised any more; the first reason is kept."""
        self.failure = self.failure or error
