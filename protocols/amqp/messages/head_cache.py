# Compiled by mypyc: see setup.py.
"""HeadSectionCache: reads the sections before the content once for all messages that repeat them.

A producer that gives its messages no ids sends the same header, properties and application
properties again and again. A head is every byte of a message up to the content of its only data
section; the content's length is part of the head. If two messages have the same head and the same
size, all their sections are at the same places and have the same meaning. So the second message is
not scanned.

Some heads are not remembered:
- heads with an id or a time of creation, because no two are the same;
- heads whose meaning depends on the time of receipt (a time to live);
- heads with annotations;
- heads of messages whose content must be checked (text, lists, several sections, a footer).
"""

from __future__ import annotations

from typing import Final

from covey.protocols.amqp.codec.types import stretch
from covey.protocols.amqp.messages.message import AmqpMessage
from covey.protocols.amqp.messages.sections import (
    CORRELATION_ID,
    CREATION_TIME,
    DATA,
    MESSAGE_ID,
    TTL,
)

HEADS_MAX: Final = 1024  # a connection's: enough for that many groups in turn; about 0.5 MB
HEAD_SIZE_MAX: Final = 256  # bytes; longer heads are rarely repeated


class HeadSectionCache:
    """The heads that one connection has sent."""

    __slots__ = ("known", "last", "last_head", "size")

    def __init__(self) -> None:
        self.known: dict[bytes, AmqpMessage] = {}  # to each head a message without content, to copy
        self.size = 0  # the last head's number of bytes: the next head probably has the same
        self.last_head = b""  # the last one that was found: the next is often the same
        self.last: AmqpMessage | None = None

    def repeated(self, data: bytes) -> AmqpMessage | None:
        """Return a message of a producer's bytes if its head is known, else None."""
        pattern = self.last
        if pattern is not None and data.startswith(self.last_head):
            if pattern.size + len(self.last_head) == len(data):
                return pattern.with_content(data)
        head = data[: self.size]
        pattern = self.known.get(head)
        if pattern is None or pattern.size + len(head) != len(data):
            return None
        self.last_head = head
        self.last = pattern
        return pattern.with_content(data)

    def learn(self, message: AmqpMessage) -> None:
        """Remember the head of a message that was decoded without an error."""
        size = len(message.data) - message.size
        if size > HEAD_SIZE_MAX or not _is_repeatable(message):
            return
        if len(self.known) >= HEADS_MAX:
            self.known.clear()
        self.known[message.data[:size]] = message.with_content(b"")
        self.size = size


def _is_repeatable(message: AmqpMessage) -> bool:
    """Return True if any other message with the same head has the same meaning."""
    sections = message.sections
    if sections.body_kind != DATA or sections.message_annotations:
        return False
    if _has(sections.header, TTL):
        return False
    own = sections.properties
    if _has(own, MESSAGE_ID) or _has(own, CORRELATION_ID) or _has(own, CREATION_TIME):
        return False
    end = stretch(message.data, message.data[sections.body], sections.body + 1)[1]
    return end == len(message.data)  # one data section, and nothing after it


def _has(offsets: list[int], place: int) -> bool:
    return place < len(offsets) and offsets[place] > 0
