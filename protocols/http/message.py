"""HttpMessage: a message that was sent over HTTP, kept in no wire's words.

It is the neutral form itself, so STOMP and AMQP clients read it as they read each other's. In a
store its head is JSON, everything but the body.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace

from covey.core.message import Message, Neutral
from covey.core.selector import Value


class HttpMessage(Message):
    """A neutral message, as the core keeps it."""

    kind = "http"

    __slots__ = ("_neutral",)

    def __init__(self, neutral: Neutral) -> None:
        super().__init__(len(neutral.body))
        self._neutral = neutral
        self.persistent = neutral.persistent
        self.priority = neutral.priority
        self.expires_ms = neutral.expires_ms
        self.group = neutral.group_id
        self.group_sequence = neutral.group_sequence

    def message_id(self) -> str:
        """Return the sender's id, or the one the broker made."""
        return self._neutral.message_id

    def group_place(self) -> str:
        """Return the request's word for it."""
        return "group"

    def lookup(self, name: str) -> Value:
        """Return a property, or what JMS and STOMP call one of the other fields."""
        neutral = self._neutral
        if name in neutral.properties:
            return neutral.properties[name]
        finder = FIELDS.get(name)
        return None if finder is None else finder(neutral) or None

    def neutral(self) -> Neutral:
        """Return a copy of it, so that nobody changes the message."""
        return replace(self._neutral, properties=dict(self._neutral.properties))

    def encode(self) -> tuple[bytes, bytes]:
        """Return everything but the body as JSON, and the body."""
        fields = asdict(self._neutral)
        del fields["body"]
        return json.dumps(fields).encode(), self._neutral.body

    def as_dead_letter(self, reason: str) -> HttpMessage:
        """Return a copy that never expires and says why it is where it is."""
        copy = HttpMessage(replace(self.neutral(), expires_ms=0, dead_reason=reason))
        copy.sender = self.sender
        return copy


def decode(head: bytes, body: bytes) -> HttpMessage:
    """Read a message back from a store; raises ValueError if it is none."""
    try:
        return HttpMessage(Neutral(body=body, **json.loads(head)))
    except TypeError as error:
        raise ValueError(f"not a message sent over HTTP: {error}") from error


FIELDS: dict[str, Callable[[Neutral], Value]] = {
    "JMSMessageID": lambda neutral: neutral.message_id,
    "JMSPriority": lambda neutral: neutral.priority,
    "JMSExpiration": lambda neutral: neutral.expires_ms,
    "JMSTimestamp": lambda neutral: neutral.created_ms,
    "JMSDeliveryMode": lambda neutral: "PERSISTENT" if neutral.persistent else "NON_PERSISTENT",
    "JMSXGroupID": lambda neutral: neutral.group_id,
    "JMSXGroupSeq": lambda neutral: neutral.group_sequence,
    "JMSXUserID": lambda neutral: neutral.user_id,
    "JMSType": lambda neutral: neutral.subject,
    "JMSCorrelationID": lambda neutral: neutral.correlation_id,
    "JMSReplyTo": lambda neutral: neutral.reply_to,
    "message-id": lambda neutral: neutral.message_id,
    "content-type": lambda neutral: neutral.content_type,
    "correlation-id": lambda neutral: neutral.correlation_id,
    "reply-to": lambda neutral: neutral.reply_to,
    "type": lambda neutral: neutral.subject,
}
