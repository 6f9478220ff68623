"""Messages: sending one over HTTP, and looking at those of a queue without taking them.

Each request has a session of its own in the core while it lasts. So limits, permissions and the
store treat a request like a connection. A send is answered when the message is safe. If a queue has
no room, the disk is full or memory is used up, the request waits a few seconds. After that the
answer is 503 with the cause, and the message is not taken.

A message that was sent over HTTP (`HttpMessage`) has the neutral form. STOMP and AMQP clients read
it as they read each other's messages. In a store its head is JSON: everything but the body.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Final

import anyio
from starlette.responses import Response

from covey.core.errors import RefusedError
from covey.core.host.subscription import Subscription
from covey.core.management.describe import Attributes, Plain
from covey.core.management.inspection import canonical
from covey.core.management.message_view import describe_message
from covey.core.model.consumer import Consumer, Window
from covey.core.model.entry import Entry
from covey.core.model.message import Message, Neutral, Origin, head_weight
from covey.core.naming.destination import Destination, Kind
from covey.core.selector import Selector, Value, compile_selector
from covey.core.session import Client, Session
from covey.protocols.http.answer import json_answer
from covey.protocols.http.ask import Ask
from covey.protocols.http.schemas import MessageBody


class HttpMessage(Message):
    """A neutral message, as the core keeps it."""

    kind = "http"

    __slots__ = ("_neutral",)

    def __init__(self, neutral: Neutral) -> None:
        super().__init__(len(neutral.body))
        texts = [text for each in neutral.properties.items() for text in map(str, each)]
        self.weight += head_weight(sum(map(len, texts)))
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
        """Return what requests call the group."""
        return "group"

    def lookup(self, name: str) -> Value:
        """Return a property, or another field by its name in JMS or STOMP."""
        neutral = self._neutral
        if name in neutral.properties:
            return neutral.properties[name]
        finder = FIELDS.get(name)
        return None if finder is None else finder(neutral) or None

    def neutral(self) -> Neutral:
        """Return a copy of the neutral form, so that nobody changes the message."""
        return replace(self._neutral, properties=dict(self._neutral.properties))

    def encode(self) -> tuple[bytes, bytes]:
        """Return everything but the body as JSON, and the body."""
        fields = asdict(self._neutral)
        del fields["body"]
        return json.dumps(fields).encode(), self._neutral.body

    def as_dead_letter(self, reason: str, origin: Origin | None = None) -> HttpMessage:
        """Return a copy that never expires and has the reason why it was dead-lettered."""
        told = {} if origin is None else origin.fields()
        copy = HttpMessage(
            replace(self.neutral(), expires_ms=0, dead_reason=reason, dead_origin=told)
        )
        copy.sender = self.sender
        return copy


def decode(head: bytes, body: bytes) -> HttpMessage:
    """Read a message back from a store; raises ValueError if the bytes are no message."""
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

ROOM_WAIT_S: Final = 5.0  # for a full queue: a client can ask again, and waiting is costly


async def send(ask: Ask) -> Response:
    """Put a message into a queue or to a topic's subscribers."""
    assert isinstance(ask.body, MessageBody)
    kind = Kind.QUEUE if ask.route.entity == "queue" else Kind.TOPIC
    target = Destination(kind, canonical(kind, ask.name))
    session = _open(ask)
    try:
        neutral = _neutral(ask, ask.body, session)
        await _publish(ask, session, target, HttpMessage(neutral))
    finally:
        _close(ask, session)
    return json_answer({"message_id": neutral.message_id}, ask.route.status)


async def browse(ask: Ask) -> Response:
    """Show messages in order, from a sequence number on."""
    queue = ask.admin.queue(ask.name)
    session = _open(ask)
    try:
        shown = await _browse(ask, session, Destination(Kind.QUEUE, queue.name))
    finally:
        _close(ask, session)
    items: list[Plain] = list(shown)
    return json_answer({"items": items, "total": queue.state.index.count})


