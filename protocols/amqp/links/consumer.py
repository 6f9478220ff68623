# Compiled by mypyc: see setup.py.
"""AmqpConsumer: the core's consumer of one queue, or of topics, for a link.

The core calls a consumer in the middle of a dispatch. So the consumer only encodes a message into
the outbox of its link, and passes notices on to the link.

The payload of a transfer is a new header, then the message annotations, then the bare message
exactly as it came. Delivery annotations were meant for the broker, and are left out. A message of
another protocol is encoded anew.
"""

from __future__ import annotations

from typing import Final

from covey.core.errors import RefusedError, quoted
from covey.core.model.consumer import Consumer
from covey.core.model.entry import FIRST, Entry
from covey.core.model.message import Message
from covey.core.selector import Selector
from covey.protocols.amqp.links.receiver_link import OutgoingLink
from covey.protocols.amqp.messages.mapping import encode_neutral
from covey.protocols.amqp.messages.message import AmqpMessage
from covey.protocols.amqp.messages.splice import (
    FIRST_ANNOTATION_PAIR,
    annotations_section,
    first_property_section,
    header_section,
    remaining_ms,
    revoked_notice,
    says_first,
    seq_pair,
    user_pair,
)

TOLD_MAX: Final = 100  # bytes of a group's name: a detach's reason must fit the smallest frame, 512


def render(
    message: Message,
    *,
    wall_ms: int,
    deliveries: int = 0,
    is_first: bool = False,
    group_first_property: bool = False,
    names_user: bool = False,
    seq: int = 0,
) -> bytes:
    """Return the payload of the transfer that delivers a message to an AMQP consumer.

    A browser is told the message's number, `seq`.
    """
    if not isinstance(message, AmqpMessage):
        return encode_neutral(
            message.neutral(),
            wall_ms=wall_ms,
            deliveries=deliveries,
            is_first=is_first,
            group_first_property=group_first_property,
            seq=seq,
        )
    data = message.data
    sections = message.sections
    ttl_ms = remaining_ms(message.expires_ms, wall_ms) if message.expires_ms else 0
    header = header_section(message.persistent, message.priority, ttl_ms, deliveries)
    pairs = [FIRST_ANNOTATION_PAIR] if is_first else []
    if names_user and message.user and not message.names_user:
        pairs.append(user_pair(message.user))
    if seq:
        pairs.append(seq_pair(seq))
    if pairs or sections.message_annotations:
        header += annotations_section(data, sections, pairs)
    if not group_first_property or not (is_first or says_first(data, sections)):
        return header + data[sections.bare_start :]
    return b"".join(
        (
            header,
            data[sections.bare_start : sections.properties_end],
            first_property_section(data, sections, is_first=is_first),
            data[sections.body_start :],
        )
    )


class AmqpConsumer(Consumer):
    """Reads one queue, or topics, for one link."""

    __slots__ = (
        "engine",
        "first_property",
        "is_usual",
        "link",
        "names_user",
    )

    def __init__(self, link: OutgoingLink, *, selector: Selector | None, is_browser: bool) -> None:
        super().__init__(link.session, link.window)
        self.link = link
        self.engine = link.engine
        self.selector = selector
        self.is_browser = is_browser
        self.browse_ends = False
        self.heeds_holders = True
        self.is_presettled = link.is_presettled
        self.client_id = link.session.client_id
        limits = link.engine.broker.limits
        self.unsettled_max = limits.unsettled_max
        self.first_property = limits.group_first_property
        self.names_user = link.engine.settings.add_user_annotation
        # True: only groups and redeliveries add anything to a message.
        self.is_usual = not (is_browser or self.first_property or self.names_user)

    def deliver(self, entry: Entry) -> None:
        """Encode the message into the link's outbox."""
        try:
            message = entry.message
            if self.is_usual and not entry.deliveries and entry.marks < FIRST:
                payload = message.passed_on() if isinstance(message, AmqpMessage) else b""
                if payload:
                    self.link.put(payload, entry)
                    return
            # A browser holds nothing: another consumer may hold the entry.
            self.link.put(self._rendered(entry), None if self.is_browser else entry)
        except Exception as error:  # this connection's fault, not that of the turn's connection
            self.engine.failed(error)

    def _rendered(self, entry: Entry) -> bytes:
        return render(
            entry.content,
            wall_ms=self.engine.wall_ms,
            deliveries=entry.deliveries,
            is_first=entry.is_first,
            group_first_property=self.first_property,
            names_user=self.names_user,
            seq=entry.seq if self.is_browser else 0,
        )

    def revoked(self, group: str) -> None:
        """Tell the peer that it no longer owns a group. The notice takes a credit, as any message.

        Without credit the notice waits in the outbox.
        """
        self.window.count -= 1
        self.link.put(revoked_notice(group), None)

    def group_done(self, group: str) -> None:
        """End the link: the only group that it asked for is done."""
        done = RefusedError(f"group {quoted(group)} is done: it has no message left", "group-done")
        is_short = len(group.encode("utf-8", "replace")) <= TOLD_MAX
        self.engine.links.close_later(self.link, done, {"group": group} if is_short else None)

    def ran_out(self, entries: list[Entry]) -> None:
        """Called when the peer held deliveries for too long: the link tells it of their release."""
        self.link.run_out(self, entries)

    def drained(self) -> None:
        """Tell the link's drain that this queue has nothing more."""
        self.link.drain.answered(self)

    def cancelled(self, reason: str) -> None:
        """End the link: what it reads from is gone."""
        self.engine.links.close_later(self.link, RefusedError(reason, "deleted"))
