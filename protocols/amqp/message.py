"""AmqpMessage: an AMQP message as the broker keeps it.

The producer's bytes are kept as they came, with the offsets of their sections beside them. What
the core decides by is read when the message comes; everything else when somebody asks. How it
reaches an AMQP consumer is `render`'s business, but for the common case (`passed_on`).

Rules of this file:
- `decode` is the door: it raises ProtocolError or RefusedError. Nothing fails after it.
- A time to live counts from the moment of receipt, so a store keeps expiry as a time of its own.
- An expiry of 0 means never; so does one before 1970, which no clock can mean.
- A dead letter never expires, and a client that looks at absolute-expiry-time itself would throw
  it away unseen: this one field of the bare message is taken out then. Why it died is annotated.
- Who sent it is kept beside the message: the bare message is the sender's, with a user-id or not.
- What only the broker may annotate is taken out of what comes in.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from covey.core.errors import StoreError
from covey.core.message import Message, Neutral
from covey.core.selector import Value
from covey.protocols.amqp.fields import (
    ABSOLUTE_EXPIRY_TIME,
    DURABLE,
    MESSAGE_ID,
    PRIORITY,
    TO,
    TTL,
    USER_ID,
)
from covey.protocols.amqp.ids import id_text
from covey.protocols.amqp.mapping import (
    PRIORITY_MAX,
    field,
    plain_properties,
    read_neutral,
    text_field,
    user_field,
)
from covey.protocols.amqp.scan import scan
from covey.protocols.amqp.sections import Sections
from covey.protocols.amqp.selection import FIELD_NAMES, selected_field, selected_own
from covey.protocols.amqp.splice import (
    FRESH_HEADERS,
    PRIORITIES,
    dead_annotations,
    header_section,
    unforged,
    without_field,
)
from covey.protocols.amqp.wishes import TIME_MAX_MS, due_time, group_and_sequence, group_place

# What a store keeps before the sections: format, expiry, due time, and the user with its length.
# Every change of this form raises the format: an older release must not misread a newer one.
_TIMES: Final = Struct(">BqqH")
_FORMAT: Final = 2  # 1 was without the user


class AmqpMessage(Message):
    """A message in AMQP's words."""

    kind = "amqp"

    __slots__ = ("_properties", "data", "sections", "user")

    def __init__(self, data: bytes, sections: Sections) -> None:
        super().__init__(sections.body_size)
        self.data = data
        self.sections = sections
        self.user = ""  # who sent it, by its login
        self._properties: dict[str, Value] | None = None

    @classmethod
    def decode(cls, data: bytes, wall_ms: int) -> AmqpMessage:
        """Take a message as it came; raises ProtocolError or RefusedError."""
        sections = scan(data)
        if sections.message_annotations:
            given, data = data, unforged(data, sections)
            if data is not given:
                sections = scan(data)
        message = cls(data, sections)
        message._read_header(wall_ms)
        message._read_properties()
        if sections.message_annotations:
            message.due_ms = due_time(data, sections, wall_ms)
        return message

    def with_content(self, data: bytes) -> AmqpMessage:
        """Return a message of which everything but the content is known to be as here."""
        copy = AmqpMessage(data, self.sections)
        copy.persistent = self.persistent
        copy.priority = self.priority
        copy.expires_ms = self.expires_ms
        copy.group = self.group
        copy.group_sequence = self.group_sequence
        return copy

    def form(self) -> object:
        """Return the sections, which only those share that `with_content` has made."""
        return self.sections

    def content(self) -> bytes:
        """Return the content of the one data section that such a message ends with."""
        return self.data[len(self.data) - self.size :]

    @classmethod
    def restore(cls, head: bytes, body: bytes) -> AmqpMessage:
        """Read a message back from a store; raises StoreError for one of another form."""
        if len(head) < _TIMES.size or head[0] != _FORMAT:
            found = f"format {head[0]}" if head else "no format"
            raise StoreError(f"an AMQP message of {found} in the store, not of format {_FORMAT}")
        _format, expires_ms, due_ms, length = _TIMES.unpack_from(head)
        start = _TIMES.size + length
        data = head[start:] + body
        message = cls(data, scan(data))
        message.user = head[_TIMES.size : start].decode()
        message._read_header(0)
        message._read_properties()
        message.expires_ms = expires_ms
        message.due_ms = due_ms
        return message

    def encode(self) -> tuple[bytes, bytes]:
        """Return our times, the user and everything before the body, then the body."""
        user = self.user.encode()
        times = _TIMES.pack(_FORMAT, self.expires_ms, self.due_ms, len(user))
        cut = self.sections.body_start
        return times + user + self.data[:cut], self.data[cut:]

    def message_id(self) -> str:
        """Return the producer's id, "" if it gave none."""
        return id_text(field(self.data, self.sections.properties, MESSAGE_ID))

    def group_place(self) -> str:
        """Return the property that names the group."""
        return group_place(self.data, self.sections)

    def to(self) -> str:
        """Return the address in the message itself, "" if there is none."""
        return text_field(self.data, self.sections.properties, TO)

    def passed_on(self) -> bytes:
        """Return the payload of a first delivery of which only the header is new, else b""."""
        sections = self.sections
        if self.expires_ms or sections.message_annotations:
            return b""
        header = FRESH_HEADERS[PRIORITIES * self.persistent + self.priority]
        return header + self.data[sections.bare_start :]

    @property
    def names_user(self) -> bool:
        """Say whether the producer says who it is."""
        offsets = self.sections.properties
        return len(offsets) > USER_ID and offsets[USER_ID] > 0

    def user_id(self) -> str:
        """Return who the producer says it is, "" if it says nothing."""
        return user_field(self.data, self.sections.properties)

    def lookup(self, name: str) -> Value:
        """Return a property by its JMS or AMQP name, else the application's own."""
        value: Value = None
        place = FIELD_NAMES.get(name, -1)
        if place == USER_ID:
            value = self.user_id() or self.user or None
        elif place >= 0:
            value = selected_field(self.data, self.sections, place)
        elif name.startswith(("JMS", "amqp.")):
            value = selected_own(self, name)
        if value is not None:
            return value
        if self._properties is None:
            self._properties = plain_properties(self.data, self.sections)
        return self._properties.get(name)

    def neutral(self) -> Neutral:
        """Return the message in no protocol's words."""
        neutral = read_neutral(self.data, self.sections)
        neutral.user_id = neutral.user_id or self.user
        neutral.group_id = self.group
        neutral.group_sequence = self.group_sequence
        neutral.expires_ms = self.expires_ms
        neutral.priority = min(self.priority, PRIORITY_MAX)
        neutral.persistent = self.persistent
        return neutral

    def as_dead_letter(self, reason: str) -> AmqpMessage:
        """Return a copy that never expires and says why it is where it is."""
        data = self.data
        sections = self.sections
        header = header_section(self.persistent, self.priority, 0, 0)
        annotations = dead_annotations(data, sections, reason)
        if field(data, sections.properties, ABSOLUTE_EXPIRY_TIME) is not None:
            bare = without_field(data, sections, ABSOLUTE_EXPIRY_TIME)
        else:
            bare = data[sections.bare_start :]
        data = header + annotations + bare
        copy = AmqpMessage(data, scan(data))
        copy.user = self.user
        copy.persistent = self.persistent
        copy.priority = self.priority
        copy.group = self.group
        copy.group_sequence = self.group_sequence
        copy.sender = self.sender
        return copy

    def _read_header(self, wall_ms: int) -> None:
        offsets = self.sections.header
        if not offsets:
            return
        self.persistent = field(self.data, offsets, DURABLE) is True
        priority = field(self.data, offsets, PRIORITY)
        if isinstance(priority, int):
            self.priority = priority
        ttl = field(self.data, offsets, TTL)
        if isinstance(ttl, int) and ttl:
            self.expires_ms = wall_ms + ttl

    def _read_properties(self) -> None:
        data, sections = self.data, self.sections
        if len(sections.properties) > ABSOLUTE_EXPIRY_TIME:
            expires = field(data, sections.properties, ABSOLUTE_EXPIRY_TIME)
            if isinstance(expires, int) and expires > 0:
                self.expires_ms = min(expires, TIME_MAX_MS)
        self.group, self.group_sequence = group_and_sequence(data, sections)
