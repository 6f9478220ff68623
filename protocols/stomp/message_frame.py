# Compiled by mypyc: see setup.py.
"""MessageFrames: the one place that writes a MESSAGE.

A MESSAGE has these lines, in this order:

    subscription                  the subscription's; not if a 1.0 client gave it no id
    message-id
    ack                           1.2, if the client has to acknowledge the message
    covey-message-id              the sender's, if another held message has the same (`ack`)
    redelivered, its counter      only of a message that was delivered before
    JMSXGroupFirstForConsumer     only of the first message of a group
    the header of `include-seq`   only if the subscription asked for it
    expires                       only of a message that expires
    content-length
    the message's own lines       a block that it shares with others like it (`message`)

The broker's lines come first: of a repeated header the first counts.

Nearly every message takes one of two ready forms: STOMP 1.2, with an id that the broker made.
Subscribers of a topic that ask for nothing special read the same bytes from the id on. These bytes
are written once for all of them.

A notice is a MESSAGE that tells a subscription something and is no message itself. Its destination
and its message-id are empty.
"""

from __future__ import annotations

from typing import Final

from covey.core.host.feed import Fan
from covey.core.model.entry import FIRST, Entry
from covey.protocols.stomp.frame import encode, escape, header_lines
from covey.protocols.stomp.message import StompMessage
from covey.protocols.stomp.versions import Version

V1_2: Final = Version.V1_2

# The two ready forms: subscription, id, [ack], lines that only some have, length, the message's own
# lines, body.
TO_ACK: Final = b"%s%s%d\nack:%d%s\ncontent-length:%d%s\n\n%s\0\n"
NOT_TO_ACK: Final = b"%s%s%d%s\ncontent-length:%d%s\n\n%s\0\n"
FIRST_LINE: Final = b"\nJMSXGroupFirstForConsumer:true"


class MessageFrames:
    """How one subscription's MESSAGE frames are written."""

    __slots__ = ("_counter_name", "_is_older", "_seq_name", "_start", "_version", "shown_id")

    def __init__(
        self, shown_id: str, version: Version, *, seq_name: str = "", counter_name: str = ""
    ) -> None:
        """Write for a subscription.

        `seq_name` and `counter_name` are the headers that say a message's number in its queue and
        how often it was delivered before; "" if nobody asks for them.
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

    def write(self, entry: Entry, message: StompMessage, tag: int, held_id: str) -> bytes:
        """Write a message.

        `tag` is the number that its ACK will name, 0 if it needs none. `held_id` is the id that
        tells it from others that are held, "" if its own does; before STOMP 1.2 an ACK names it.
        """
        if entry.deliveries or message.expires_ms or self._seq_name:
            extra = self._extra_lines(entry, message)
        else:
            extra = FIRST_LINE if entry.marks >= FIRST else b""
        if self._is_older or message.given_id or held_id:
            return self._line_by_line(message, tag, held_id, extra)
        start, body, lines = self._start, message.body, message.block.v1_2
        prefix, number = message.id_prefix, message.id_number
        if tag:
            return TO_ACK % (start, prefix, number, tag, extra, len(body), lines, body)
        return NOT_TO_ACK % (start, prefix, number, extra, len(body), lines, body)

    def write_fan(self, fan: Fan) -> bytes:
        """Write messages of a topic as one piece; b"": each has to be written by itself."""
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

    def _line_by_line(self, message: StompMessage, tag: int, held_id: str, extra: bytes) -> bytes:
        """Write a message for an older version, or with the client's own id."""
        version = self._version
        own_id = message.written_id(version)
        lines = escape(held_id, version) if held_id else own_id
        is_renamed = lines != own_id
        if tag and not self._is_older:
            lines += b"\nack:%d" % tag
        if is_renamed:
            lines += b"\ncovey-message-id:" + own_id
        return b"%s%s%s" % (self._start, lines, _rest(message, extra, version))

    def _extra_lines(self, entry: Entry, message: StompMessage) -> bytes:
        """Write what only some messages carry."""
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
    return message.written_id(V1_2) + _rest(message, b"", V1_2)


def _rest(message: StompMessage, extra: bytes, version: Version) -> bytes:
    """Write a MESSAGE from behind the lines that name it."""
    body = message.body
    lines = message.block.lines(version)
    return b"%s\ncontent-length:%d%s\n\n%s\0\n" % (extra, len(body), lines, body)


def _share(fan: Fan) -> bool:
    """Write each message from its id on; False: one of them is not STOMP's own, or expires."""
    parts = [b""]  # so that a join puts the subscription's lines before each
    for message in fan.messages:
        if not isinstance(message, StompMessage) or message.expires_ms:
            return False
        parts.append(from_id_on(message))
    fan.written = parts
    return True


def _header_name(name: str, version: Version) -> bytes:
    """Write a header's name as the version can carry it."""
    return header_lines([(name, "")], version)[1:-1] if name else b""
