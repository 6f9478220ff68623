# Compiled by mypyc: see setup.py.
"""StompMessage: a SEND as the broker keeps it.

The headers of a message are a block. Messages with the same headers share one block. A MESSAGE
frame is that block with a few lines before it (`message_frame`). The store gets the block as it
is, so storing a message only costs the packing of a few numbers.

A connection that repeats its headers makes one block of them: a queue of a million such messages
holds one block. A block is kept as lines that are ready to send. The block is decoded only if
somebody needs a header (a selector, another protocol).

Two kinds of lines are left out when a message comes in. Some lines belong to one transport hop
(receipt, transaction, content-length, subscription, ack, ...). The others state what only the
broker can know (redelivered, JMSXGroupFirstForConsumer, JMSXUserID): no sender may forge them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final

from covey.core.model.message import Message, Neutral, Origin, head_weight, origin_of
from covey.core.selector import Value
from covey.groups.key import DEFAULT_HEADERS
from covey.protocols.stomp.frame import escape, header_lines, parse_block
from covey.protocols.stomp.mapping import (
    DEAD_REASON,
    ORIGIN_HEADERS,
    USER_HEADERS,
    headers_of,
    property_headers,
    read_headers,
)
from covey.protocols.stomp.versions import Version

# Headers that belong to one hop, or that only the broker may write.
NOT_KEPT = frozenset(
    (
        "receipt",
        "transaction",
        "content-length",
        "subscription",
        "ack",
        "redelivered",
        "covey-message-id",
        "message-id",
        "expires",
        "ttl",
        "expiration",
        "JMSXGroupFirstForConsumer",
        "covey-group-done",
        "covey-group-revoked",
        DEAD_REASON,
        *ORIGIN_HEADERS.values(),
        *USER_HEADERS,
    )
)

DEAD_HEADERS: Final = frozenset((DEAD_REASON, *ORIGIN_HEADERS.values()))
STORED_BLOCKS_MAX: Final = 4096  # distinct blocks that were read from a store and are remembered;
# only those that weigh nothing: 4 MB at most
_stored_blocks: dict[bytes, Block] = {}

_BACKSLASH: Final = 92  # a number: looking for bytes in bytes costs CPython an exception
V1_0: Final = Version.V1_0
V1_1: Final = Version.V1_1


class Block:
    """Header lines that many messages share.

    The lines are in STOMP 1.2's form. Those of 1.1 and 1.0 are written when first asked for.
    """

    __slots__ = ("_dead", "_v1_0", "_v1_1", "decoded", "user", "v1_2", "weight")

    def __init__(self, v1_2: bytes, user: str = "") -> None:
        self.v1_2 = v1_2  # each line has an LF before it
        self.weight = head_weight(len(v1_2))
        self.user = user  # who sent the messages, for readers of other protocols
        self._dead: tuple[str, Block] | None = None
        is_plain = _BACKSLASH not in v1_2
        self._v1_0: bytes | None = v1_2 if is_plain else None
        self._v1_1: bytes | None = v1_2 if is_plain else None
        self.decoded: dict[str, str] | None = None  # filled by the first call of `headers`

    def headers(self) -> dict[str, str]:
        """Return the headers decoded."""
        if self.decoded is None:
            self.decoded = parse_block(self.v1_2[1:], V1_2)
        return self.decoded

    def lines(self, version: Version) -> bytes:
        """Return the lines in the form of a STOMP version."""
        if version is V1_2:
            return self.v1_2
        if version is V1_1:
            if self._v1_1 is None:
                self._v1_1 = header_lines(self.headers().items(), V1_1)
            return self._v1_1
        if self._v1_0 is None:
            self._v1_0 = header_lines(self.headers().items(), V1_0)
        return self._v1_0

    def dead(self, reason: str) -> Block:
        """Return this block with the reason for which its messages are dead-lettered.

        The last result is kept, so messages that die for the same reason share one block.
        """
        if self._dead is None or self._dead[0] != reason:
            lines = self.v1_2
            if DEAD_REASON in self.headers():  # it was a dead letter before
                kept = [pair for pair in self.headers().items() if pair[0] not in DEAD_HEADERS]
                lines = header_lines(kept, V1_2)
            lines += header_lines([(DEAD_REASON, reason)], V1_2)
            self._dead = (reason, Block(lines, self.user))
        return self._dead[1]

    def from_origin(self, origin: Origin) -> Block:
        """Return the block with the headers that tell where a dead letter comes from."""
        told = [(ORIGIN_HEADERS[name], text) for name, text in origin.fields().items()]
        return Block(self.v1_2 + header_lines(told, V1_2), self.user)


def make_block(
    headers: Iterable[tuple[str, str]], added: Iterable[tuple[str, str]] = (), user: str = ""
) -> Block:
    """Make a block of the headers that travel with a message and those that the broker adds."""
    kept = [pair for pair in headers if pair[0] not in NOT_KEPT]
    return Block(header_lines([*kept, *added], V1_2), user)


def stamped(block: Block, name: str, wall_ms: int) -> Block:
    """Return a block with the time of receipt added; it serves one message, as times differ."""
    return Block(block.v1_2 + header_lines([(name, str(wall_ms))], V1_2), block.user)


def stored_block(lines: bytes, user: str) -> Block:
    """Return the block of these lines; messages that are read from a store share it, too."""
    block = _stored_blocks.get(lines)
    if block is None or block.user != user:
        if len(_stored_blocks) >= STORED_BLOCKS_MAX:
            _stored_blocks.clear()
        block = Block(lines, user)
        if not block.weight:
            _stored_blocks[lines] = block
    return block


# A stored head begins with these numbers: format, persistent, priority, expiry, time of receipt,
# group sequence, and the lengths of id, group and user. Then follow the id, the group, the user and
# the header lines.
_OWN: Final = Struct(">B?BqqqIII")
_FORMAT: Final = 2
_FORMAT_MARK: Final = bytes((_FORMAT,))
V1_2: Final = Version.V1_2


class StompMessage(Message):
    """A message that a STOMP client sent, or one translated for a STOMP client."""

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
        self.weight += block.weight
        self.block = block
        self.body = body
        self.id_prefix = b""  # the connection's part of an id that the broker makes; never escaped
        self.id_number = 0
        self.given_id = ""  # the message-id that the client gave
        self.timestamp_ms = 0

    def group_place(self) -> str:
        """Return the header that names the group."""
        headers = self.block.headers()
        return next((name for name in DEFAULT_HEADERS if headers.get(name)), super().group_place())

    def with_body(self, body: bytes) -> StompMessage:
        """Return a copy with another body."""
        copy = StompMessage(self.block, body)
        copy.given_id = self.given_id
        copy.expires_ms = self.expires_ms
        copy.group = self.group
        copy.group_sequence = self.group_sequence
        copy.priority = self.priority
        copy.persistent = self.persistent
        return copy

    def message_id(self) -> str:
        """Return the id that the client gave, else the one that the broker made."""
        return self.given_id or f"{self.id_prefix.decode()}{self.id_number}"

    def duplicate_id(self) -> str:
        """Return the id that the client gave: the broker never repeats its own ids."""
        return self.given_id

    def written_id(self, version: Version) -> bytes:
        """Return the id as the version writes it on the wire."""
        if self.given_id:
            return escape(self.given_id, version)
        return b"%s%d" % (self.id_prefix, self.id_number)

    def lookup(self, name: str) -> Value:
        """Return a header's value; JMS names (JMSPriority, ...) are understood, too."""
        headers = self.block.decoded
        value = (self.block.headers() if headers is None else headers).get(name)
        if value is not None:
            return value
        finder = JMS_NAMES.get(name)
        return None if finder is None else finder(self)

    def neutral(self) -> Neutral:
        """Return the message in the neutral form, from which other protocols translate."""
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
        """Return what a store keeps: a head (packed numbers, then texts), and the body."""
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

    def origin(self) -> Origin | None:
        """Return where a dead letter comes from; None if the message is not a dead letter."""
        headers = self.block.headers()
        if ORIGIN_HEADERS["queue"] not in headers:
            return None
        return origin_of({name: headers.get(own, "") for name, own in ORIGIN_HEADERS.items()})

    def as_dead_letter(self, reason: str, origin: Origin | None = None) -> StompMessage:
        """Return a copy that never expires and says why the message was dead-lettered."""
        block = self.block.dead(reason)
        copy = StompMessage(block if origin is None else block.from_origin(origin), self.body)
        copy.given_id = self.message_id()
        copy.persistent = self.persistent
        copy.priority = self.priority
        copy.group = self.group
        copy.group_sequence = self.group_sequence
        copy.timestamp_ms = self.timestamp_ms
        copy.sender = self.sender
        return copy


def decode(head: bytes, body: bytes) -> StompMessage:
    """Read a message back from a store; raises ValueError if the head is no stored message."""
    if head[:1] != _FORMAT_MARK or len(head) < _OWN.size:
        raise ValueError(f"not a stored STOMP message of format {_FORMAT}: {head[:16].hex()}")
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
    """Translate another protocol's message into the one that a STOMP client reads."""
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
