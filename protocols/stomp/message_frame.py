# Compiled by mypyc: see setup.py.
"""MessageFrames: the one place that writes a MESSAGE.

A MESSAGE has these lines, in this order:

    subscription                  the subscription's id; not there if a 1.0 client gave none
    message-id
    ack                           1.2, if the client has to acknowledge the message
    covey-message-id              the sender's id, if another held message has the same (`holding`)
    redelivered, its counter      only of a message that was delivered before
    JMSXGroupFirstForConsumer     only of the first message of a group
    the header of `include-seq`   only if the subscription asked for it
    expires                       only of a message that expires
    content-length
    the message's own lines       a block that messages with the same headers share (`message`)

The broker's lines come first, because the first of repeated headers counts.

Nearly every message is written by one of two ready forms. They are for STOMP 1.2 and an id that the
broker made. Subscribers of a topic that ask for nothing special read the same bytes from the id on.
These bytes are written once for all of these subscribers.

A notice is a MESSAGE frame that tells a client something about its subscription. It carries no
message. Its destination and its message-id are empty.
"""

from __future__ import annotations

from typing import Final

from covey.core.host.feed import Fan
from covey.core.model.entry import FIRST, Entry
from covey.protocols.engine import LARGE
from covey.protocols.stomp.frame import encode, escape, header_lines
from covey.protocols.stomp.message import StompMessage
from covey.protocols.stomp.versions import Version

V1_2: Final = Version.V1_2

# The two ready forms: subscription, id, [ack], lines that only some messages have, length, the
# message's own lines, body.
TO_ACK: Final = b"%s%s%d\nack:%d%s\ncontent-length:%d%s\n\n%s\0\n"
NOT_TO_ACK: Final = b"%s%s%d%s\ncontent-length:%d%s\n\n%s\0\n"
FIRST_LINE: Final = b"\nJMSXGroupFirstForConsumer:true"


class MessageFrames:
    """Writes one subscription's MESSAGE frames."""

    __slots__ = ("_counter_name", "_is_older", "_seq_name", "_start", "_version", "shown_id")

    def __init__(
        self, shown_id: str, version: Version, *, seq_name: str = "", counter_name: str = ""
    ) -> None:
        """Write for a subscription.

        `seq_name` is the header for a message's number in its queue. `counter_name` is the header
        for the number of earlier deliveries. A name is "" if the header is not wanted.
        """
        self.shown_id = shown_id
        self._version = version
        self._is_older = version is not V1_2
        self._seq_name = _header_name(seq_name, version)
        self._counter_name = _header_name(counter_name, version)
        self._start = b"MESSAGE"
        if shown_id:
            self._start += b"\nsubscription:" + escape(shown_id, version)
        self._start += b"\nmessage-id:"

    def write(
        self, entry: Entry, message: StompMessage, tag: int, held_id: str, body: bytes
    ) -> bytes:
        """Write a message.

        `body` is its own, or b"" if the caller puts it before the frame's end. `tag` is the number
        that the message's ACK will name, 0 if no ACK is expected. `held_id` is the id under which
        the client holds the message, "" if the message's own id will do. Before STOMP 1.2 an ACK
        names the message by that id.
        """
        if entry.deliveries or message.expires_ms or self._seq_name:
            extra = self._extra_lines(entry, message)
        else:
            extra = FIRST_LINE if entry.marks >= FIRST else b""
        if self._is_older or message.given_id or held_id:
            return self._line_by_line(message, tag, held_id, extra, body)
        start, length, lines = self._start, len(message.body), message.block.v1_2
        prefix, number = message.id_prefix, message.id_number
        if tag:
            return TO_ACK % (start, prefix, number, tag, extra, length, lines, body)
        return NOT_TO_ACK % (start, prefix, number, extra, length, lines, body)

    def write_fan(self, fan: Fan) -> bytes:
        """Write a topic's messages as one piece; b"": each message must be written by itself."""
        if self._is_older or self._seq_name:
            return b""
        if fan.written or _share(fan):
            return self._start.join(fan.written)
        return b""

    def write_notice(self, headers: list[tuple[str, str]]) -> bytes:
        """Write a notice."""
        lines = [("subscription", self.shown_id)] if self.shown_id else []
        lines += [("destination", ""), ("message-id", ""), *headers]
        return encode("MESSAGE", lines, b"", self._version)

    def _line_by_line(
        self, message: StompMessage, tag: int, held_id: str, extra: bytes, body: bytes
    ) -> bytes:
        """Write a message for an older version, or one whose id is not the broker's."""
        version = self._version
        own_id = message.written_id(version)
        lines = escape(held_id, version) if held_id else own_id
        is_renamed = lines != own_id
        if tag and not self._is_older:
            lines += b"\nack:%d" % tag
        if is_renamed:
            lines += b"\ncovey-message-id:" + own_id
        return b"%s%s%s" % (self._start, lines, _rest(message, extra, version, body))

    def _extra_lines(self, entry: Entry, message: StompMessage) -> bytes:
        """Write the lines that only some messages have."""
        lines = b""
        if entry.deliveries:
            lines += b"\nredelivered:true"
            if self._counter_name:
                lines += b"\n%s:%d" % (self._counter_name, entry.deliveries)
        if entry.is_first:
            lines += FIRST_LINE
        if self._seq_name:
            lines += b"\n%s:%d" % (self._seq_name, entry.seq)
        if message.expires_ms:
            lines += b"\nexpires:%d" % message.expires_ms
        return lines


def from_id_on(message: StompMessage) -> bytes:
    """Write what all subscribers of a topic read of a message: STOMP 1.2, from the id on."""
    return message.written_id(V1_2) + _rest(message, b"", V1_2, message.body)


def _rest(message: StompMessage, extra: bytes, version: Version, body: bytes) -> bytes:
    """Write the part of a MESSAGE that follows the lines with its ids."""
    lines = message.block.lines(version)
    return b"%s\ncontent-length:%d%s\n\n%s\0\n" % (extra, len(message.body), lines, body)


def _share(fan: Fan) -> bool:
    """Write each message from its id on.

    False: a message is not a STOMP message, expires, or is so large that it is not copied.
    """
    parts = [b""]  # the empty first part: a join puts the subscription's lines before each message
    for message in fan.messages:
        if not isinstance(message, StompMessage) or message.expires_ms:
            return False
        if len(message.body) >= LARGE:
            return False
        parts.append(from_id_on(message))
    fan.written = parts
    return True


def _header_name(name: str, version: Version) -> bytes:
    """Write a header's name with the escapes of the version."""
    return header_lines([(name, "")], version)[1:-1] if name else b""
