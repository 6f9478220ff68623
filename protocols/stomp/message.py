"""StompMessage: a SEND as the broker keeps it, and how it becomes a MESSAGE.

Its headers are a block (`stomp.block`) that it shares with others like it, and a MESSAGE is the
block with a few lines before it. A store gets the block as it is, so keeping a message costs one
packing of a few numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from covey.core.message import Message, Neutral
from covey.core.selector import Value
from covey.groups.key import DEFAULT_HEADERS
from covey.protocols.stomp.block import Block, make_block, stored_block
from covey.protocols.stomp.headers import escape
from covey.protocols.stomp.mapping import headers_of, property_headers, read_headers
from covey.protocols.stomp.rules import Version

# What a store keeps before the id, the group, the user and the header lines: format, persistent,
# priority, expiry, time of receipt, group sequence, and the lengths of the first three.
_OWN: Final = Struct(">B?BqqqIII")
_FORMAT: Final = 2
_FORMAT_MARK: Final = bytes((_FORMAT,))
V1_2: Final = Version.V1_2


class StompMessage(Message):
    """A message in STOMP's words."""

    kind = "stomp"

    __slots__ = (
        "block",
        "body",
        "given_id",
        "id_number",
        "id_prefix",
        "timestamp_ms",
    )

    def __init__(self, block: Block, body: bytes) -> None:
        super().__init__(len(body))
        self.block = block
        self.body = body
        self.id_prefix = b""  # of the connection, for ids the broker makes; needs no escape
        self.id_number = 0
        self.given_id = ""  # the client's own message-id
        self.timestamp_ms = 0

    def group_place(self) -> str:
        """Return the header that names the group."""
        headers = self.block.headers()
        return next((name for name in DEFAULT_HEADERS if headers.get(name)), super().group_place())

    def with_body(self, body: bytes) -> StompMessage:
        """Return a message of which everything but the body is as here."""
        copy = StompMessage(self.block, body)
        copy.given_id = self.given_id
        copy.expires_ms = self.expires_ms
        copy.group = self.group
        copy.group_sequence = self.group_sequence
        copy.priority = self.priority
        copy.persistent = self.persistent
        return copy

    def message_id(self) -> str:
        """Return the client's own id, else the one the broker made."""
        return self.given_id or f"{self.id_prefix.decode()}{self.id_number}"

    def duplicate_id(self) -> str:
        """Return the client's own id: those the broker makes are never repeated."""
        return self.given_id

    def written_id(self, version: Version) -> bytes:
        """Return the id as it stands on the wire."""
        if self.given_id:
            return escape(self.given_id, version)
        return b"%s%d" % (self.id_prefix, self.id_number)

    def from_id_on(self) -> bytes:
        """Return a MESSAGE of STOMP 1.2 from its id on: what all subscribers of a topic read."""
        body = self.body
        length = b"\ncontent-length:%d" % len(body) if body else b""
        return b"%s%s%s\n\n%s\0\n" % (self.written_id(V1_2), length, self.block.v1_2, body)

    def lookup(self, name: str) -> Value:
        """Return a header, or what JMS calls one by another name."""
        headers = self.block.decoded
        value = (self.block.headers() if headers is None else headers).get(name)
        if value is not None:
            return value
        finder = JMS_NAMES.get(name)
        return None if finder is None else finder(self)

    def neutral(self) -> Neutral:
        """Return the message in no protocol's words."""
        neutral = Neutral(
            body=self.body,
            message_id=self.message_id(),
            user_id=self.block.user,
            group_id=self.group,
            group_sequence=self.group_sequence,
            expires_ms=self.expires_ms,
            created_ms=self.timestamp_ms,
            priority=self.priority,
            persistent=self.persistent,
        )
        read_headers(self.block.headers(), neutral)
        return neutral

    def encode(self) -> tuple[bytes, bytes]:
        """Return what the broker found out, packed, with the header lines as they are; the body."""
        message_id = self.given_id.encode() or b"%s%d" % (self.id_prefix, self.id_number)
        group = self.group.encode()
        user = self.block.user.encode()
        own = _OWN.pack(
            _FORMAT,
            self.persistent,
            self.priority,
            self.expires_ms,
            self.timestamp_ms,
            self.group_sequence,
            len(message_id),
            len(group),
            len(user),
        )
        return b"".join((own, message_id, group, user, self.block.v1_2)), self.body

    def as_dead_letter(self, reason: str) -> StompMessage:
        """Return a copy that never expires and says why it is where it is."""
        copy = StompMessage(self.block.dead(reason), self.body)
        copy.given_id = self.message_id()
        copy.persistent = self.persistent
        copy.priority = self.priority
        copy.group = self.group
        copy.group_sequence = self.group_sequence
        copy.timestamp_ms = self.timestamp_ms
        copy.sender = self.sender
        return copy


def decode(head: bytes, body: bytes) -> StompMessage:
    """Read a message back from a store; raises ValueError if it is none."""
    if head[:1] != _FORMAT_MARK or len(head) < _OWN.size:
        raise ValueError(f"not a stored STOMP message of format {_FORMAT}: {head[:16]!r}")
    own = _OWN.unpack_from(head)
    group_at = _OWN.size + own[6]
    user_at = group_at + own[7]
    lines_at = user_at + own[8]
    message = StompMessage(stored_block(head[lines_at:], head[user_at:lines_at].decode()), body)
    message.given_id = head[_OWN.size : group_at].decode()
    message.group = head[group_at:user_at].decode()
    message.persistent = own[1]
    message.priority = own[2]
    message.expires_ms = own[3]
    message.timestamp_ms = own[4]
    message.group_sequence = own[5]
    return message


def from_neutral(neutral: Neutral, destination: str, group_header: str | None) -> StompMessage:
    """Make what a STOMP client reads of another protocol's message."""
    own = headers_of(neutral, destination, group_header)
    given = property_headers(neutral, {name for name, _ in own})
    message = StompMessage(make_block(given, own), neutral.body)
    message.given_id = neutral.message_id
    message.expires_ms = neutral.expires_ms
    message.group = neutral.group_id
    message.group_sequence = neutral.group_sequence
    message.priority = neutral.priority
    message.persistent = neutral.persistent
    return message


def _header(name: str) -> Callable[[StompMessage], Value]:
    return lambda message: message.block.headers().get(name)


JMS_NAMES: dict[str, Callable[[StompMessage], Value]] = {
    "JMSMessageID": lambda message: message.message_id(),
    "JMSPriority": lambda message: message.priority,
    "JMSExpiration": lambda message: message.expires_ms,
    "JMSTimestamp": lambda message: message.timestamp_ms,
    "JMSDeliveryMode": lambda message: "PERSISTENT" if message.persistent else "NON_PERSISTENT",
    "JMSXGroupID": lambda message: message.group or None,
    "JMSXGroupSeq": lambda message: message.group_sequence,
    "JMSType": _header("type"),
    "JMSCorrelationID": _header("correlation-id"),
    "JMSReplyTo": _header("reply-to"),
    "message-id": lambda message: message.message_id(),
    "expires": lambda message: message.expires_ms or None,
}
