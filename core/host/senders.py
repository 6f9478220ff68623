"""Senders: who has a link to a queue, and must be told when somebody deletes the queue.

A protocol whose producers name their queue once (AMQP) registers them here. Nobody is told when an
empty and unused queue is swept away: the next message makes it again.
"""

from __future__ import annotations

from collections.abc import Callable

Heard = Callable[[str, str], None]  # the queue's name, and the reason


class Senders:
    """The registered senders of each queue of a virtual host."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Heard, None]] = {}  # ordered sets, by the queue's name

    def __len__(self) -> int:
        return len(self._known)

    def add(self, name: str, heard: Heard) -> None:
        """Register a sender; `heard` is called when the queue was deleted."""
        self._known.setdefault(name, {})[heard] = None

    def discard(self, name: str, heard: Heard) -> None:
        """Forget a sender."""
        known = self._known.get(name, {})
        known.pop(heard, None)
        if not known:
            self._known.pop(name, None)

    def tell(self, name: str, reason: str) -> None:
        """Tell the senders of a queue that it was deleted, and why."""
        for heard in self._known.pop(name, {}):
            heard(name, reason)
