"""Glances: what a browser sees of a backlog that is out of memory.

A browser only looks, so the bodies it comes to are read for it alone, a page ahead of its cursor,
and are gone once it has seen them. They never enter the queue's memory and put nothing out of it,
so a look at a long backlog costs the queue's other readers nothing, and a message no bookkeeping.

What is read ahead may be outdated when the browser gets there: messages that vanished are passed
over; one that was in memory when its page was read and is not any more is asked for again.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covey.core.message import Message


class Glances:
    """The messages one browser will see next, in their order."""

    __slots__ = ("_found", "ahead", "is_asked")

    def __init__(self, seq: int) -> None:
        """Begin at a number."""
        self.ahead = seq  # where the next page begins
        self.is_asked = False  # a page is under way
        self._found: deque[tuple[int, Message]] = deque()

    def __len__(self) -> int:
        return len(self._found)

    def put(self, seq: int, message: Message) -> None:
        """Add a message that was read; numbers ascend."""
        self._found.append((seq, message))

    def take(self, seq: int) -> Message | None:
        """Return a message, None if it has to be read; those before it are not needed any more."""
        found = self._found
        while found:
            at, message = found[0]
            if at > seq:
                break
            found.popleft()
            if at == seq:
                return message
        if not self.is_asked:
            found.clear()
            self.ahead = seq
        return None