class Browser(Consumer):
    """Looks at a number of messages, and tells when it has seen enough."""

    def __init__(
        self, session: Session, window: Window, from_seq: int, group: str, selector: Selector | None
    ) -> None:
        """Look from a sequence number on; `group` and selector, if given, choose messages."""
        super().__init__(session, window)
        self.group = group
        self.selector = selector
        self.is_browser = True
        self.from_seq = from_seq
        self.limit = window.count
        self.found: list[Attributes] = []
        self.failure: Exception | None = None  # for the request to find
        self.ended = anyio.Event()

    def deliver(self, entry: Entry) -> None:
        """Add a message to the answer, unless it is of another group than the wanted one."""
        if self.group and entry.lane.name != self.group:
            self.window.count += 1  # it was not shown, so it costs no credit
            return
        try:
            self.found.append(describe_message(entry))
        except Exception as error:  # the client whose turn it is must not suffer
            self.failure = error
        if self.failure is not None or len(self.found) >= self.limit:
            self.ended.set()

    def browse_ended(self) -> None:
        """Called when there are no more messages."""
        self.ended.set()

    def cancelled(self, reason: str) -> None:
        """Called when the queue was deleted: there are no more messages."""
        self.ended.set()


async def _browse(ask: Ask, session: Session, queue: Destination) -> list[Attributes]:
    window = Window(ask.number("limit"))
    selector = _selector(ask)
    browser = Browser(session, window, ask.number("from_seq"), ask.text("group"), selector)
    subscription = Subscription(session, "browse", window, lambda: browser)
    ask.broker.subscribe(session, subscription, (queue,), ask.now, is_browser=True)
    ask.broker.run(ask.now)
    await browser.ended.wait()
    if browser.failure is not None:
        raise browser.failure
    return browser.found


def _selector(ask: Ask) -> Selector | None:
    text = ask.text("selector")
    limits = ask.broker.limits
    if not text:
        return None
    return compile_selector(
        text, length_max=limits.selector_length_max, depth_max=limits.selector_depth_max
    )


class Sender(Client):
    """The client side of a request that sends one message."""

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.failure = ""

    def resume(self) -> None:
        """Do nothing: the request has nothing else to send."""

    def kick(self, reason: str) -> None:
        """Called when the message had to wait and was refused then."""
        self.failure = self.failure or reason
        self.ended.set()


async def _publish(ask: Ask, session: Session, target: Destination, message: HttpMessage) -> None:
    broker = ask.broker
    sender = Sender()
    session.client = sender
    ended = sender.ended
    message.sender = session.id
    broker.publishing.publish(session, (target,), message, ended.set)
    broker.run(ask.now)
    with anyio.move_on_after(ROOM_WAIT_S):
        await ended.wait()
    if sender.failure:
        raise RefusedError(sender.failure)
    if session.is_blocked:
        raise RefusedError(f"the message was not taken in time: {session.blocked_on}", "full")
    if not ended.is_set():
        raise RefusedError("the message is there, but not yet safe: the store takes long", "full")


def _open(ask: Ask) -> Session:
    session = ask.broker.open(ask.host, ask.identity, ask.now)
    session.protocol = "http"
    session.remote = ask.remote
    return session


def _close(ask: Ask, session: Session) -> None:
    now = time.monotonic()
    ask.broker.drop(session, now)
    ask.broker.run(now)


def _neutral(ask: Ask, body: MessageBody, session: Session) -> Neutral:
    wall_ms = ask.broker.clock.wall_ms_at(ask.now)
    content = body.content()
    return Neutral(
        body=content,
        body_kind="text" if body.body_base64 is None else "data",
        message_id=body.message_id or f"{ask.broker.instance}-{session.id}-1",
        correlation_id=body.correlation_id,
        reply_to=body.reply_to,
        subject=body.subject,
        content_type=body.content_type,
        group_id=body.group,
        user_id=ask.identity.name,
        created_ms=wall_ms,
        expires_ms=wall_ms + body.ttl_ms if body.ttl_ms else 0,
        priority=body.priority,
        persistent=body.persistent,
        properties=dict(body.properties),
    )
