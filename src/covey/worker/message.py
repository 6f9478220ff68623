"""Message: what a handler gets, and what it may send in answer.

What a handler sends through its message (`send`) leaves together with the acknowledgement, in one
transaction of the broker's: either the message is done and its follow-ups are in their queues, or
none of it happened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from covey.worker.outgoing import Body, Outgoing, trace_headers

SEQ_HEADER: Final = "covey-seq"  # where the broker is asked to write a message's number
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
        """The id its sender gave it, or the broker; the same whenever it comes again."""
        own = self.headers.get("message-id", "")
        return self.headers.get("covey-message-id", own)

    @property
    def destination(self) -> str:
        """Where it was sent to."""
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
        """It was with a consumer before, and may have been handled in part."""
        return self.headers.get("redelivered") == "true"

    @property
    def is_first_for_consumer(self) -> bool:
        """Its group has just come to this worker: what was cached for the group is stale."""
        return self.headers.get("JMSXGroupFirstForConsumer") == "true"

    @property
    def reply_to(self) -> str:
        """Where an answer is awaited; "" if none is."""
        return self.headers.get("reply-to", "")

    @property
    def correlation_id(self) -> str:
        """What an answer must carry so that it finds its question."""
        return self.headers.get("correlation-id", "") or self.id

    @property
    def sent_at(self) -> float | None:
        """When it was sent, in seconds since the epoch, if its sender said so."""
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

        Its id is made of this message's id, so that a second try sends the same one.
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
        outgoing.frame()  # what cannot be sent fails here, in the handler
        self.outbox.append(outgoing)

    def reply(self, body: Body, *, headers: Mapping[str, str] | None = None) -> None:
        """Answer a request when it is acknowledged; a handler's result does the same."""
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
