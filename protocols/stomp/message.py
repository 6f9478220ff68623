"""StompMessage: a SEND as the broker keeps it, and how it becomes a MESSAGE.

The headers are kept as one block of ready header lines, shared by all messages a connection
sends with the same headers: a queue of a million like messages has one block. They are decoded
only when somebody looks (a selector, another protocol), and a MESSAGE is the block with a few
lines before it. Lines that belong to one transport hop (receipt, transaction, content-length,
subscription, ack, ...) are left out on the way in; those that name the broker's own findings
(redelivered, JMSXGroupFirstForConsumer, JMSXUserID) cannot be forged by a sender.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from covey.core.message import DEFAULT_PRIORITY, Message, Neutral
from covey.core.selector import Value
from covey.protocols.stomp.headers import escape, header_lines, parse_block
from covey.protocols.stomp.rules import Version

# Belong to one hop, or are ours to say.
NOT_KEPT = frozenset(
    (
        "receipt",
        "transaction",
        "content-length",
        "subscription",
        "ack",
        "redelivered",
        "message-id",
        "expires",
        "ttl",
        "expiration",
        "JMSXGroupFirstForConsumer",
        "JMSXUserID",
        "covey-group-revoked",
    )
)

V1_0 = Version.V1_0
V1_1 = Version.V1_1
V1_2 = Version.V1_2


class Block:
    """Header lines that many messages share, written for each version when first asked for."""

    __slots__ = ("_headers", "_v1_0", "_v1_1", "v1_2")

    def __init__(self, v1_2: bytes) -> None:
        self.v1_2 = v1_2  # each line with an LF before it
        is_plain = b"\\" not in v1_2
        self._v1_0: bytes | None = v1_2 if is_plain else None
        self._v1_1: bytes | None = v1_2 if is_plain else None
        self._headers: dict[str, str] | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers decoded."""
        if self._headers is None:
            self._headers = parse_block(self.v1_2[1:], V1_2)
        return self._headers

    def lines(self, version: Version) -> bytes:
        """Return the lines as a client of that version reads them."""
        if version is V1_2:
            return self.v1_2
        if version is V1_1:
            if self._v1_1 is None:
                self._v1_1 = header_lines(self.headers().items(), V1_1)
            return self._v1_1
        if self._v1_0 is None:
            self._v1_0 = header_lines(self.headers().items(), V1_0)
        return self._v1_0


def make_block(headers: Iterable[tuple[str, str]]) -> Block:
    """Write the headers that travel with the message."""
    return Block(header_lines([pair for pair in headers if pair[0] not in NOT_KEPT], V1_2))


def stamped(block: Block, name: str, wall_ms: int) -> Block:
    """Return the block with the time of receipt, which no two messages share."""
    return Block(block.v1_2 + header_lines([(name, str(wall_ms))], V1_2))


