"""Fan: the messages of one topic that came in a row, on their way to everybody who listens.

What is the same for all subscribers is done once for all of them: the entries that subscribers
share which settle as they are sent, and what their protocol writes of the messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covey.core.entry import PENDING, SHARED, Entry
from covey.core.lane import Lane

if TYPE_CHECKING:
    from covey.core.message import Message

NO_LANE: Final = Lane("", is_grouped=False)  # of what came from nowhere


class Fan:
    """A few messages for many readers."""

    __slots__ = ("_entries", "can_expire", "lane", "messages", "size", "written")

    def __init__(self, lane: Lane = NO_LANE) -> None:
        """Begin with none; the lane has the topic's name."""
        self.lane = lane
        self.messages: list[Message] = []
        self.size = 0  # bytes of their bodies
        self.can_expire = False  # one of them has a time to live
        self.written: list[bytes] = []  # by the first reader whose protocol can share it
        self._entries: list[Entry] = []

    def add(self, message: Message) -> None:
        """Take the next one."""
        self.messages.append(message)
        self.size += message.size
        if message.expires_ms:
            self.can_expire = True

    def entries(self) -> list[Entry]:
        """Return an entry for each message, the same ones to everybody."""
        if not self._entries:
            lane = self.lane
            self._entries = [Entry(SHARED, message, lane, PENDING) for message in self.messages]
        return self._entries
