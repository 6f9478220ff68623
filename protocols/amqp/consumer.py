"""AmqpConsumer: a link's reader of one queue, or of its topics, as the core knows it.

It is called in the middle of a dispatch, so it does no more than encode a message for its link's
outbox, and note what else the link has to hear.
"""

from __future__ import annotations

from covey.core.consumer import Consumer
from covey.core.entry import FIRST, Entry
from covey.core.errors import RefusedError
from covey.core.selector import Selector
from covey.protocols.amqp.message import AmqpMessage
from covey.protocols.amqp.outgoing import OutgoingLink
from covey.protocols.amqp.render import render


class AmqpConsumer(Consumer):
    """A link's reader of one queue, or of its topics."""

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
        # Nothing is added to what a message says itself, but for groups and redeliveries.
        self.is_usual = not (is_browser or self.first_property or self.names_user)

    def deliver(self, entry: Entry) -> None:
        """Encode the message into the link's outbox."""
        message = entry.message
        if self.is_usual and not entry.deliveries and entry.marks < FIRST:
            payload = message.passed_on() if isinstance(message, AmqpMessage) else b""
            if payload:
                self.link.put(payload, entry)
                return
        # A browser holds nothing: the entry may be somebody else's.
        self.link.put(self._rendered(entry), None if self.is_browser else entry)

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

    def drained(self) -> None:
        """Pass on that nothing more will come."""
        self.link.drain.answered(self)

    def cancelled(self, reason: str) -> None:
        """End the link: what it reads from is gone."""
        self.engine.links.close_later(self.link, RefusedError(reason, "deleted"))
