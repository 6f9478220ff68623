# Compiled by mypyc: see setup.py.
"""StompConsumer: the consumer of a STOMP subscription.

It puts what the core delivers into its connection's outbox (`message_frame` writes the frames) and
remembers what the client has to acknowledge (`holding`).

A message of another protocol is translated first. Messages of the same form need only one
translation: the next ones get their own body and id, and share the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from covey.core.host.feed import Fan
from covey.core.model.consumer import Consumer, Window
from covey.core.model.entry import Entry
from covey.core.model.message import Message
from covey.core.naming.destination import DURABLE_PREFIX, Destination, Kind
from covey.core.queue.queue import Queue
from covey.protocols.engine import LARGE
from covey.protocols.stomp.holding import Held, bare
from covey.protocols.stomp.message import StompMessage, from_neutral
from covey.protocols.stomp.message_frame import MessageFrames
from covey.protocols.stomp.subscribe import AckMode, SubscribeHeaders
from covey.protocols.stomp.versions import Version

if TYPE_CHECKING:
    from covey.core.dispatch.lane import Lane
    from covey.core.host.virtual_host import VirtualHost
    from covey.protocols.stomp.session import StompSession

V1_2: Final = Version.V1_2


class StompConsumer(Consumer):
    """Reads one queue, or topics, for one subscription."""

    __slots__ = (
        "asked",
        "engine",
        "frames",
        "holding",
        "id_prefix",
        "is_credited_by_ack",
        "is_held_by_number",
        "is_older",
        "is_only_credited",
        "is_settled_alone",
        "keeps_ids",
        "pattern",
        "pattern_form",
        "pattern_lane",
        "reads_many",
        "stomp_session",
        "tracks",
        "translated",
        "version",
    )

    def __init__(
        self,
        session: StompSession,
        asked: SubscribeHeaders,
        window: Window,
        frames: MessageFrames,
        *,
        reads_many: bool = False,
    ) -> None:
        """Read for a subscription, with the writer of its frames.

        `reads_many`: its destination stands for several places.
        """
        super().__init__(session.core, window)
        engine = session.engine
        self.engine = engine
        self.stomp_session = session
        self.asked = asked
        version = session.version
        self.version = version
        self.frames = frames
        self.tracks = asked.ack is not AckMode.AUTO or asked.credit.is_explicit
        self.is_older = version is not V1_2
        self.holding = session.holding
        self.is_only_credited = asked.ack is AckMode.AUTO or asked.is_browser  # by an ACK
        is_individual = asked.ack is AckMode.INDIVIDUAL and not asked.is_browser
        # The client may hold two copies of one message: the subscription reads several places, or
        # the message was sent to several.
        self.keeps_ids = self.is_older or reads_many or bool(asked.durable_name)
        self.is_held_by_number = is_individual and not self.keeps_ids
        self.is_presettled = asked.ack is AckMode.AUTO
        self.is_browser = asked.is_browser
        self.is_settled_alone = is_individual
        self.is_credited_by_ack = asked.credit.is_raised_by_ack
        self.browse_ends = asked.browse_ends
        self.is_exclusive = asked.is_exclusive
        self.is_no_local = asked.is_no_local
        self.wants_revoked = asked.wants_revoked
        self.selector = None if asked.durable_name else asked.selector
        self.from_seq = 0 if asked.from_seq is None else asked.from_seq
        self.priority = asked.priority
        self.weight = asked.weight
        self.deadline_asked = asked.deadline_s
        self.group_asked = asked.group
        self.client_id = session.core.client_id
        self.unsettled_max = engine.broker.limits.unsettled_max
        self.reads_many = reads_many
        self.pattern: StompMessage | None = None  # the last translation, its form, its topic
        self.pattern_form: object = None
        self.pattern_lane: Lane | None = None
        self.id_prefix = b""  # for translated messages that have no id of their own
        self.translated = 0

    def deliver(self, entry: Entry) -> None:
        """Write the message into the connection's outbox."""
        try:
            message = entry.message
            assert message is not None
            stomp = (
                message if isinstance(message, StompMessage) else self._translated(entry, message)
            )
            tag = 0
            held_id = ""
            if self.is_held_by_number and not stomp.given_id and not stomp.is_copied:
                holding = self.holding
                tag = holding.last_tag + 1
                holding.last_tag = tag
                holding.messages[tag] = Held(self, entry, "")
            elif self.tracks:
                kept = bare(entry) if self.is_only_credited else entry
                if not self.keeps_ids and stomp.given_id and self._may_be_own(stomp.given_id):
                    self._keep_ids()
                is_by_id = self.keeps_ids or stomp.given_id != "" or stomp.is_copied
                held = Held(self, kept, stomp.message_id() if is_by_id else "")
                tag = self.holding.add(held)
                held_id = held.message_id
            body = stomp.body
            if len(body) < LARGE:
                self.engine.send(self.frames.write(entry, stomp, tag, held_id, body))
            else:
                frame = self.frames.write(entry, stomp, tag, held_id, b"")
                self.engine.send_around(frame, body)
        except Exception as error:  # this connection's fault, not that of the turn's connection
            self.engine.failed(error)

    def deliver_fan(self, fan: Fan) -> None:
        """Write a topic's messages as one piece, from bytes that subscribers share."""
        try:
            written = b"" if self.tracks else self.frames.write_fan(fan)
        except Exception as error:  # as in `deliver`
            self.engine.failed(error)
            return
        if written:
            self.engine.send(written)
        else:
            super().deliver_fan(fan)

    def browse_ended(self) -> None:
        """Tell a browser that it has seen the last message, and what the queue holds.

        A browser of several queues is told once, after the last queue.
        """
        if not self.window.browsing:
            queue = self.queue
            figures = queue_figures(queue) if isinstance(queue, Queue) else []
            names = [one.queue.name for one in self.window.consumers if one.queue is not None]
            figures.append(("queues", ",".join(names)))
            self.engine.send(self.frames.write_notice([("browser", "end"), *figures]))

    def revoked(self, group: str) -> None:
        """Tell the client that it no longer owns a group."""
        self.engine.send(self.frames.write_notice([("covey-group-revoked", group)]))

    def group_done(self, group: str) -> None:
        """Tell the client that the only group it asked for is done, and end the subscription."""
        self.engine.send(self.frames.write_notice([("covey-group-done", group)]))
        self.stomp_session.end_subscription(self)

    def ran_out(self, entries: list[Entry]) -> None:
        """Called when the client held messages for too long: its ACKs of them are late now."""
        self.holding.run_out(self, entries)

    def cancelled(self, reason: str) -> None:
        """End the connection: what the subscription reads from is gone."""
        self.engine.kick(f"subscription {self.asked.id} ended: {reason}")

    def _translated(self, entry: Entry, message: Message) -> StompMessage:
        """Translate another protocol's message; messages of the same form share a translation.

        A message without an id gets one from its queue and its number in that queue. So the id is
        the same at each delivery. A topic has no numbers, so this consumer counts its messages.
        """
        queue = self.queue
        form = message.form()
        pattern = self.pattern
        # If several topics are read, the lane tells which topic this is.
        lane = entry.lane if self.reads_many and not isinstance(queue, Queue) else None
        is_alike = form is not None and form is self.pattern_form and lane is self.pattern_lane
        if pattern is not None and is_alike:
            made = pattern.with_body(message.content())
        else:
            header = queue.discipline.key.header if isinstance(queue, Queue) else None
            made = from_neutral(message.neutral(), self._destination(entry), header)
            self.pattern = made
            self.pattern_form = form
            self.pattern_lane = lane
            self.id_prefix = self.id_prefix or self._new_id_prefix()
        self.translated += 1
        made.id_prefix = self.id_prefix
        made.id_number = entry.seq if isinstance(queue, Queue) else self.translated
        return made

    def _may_be_own(self, given_id: str) -> bool:
        """Return True if a sender's id looks like one that the broker made."""
        own = self.id_prefix.decode()
        return given_id.startswith(self.engine.broker.instance) or (
            own != "" and given_id.startswith(own)
        )

    def _keep_ids(self) -> None:
        """Remember the ids of all messages from now on, and of those that the client holds.

        A client may send on what it read with the id that this broker gave. So what it holds by
        number alone may have a twin.
        """
        self.keeps_ids = True
        self.is_held_by_number = False
        for tag, held in self.holding.messages.items():
            message = held.entry.message
            if held.consumer is not self or held.message_id or message is None:
                continue
            own = message if isinstance(message, StompMessage) else None
            made = f"{self.id_prefix.decode()}{held.entry.seq}"
            self.holding.name(tag, held, made if own is None else own.message_id())

    def _destination(self, entry: Entry) -> str:
        """Return where another protocol's message was sent to, in this client's syntax."""
        if not self.reads_many:
            return self.asked.destination
        queue = self.queue
        if not isinstance(queue, Queue):
            place = Destination(Kind.TOPIC, entry.lane.name)
        elif _is_behind(queue, self.session.host):
            place = Destination(Kind.DSUB, queue.name.removeprefix(DURABLE_PREFIX))
        else:
            place = Destination(Kind.QUEUE, queue.name)
        return self.stomp_session.names.syntax.render(place)

    def _new_id_prefix(self) -> bytes:
        engine = self.engine
        queue = self.queue
        if isinstance(queue, Queue):
            host = self.session.host
            kind = "dsub" if _is_behind(queue, host) else "queue"
            place = f"{engine.broker.limits.id}-{host.id}-{kind}-{queue.name}-"
            return quote(place, safe="").encode()  # so that nothing in it needs an escape
        stomp_session = self.stomp_session
        stomp_session.readers += 1
        return f"{engine.broker.instance}-{self.session.id}-{stomp_session.readers}-".encode()


def _is_behind(queue: Queue, host: VirtualHost) -> bool:
    """Return True if a queue belongs to a durable subscription; its name alone does not tell."""
    return host.queues.get(queue.name) is not queue


def queue_figures(queue: Queue) -> list[tuple[str, str]]:
    """Return headers that say what a queue holds.

    The numbers tell a client that remembers its position where it can start and end. The window
    tells a client that sends again how many message ids the queue remembers, and for how long.
    """
    ids = queue.discipline.duplicates
    return [
        ("first-seq", str(queue.first_seq)),
        ("last-seq", str(queue.next_seq - 1)),
        ("retained-from", str(queue.retained_from)),
        ("queue-messages", str(queue.state.index.count)),
        ("queue-bytes", str(queue.size)),
        ("duplicate-window", "0" if ids is None else str(ids.window)),
        ("duplicate-window-s", "0" if ids is None else f"{ids.window_s:g}"),
    ]
