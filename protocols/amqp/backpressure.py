# Compiled by mypyc: see setup.py.
"""Backpressure: limits what waits on one connection, for a slow peer and from a blocked one.

To the peer: messages wait in the outboxes of their links until the shell asks for bytes. The
outboxes of all links together may hold `outbox_max` bytes. Beyond that nothing more is delivered
to the peer, until half of that is left.

From the peer: a connection is blocked while one of its messages waits for room. Meanwhile its links
hold back messages. If they hold more than `held_max` bytes, its socket is not read. When the
messages that were held back take longer than a turn may last, the rest is handled in the next
turn (`AmqpEngine.is_behind`), before any frame that came later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covey.protocols.amqp.engine import AmqpEngine
    from covey.protocols.amqp.links.receiver_link import OutgoingLink
    from covey.protocols.amqp.links.sender_link import IncomingLink


class Backpressure:
    """The full outboxes and the stalled links of one connection."""

    __slots__ = (
        "_engine",
        "_stalled",
        "_unflushed",
        "gathered_size",
        "held_sends",
        "held_size",
        "is_paused",
        "outbox_max",
        "outbox_size",
    )

    def __init__(self, engine: AmqpEngine) -> None:
        self._engine = engine
        self._unflushed: list[OutgoingLink] = []
        self._stalled: list[IncomingLink] = []
        self.held_size = 0  # bytes that links hold back
        self.held_sends = 0  # messages held back that belong to a transaction
        self.gathered_size = 0  # bytes of messages that are not complete yet
        self.outbox_size = 0  # bytes in the outboxes of all links
        self.outbox_max = engine.settings.outbox_max
        self.is_paused = False  # the outbox is full: nothing is delivered to this peer

    # To the peer.

    def queued(self, link: OutgoingLink) -> None:
        """Note that a link has something to flush; a full outbox stops deliveries."""
        engine = self._engine
        if not link.is_waiting:
            link.is_waiting = True
            self._unflushed.append(link)
            engine.has_news()
        is_full = self.outbox_size > self.outbox_max
        if is_full and not self.is_paused and engine.session is not None:
            self.is_paused = True
            engine.session.pause()

    def flush(self, parts: list[bytes], room: int) -> int:
        """Write the transfers that may leave now; return the bytes of their messages.

        A link that waits and could write nothing is first the next time. So no link always gets
        all the room, or all of a session's window.
        """
        waiting, self._unflushed = self._unflushed, []
        served: list[OutgoingLink] = []
        written = 0
        for link in waiting:
            if link.is_ended:
                continue
            size = link.flush(parts, room - written)
            self.outbox_size -= size
            written += size
            link.is_waiting = bool(link.outbox) or link.drain.is_due
            if link.is_waiting:
                (served if size else self._unflushed).append(link)
        self._unflushed += served
        return written

    def ease(self) -> None:
        """Let deliveries go on when the outboxes are at most half full."""
        if not self.is_paused or self.outbox_size * 2 > self.outbox_max:
            return
        self.is_paused = False
        engine = self._engine
        if engine.session is not None:
            engine.session.unpause()
            engine.links.go_on()
            engine.broker.wake()

    # From the peer.

    def hold(self, state: bytes, data: bytes) -> None:
        """Count a delivery that is held back."""
        self.held_size += len(data)
        self.held_sends += state != b""

    def let_go(self, state: bytes, data: bytes) -> None:
        """Count a delivery that is held back no longer."""
        self.held_size -= len(data)
        self.held_sends -= state != b""

    def stall(self, link: IncomingLink) -> None:
        """Note that a link has to wait: with its held messages, or with new credit."""
        if link not in self._stalled:
            self._stalled.append(link)

    def go_on(self) -> None:
        """Handle what was held back while the connection was blocked, commands last."""
        engine = self._engine
        if engine.session is None or engine.session.must_wait or not self._stalled:
            return
        stalled, self._stalled = self._stalled, []
        for link in sorted(stalled, key=lambda each: not each.needs_room):
            link.work()
        engine.framing.renew()

    @property
    def is_full(self) -> bool:
        """Return True if the links hold back as much as they may."""
        return self.held_size >= self._engine.settings.held_max
