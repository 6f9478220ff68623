# Compiled by mypyc: see setup.py.
"""Message: what a producer sent, as every room of the broker sees it.

A message is made once, by the protocol that received it, and never changes. Queues, topics and
transactions share the one object. It keeps the producer's own encoding. The core reads the few
fields below and, through `lookup`, any property by name (selectors, group keys). Another protocol
asks for the `neutral` form and encodes that in its own way. Nothing here knows a wire protocol.

What differs from place to place (sequence number, delivery count, who holds it) lives in
`core.model.entry.Entry`, one for each queue the message sits in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

from covey.core.selector import Value

# What a message does to the message that its topic retains.
KEEP_NOTHING: Final = 0
RETAIN: Final = 1
FORGET_RETAINED: Final = 2

TRACE_PARENT: Final = "traceparent"  # the property that says of which trace a message is part
TRACE_STATE: Final = "tracestate"

ORIGIN_NUMBERS: Final = ("seq", "count", "time")  # the fields of an `Origin` that are numbers

DEFAULT_PRIORITY: Final = 4  # JMS and AMQP 1.0 section 3.2.1 agree on 4 of 0..9.


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a dead letter comes from, and what happened to it there."""

    queue: str
    group: str = ""
    seq: int = 0
    count: int = 0  # failed deliveries
    time_ms: int = 0  # when it died
    consumer: str = ""  # who had it last

    def fields(self) -> dict[str, str]:
        """Return what is known of it as texts; protocols put a prefix before these names."""
        numbers = {"seq": self.seq, "count": self.count, "time": self.time_ms}
        texts = {"queue": self.queue, "group": self.group, "consumer": self.consumer}
        known = {name: str(each) for name, each in numbers.items() if each or name == "count"}
        return {name: text for name, text in texts.items() if text} | known


def origin_of(fields: Mapping[str, str]) -> Origin | None:
    """Return the origin that such texts describe, None if they name no queue."""
    queue = fields.get("queue", "")
    if not queue:
        return None
    numbers = [fields.get(name, "") for name in ORIGIN_NUMBERS]
    seq, count, time_ms = [int(text) if text.isdecimal() else 0 for text in numbers]
    return Origin(queue, fields.get("group", ""), seq, count, time_ms, fields.get("consumer", ""))


@dataclass(slots=True)
class Neutral:
    """A message in a form of no protocol: what one protocol hands to another.

    Names follow AMQP 1.0 section 3.2.4 where it has one. `properties` are the application's
    own. `body_kind` says what `body` is: data (bytes), text (UTF-8), or json. `body_shape` says
    what the body was in AMQP, if the kind does not: string, binary, null, map, list, sequence
    or (any other) value. `dead_reason` is why a dead letter died.
    """

    body: bytes = b""
    body_kind: str = "data"
    body_shape: str = ""
    message_id: str = ""
    correlation_id: str = ""
    reply_to: str = ""
    to: str = ""
    subject: str = ""
    content_type: str = ""
    content_encoding: str = ""
    group_id: str = ""
    group_sequence: int = 0
    user_id: str = ""
    dead_reason: str = ""
    dead_origin: dict[str, str] = field(default_factory=dict)  # as `Origin.fields` has it
    created_ms: int = 0
    expires_ms: int = 0
    priority: int = DEFAULT_PRIORITY
    persistent: bool = False
    properties: dict[str, Value] = field(default_factory=dict)


HEAD_FREE: Final = 1024  # bytes; who sends ordinary headers has all of a limit for bodies


def head_weight(length: int) -> int:
    """Return what limits of memory count for headers and properties of so many bytes."""
    return length if length > HEAD_FREE else 0


@mypyc_attr(allow_interpreted_subclasses=True)
class Message(ABC):
    """The fields that the core needs; the rest stays in the producer's encoding.

    `group` is the protocol's native group id, "" for none. STOMP has none: its group headers are
    found by name. A `group_sequence` below zero closes the group. Times are milliseconds since
    the epoch, 0 meaning never. `size` counts content bytes, since credit counts the body and not
    the frame (Apollo STOMP manual). `weight` is what limits of memory count: ten megabytes of
    headers and no body are ten megabytes.
    """

    # Names the encoding in a store; one decoder is registered for each. It must be a ClassVar:
    # else compiled code would read this default instead of a subclass's own.
    kind: ClassVar[str] = ""

    __slots__ = (
        "due_ms",
        "expires_ms",
        "group",
        "group_sequence",
        "is_copied",
        "persistent",
        "priority",
        "retain",
        "sender",
        "size",
        "weight",
    )

    def __init__(self, size: int) -> None:
        self.size = size
        self.weight = size  # and what `head_weight` says
        self.persistent = False
        self.is_copied = False  # it went to several places: one queue may come to have it twice
        self.priority = DEFAULT_PRIORITY
        self.expires_ms = 0
        self.due_ms = 0  # not to be delivered before this time; 0 = at once
        self.group = ""
        self.group_sequence = 0
        self.retain = KEEP_NOTHING  # what a topic does with it for later subscribers
        self.sender = 0  # the session that sent it, for no-local; 0 after a restart

    @abstractmethod
    def message_id(self) -> str:
        """Return the message's id, from the client or from the broker; "" if none."""

    def duplicate_id(self) -> str:
        """Return the client's id, which tells duplicates; "" if the client gave none."""
        return self.message_id()

    def group_place(self) -> str:
        """Return the sender's name for the field that had the group id, for error texts."""
        return "group-id"

    @abstractmethod
    def lookup(self, name: str) -> Value:
        """Return the property called `name` as a selector sees it, None if absent."""

    def trace_parent(self) -> str:
        """Return the sender's trace context (W3C), "" if it gave none."""
        value = self.lookup(TRACE_PARENT)
        return value if isinstance(value, str) else ""

    @abstractmethod
    def neutral(self) -> Neutral:
        """Return the message in a form of no protocol. Costs a full decode."""

    def form(self) -> object:
        """Return an object that stands for all of this message but its `content`.

        Messages that differ only in `content` return the same object, others another one. None
        if that is not known.
        """
        return None

    def content(self) -> bytes:
        """Return the bytes in which messages of the same `form` differ."""
        return b""

    @abstractmethod
    def encode(self) -> tuple[bytes, bytes]:
        """Return head and body as a store keeps them; `kind` names the decoder."""

    def origin(self) -> Origin | None:
        """Return where a dead letter comes from; None if unknown, or not a dead letter."""
        return origin_of(self.neutral().dead_origin)

    @abstractmethod
    def as_dead_letter(self, reason: str, origin: Origin | None = None) -> Message:
        """Return what a dead-letter queue gets: a copy that never expires and says why it died."""
