# Compiled by mypyc: see setup.py.
"""HeadSectionCache: what messages say before their content, worked out once for all that repeat it.

A producer that gives its messages no ids of their own sends the same header, properties and
application properties again and again. A head is every byte of a message up to the content of its
one data section, the content's length included. Two messages of the same head and the same size
have their sections at the same places, and say the same. So nothing of the second is scanned again.

Some heads are not remembered:
- heads with an id or a time of creation, since no two are alike;
- heads whose meaning depends on when they come (a time to live);
- heads with annotations;
- heads of messages whose content needs a look (text, lists, several sections, a footer).
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

HEADS_MAX: Final = 1024  # of a connection: as many groups can be sent to by turns; about 0.5 MB
HEAD_SIZE_MAX: Final = 256  # bytes; a longer one is rarely the same again


class HeadSectionCache:
    """The heads that one connection has sent."""

    __slots__ = ("known", "size")

    def __init__(self) -> None:
        self.known: dict[bytes, AmqpMessage] = {}  # an empty message for each, to copy from
        self.size = 0  # of the last head: the next one is likely to have as many bytes

    def repeated(self, data: bytes) -> AmqpMessage | None:
        """Take a message as it came, if its head is known."""
        pattern = self.known.get(data[: self.size])
        if pattern is None or pattern.size + self.size != len(data):
            return None
        return pattern.with_content(data)

    def learn(self, message: AmqpMessage) -> None:
        """Remember the head of a message that was found to be in order."""
        size = len(message.data) - message.size
        if size > HEAD_SIZE_MAX or not _is_repeatable(message):
            return
        if len(self.known) >= HEADS_MAX:
            self.known.clear()
        self.known[message.data[:size]] = message.with_content(b"")
        self.size = size


def _is_repeatable(message: AmqpMessage) -> bool:
    """Return True if all that is known of a message is known of any other with its head."""
    sections = message.sections
    if sections.body_kind != DATA or sections.message_annotations:
        return False
    if _has(sections.header, TTL):
        return False
    own = sections.properties
    if _has(own, MESSAGE_ID) or _has(own, CORRELATION_ID) or _has(own, CREATION_TIME):
        return False
    end = stretch(message.data, message.data[sections.body], sections.body + 1)[1]
    return end == len(message.data)  # one section, and nothing behind it


def _has(offsets: list[int], place: int) -> bool:
    return place < len(offsets) and offsets[place] > 0
