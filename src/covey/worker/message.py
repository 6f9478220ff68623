"""Message: what a handler gets, and what it may send in answer.

What a handler sends through its message (`send`) goes to the broker together with the
acknowledgement, in one transaction: either the message is acknowledged and its follow-ups are in
their queues, or none of it has happened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from covey.worker.outgoing import Body, Outgoing, trace_headers

SEQ_HEADER: Final = "covey-seq"  # the header in which the broker tells a message's number
GROUP_HEADERS: Final = ("message_group", "JMSXGroupID", "JMSXGroupId")


class Message:
    """A message that came."""

    __slots__ = ("ack_id", "body", "group", "headers", "outbox", "sequence")

    def __init__(
        self, headers: Mapping[str, str], body: bytes, group_headers: Sequence[str] = GROUP_HEADERS
    ) -> None:
        """Read what the broker wrote."""
        self.headers = headers
        self.body = body
        found = [headers[name] for name in group_headers if headers.get(name)]
        self.group: str | None = found[0] if found else None
        self.sequence = int(headers.get(SEQ_HEADER, "0"))  # its number in its queue
        self.ack_id = headers.get("ack", "")
        self.outbox: list[Outgoing] = []

    def __repr__(self) -> str:
        group = f" group={self.group!r}" if self.group else ""
        return f"<Message {self.id}{group} {self.body[:60]!r}>"

    @property
    def id(self) -> str:
        """The message's id, from its sender or the broker; the same for each delivery."""
        own = self.headers.get("message-id", "")
        return self.headers.get("covey-message-id", own)

    @property
    def destination(self) -> str:
        """The destination that the message was sent to."""
        return self.headers.get("destination", "")

    @property
    def text(self) -> str:
        """The body as UTF-8."""
        return self.body.decode()

    def json(self) -> Any:
        """Read the body as JSON."""
        return json.loads(self.body)

    @property
    def redelivered(self) -> bool:
        """True if a consumer had the message before, and may have handled it in part."""
        return self.headers.get("redelivered") == "true"

    @property
    def is_first_for_consumer(self) -> bool:
        """True if the group has just come to this worker: cached values of the group are stale."""
        return self.headers.get("JMSXGroupFirstForConsumer") == "true"

    @property
    def reply_to(self) -> str:
        """The destination for a reply; "" if the sender awaits none."""
        return self.headers.get("reply-to", "")

    @property
    def correlation_id(self) -> str:
        """The id by which the sender matches a reply with its request."""
        return self.headers.get("correlation-id", "") or self.id

    @property
    def sent_at(self) -> float | None:
        """When the message was sent, in seconds since the epoch; None if it does not say."""
        text = self.headers.get("timestamp", "")
        return int(text) / 1000 if text.isascii() and text.isdigit() else None

    def send(
        self,
        destination: str,
        body: Body,
        *,
        group: str | None = None,
        headers: Mapping[str, str] | None = None,
        id: str | None = None,
        persistent: bool = True,
        ttl: float | None = None,
        delay: float | None = None,
    ) -> None:
        """Send a message when this one is acknowledged, in one transaction with it.

        The new message's id is made from this one's, so that a second try sends the same id.
        """
        number = len(self.outbox) + 1
        outgoing = Outgoing(
            destination,
            body,
            group,
            trace_headers(headers),
            id or f"{self.id}/{number}",
            persistent,
            ttl,
            delay,
        )
        outgoing.frame()  # a message that cannot be sent fails here, in the handler
        self.outbox.append(outgoing)

    def reply(self, body: Body, *, headers: Mapping[str, str] | None = None) -> None:
        """Send a reply when this request is acknowledged; a handler's result is sent likewise."""
        if not self.reply_to:
            raise ValueError(f"message {self.id} awaits no reply")
        self.outbox.append(
            Outgoing(
                self.reply_to,
                body,
                headers=trace_headers(headers),
                persistent=False,
                correlation_id=self.correlation_id,
            )
        )
