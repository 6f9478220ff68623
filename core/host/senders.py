"""Senders: who has a link to a queue, and is to hear that somebody has deleted it.

A protocol whose producers say once where they send to (AMQP) lets them be known here. A queue that
is swept away because it is empty and unused tells nobody: it is made again by its next message.
"""

from __future__ import annotations

from collections.abc import Callable

Heard = Callable[[str, str], None]  # the queue's name, and the reason


class Senders:
    """Whoever sends to each queue of a virtual host."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Heard, None]] = {}  # ordered sets, by the queue's name

    def __len__(self) -> int:
        return len(self._known)

    def add(self, name: str, heard: Heard) -> None:
        """Let a sender be known; `heard` is called when the queue was deleted."""
        self._known.setdefault(name, {})[heard] = None

    def discard(self, name: str, heard: Heard) -> None:
        """Forget a sender."""
        known = self._known.get(name, {})
        known.pop(heard, None)
        if not known:
            self._known.pop(name, None)

    def tell(self, name: str, reason: str) -> None:
        """Tell them that their queue was deleted, and why."""
        for heard in self._known.pop(name, {}):
            heard(name, reason)