class StompMessage(Message):
    """A message in STOMP's words."""

    kind = "stomp"

    __slots__ = (
        "_shared",
        "_shared_for",
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
        self._shared = b""
        self._shared_for: Version | None = None

    def message_id(self) -> str:
        """Return the client's own id, else the one the broker made."""
        return self.given_id or f"{self.id_prefix.decode()}{self.id_number}"

    def written_id(self, version: Version) -> bytes:
        """Return the id as it stands on the wire."""
        if self.given_id:
            return escape(self.given_id, version)
        return b"%s%d" % (self.id_prefix, self.id_number)

    def shared_part(self, version: Version) -> bytes:
        """Return a MESSAGE from its id on, written once for all subscribers of a topic."""
        if version is not self._shared_for:
            self._shared_for = version
            length = b"\ncontent-length:%d" % len(self.body) if self.body else b""
            self._shared = b"%s%s%s\n\n%s\0\n" % (
                self.written_id(version),
                length,
                self.block.lines(version),
                self.body,
            )
        return self._shared

    def lookup(self, name: str) -> Value:
        """Return a header, or what JMS calls one by another name."""
        value = self.block.headers().get(name)
        if value is not None:
            return value
        finder = JMS_NAMES.get(name)
        return None if finder is None else finder(self)

    def neutral(self) -> Neutral:
        """Return the message in no protocol's words."""
        headers = dict(self.block.headers())
        is_typed_binary = not _is_text_type(headers.get("content-type", "text/plain"))
        neutral = Neutral(
            body=self.body,
            body_kind="data" if is_typed_binary or not _is_utf8(self.body) else "text",
            message_id=self.message_id(),
            group_id=self.group,
            group_sequence=self.group_sequence,
            expires_ms=self.expires_ms,
            created_ms=self.timestamp_ms,
            priority=self.priority,
            persistent=self.persistent,
        )
        for name, field in NEUTRAL_FIELDS.items():
            value = headers.pop(name, "")
            if value:
                setattr(neutral, field, value)
        _restore_shape(neutral, headers.pop("amqp-body", ""))
        for name in CONSUMED:
            headers.pop(name, None)
        neutral.properties.update(headers)
        return neutral

    def encode(self) -> tuple[bytes, bytes]:
        """Return the header lines, the broker's own findings first, and the body."""
        own = [
            ("message-id", self.message_id()),
            ("expires", str(self.expires_ms)),
            ("timestamp", str(self.timestamp_ms)),
            ("persistent", "true" if self.persistent else "false"),
            ("priority", str(self.priority)),
            ("group", self.group),
            ("sequence", str(self.group_sequence)),
        ]
        head = header_lines(own, V1_2)
        return b"%d%s%s" % (len(head), head, self.block.v1_2), self.body

    def without_expiry(self) -> StompMessage:
        """Return a copy that never expires."""
        copy = StompMessage(self.block, self.body)
        copy.given_id = self.message_id()
        copy.persistent = self.persistent
        copy.priority = self.priority
        copy.group = self.group
        copy.group_sequence = self.group_sequence
        copy.timestamp_ms = self.timestamp_ms
        copy.sender = self.sender
        return copy


def decode(head: bytes, body: bytes) -> StompMessage:
    """Read a message back from a store."""
    cut = head.index(b"\n")
    length = int(head[:cut])
    own = parse_block(head[cut + 1 : cut + length], V1_2)
    message = StompMessage(Block(head[cut + length :]), body)
    message.given_id = own["message-id"]
    message.expires_ms = int(own["expires"])
    message.timestamp_ms = int(own["timestamp"])
    message.persistent = own["persistent"] == "true"
    message.priority = int(own["priority"])
    message.group = own["group"]
    message.group_sequence = int(own["sequence"])
    return message


# The STOMP header on the left is the neutral field on the right.
NEUTRAL_FIELDS = {
    "correlation-id": "correlation_id",
    "reply-to": "reply_to",
    "type": "subject",
    "content-type": "content_type",
    "content-encoding": "content_encoding",
    "user-id": "user_id",
}

# Said by another field of the neutral form.
CONSUMED = (
    "destination",
    "message_group",
    "JMSXGroupID",
    "JMSXGroupId",
    "JMSXGroupSeq",
    "persistent",
    "priority",
    "timestamp",
    "retain",
    "AMQ_SCHEDULED_DELAY",
)


def from_neutral(neutral: Neutral, destination: str, group_header: str | None) -> StompMessage:
    """Make what a STOMP client reads of another protocol's message.

    The group travels under the queue's own header, or under both names STOMP clients look for.
    """
    headers: list[tuple[str, str]] = [("destination", destination)]
    for name, field in NEUTRAL_FIELDS.items():
        value = getattr(neutral, field)
        if value:
            headers.append((name, value))
    if neutral.group_id:
        names = ("message_group", "JMSXGroupID") if group_header is None else (group_header,)
        headers.extend((name, neutral.group_id) for name in names)
    if neutral.group_sequence:
        headers.append(("JMSXGroupSeq", str(neutral.group_sequence)))
    if neutral.persistent:
        headers.append(("persistent", "true"))
    if neutral.priority != DEFAULT_PRIORITY:
        headers.append(("priority", str(neutral.priority)))
    if neutral.created_ms:
        headers.append(("timestamp", str(neutral.created_ms)))
    if neutral.message_id:
        headers.append(("amqp-message-id", neutral.message_id))
    if neutral.body_kind == "text":
        headers.append(("amqp-body", "string"))
        if not neutral.content_type:
            headers.append(("content-type", "text/plain"))
    elif neutral.body_kind == "json":
        headers.append(("amqp-body", neutral.body_shape))
        if not neutral.content_type:
            headers.append(("content-type", "application/json"))
    for name, property_value in neutral.properties.items():
        text = _as_text(property_value)
        if text is not None:
            headers.append((name, text))
    message = StompMessage(make_block(headers), neutral.body)
    message.given_id = neutral.message_id
    message.expires_ms = neutral.expires_ms
    message.group = neutral.group_id
    message.group_sequence = neutral.group_sequence
    message.priority = neutral.priority
    message.persistent = neutral.persistent
    return message


def _restore_shape(neutral: Neutral, shape: str) -> None:
    """Let the `amqp-body` header decide what the body was."""
    if shape == "string":
        neutral.body_kind = "text"
    elif shape in ("map", "list", "sequence"):
        neutral.body_kind = "json"
        neutral.body_shape = shape
    elif shape == "data":
        neutral.body_kind = "data"


def _as_text(value: Value) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes) or value is None:
        return None
    return str(value)


def _is_text_type(content_type: str) -> bool:
    return content_type.startswith(("text/", "application/json", "application/xml"))


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


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
