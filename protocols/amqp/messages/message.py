# Compiled by mypyc: see setup.py.
"""AmqpMessage: an AMQP message as the broker keeps it.

The producer's bytes are kept as they came, together with the offsets of their sections. What the
core needs for its decisions is read when the message comes. Everything else is read when somebody
asks for it. `consumer.render` writes a message for an AMQP consumer, except in the common case
(`passed_on`).

Rules of this file:
- `decode` is the only place that refuses a message: it raises ProtocolError or RefusedError.
  Nothing fails after that, because the bytes were scanned.
- The group is `group-id`, or else an application property by one of the names that other clients
  use. The number in the group is `group-sequence`, or else JMS's property.
- An annotation may delay a delivery, by a time or by a duration (JMS delivery delay).
- A message is refused if its group or its delay has the wrong type.
- A time to live counts from the moment of receipt, so a store keeps the time of expiry itself.
- An expiry of 0 means never. So does one before 1970, which nobody can mean.
- A dead letter never expires. A client that checks absolute-expiry-time itself would drop the dead
  letter unseen. So this field is taken out, although it belongs to the bare message. An annotation
  says why the message was dead-lettered.
- The sender's name is kept beside the message: the bare message must stay as it came, with or
  without a user-id.
- Annotations that only the broker may write are taken out of incoming messages.
- A selector may use the names of JMS and of AMQP. Such a name means a field of the properties, or a
  value that the broker itself reads from a message. Any other name is an application property.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from covey.core.errors import RefusedError, StoreError
from covey.core.model.message import Message, Neutral, Origin, head_weight
from covey.core.selector import Value
from covey.groups.key import DEFAULT_HEADERS, GroupIdError, GroupKey
from covey.protocols.amqp.codec.decoder import pick
from covey.protocols.amqp.messages.bodies import id_text
from covey.protocols.amqp.messages.mapping import (
    GROUP_PROPERTIES,
    PRIORITY_MAX,
    SEQUENCE_PROPERTY,
    field,
    plain,
    plain_properties,
    read_neutral,
    text_field,
    trace_of,
    user_field,
)
from covey.protocols.amqp.messages.sections import (
    ABSOLUTE_EXPIRY_TIME,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    CORRELATION_ID,
    CREATION_TIME,
    DURABLE,
    GROUP_ID,
    GROUP_SEQUENCE,
    MESSAGE_ID,
    PRIORITY,
    REPLY_TO,
    REPLY_TO_GROUP_ID,
    SUBJECT,
    TO,
    TTL,
    USER_ID,
    Sections,
    scan,
)
from covey.protocols.amqp.messages.splice import (
    FRESH_HEADERS,
    PRIORITIES,
    dead_annotations,
    header_section,
    unforged,
    without_field,
)

TIME_MAX_MS: Final = 2**53  # far beyond any calendar, and exact in any number type

DELIVERY_TIME: Final = "x-opt-delivery-time"  # milliseconds since the epoch
DELIVERY_DELAY: Final = "x-opt-delivery-delay"  # milliseconds from now

# These bytes are searched for before anything is decoded: mostly they do not occur.
_GROUP_MARKS: Final = (b"message_group", b"JMSXGroupI")
_DELAY_MARK: Final = b"x-opt-delivery-"
_DELAY_NAMES: Final = frozenset((DELIVERY_TIME.encode(), DELIVERY_DELAY.encode()))

_GROUP_KEY: Final = GroupKey()
_GROUP_NAMES: Final = frozenset(name.encode() for name in GROUP_PROPERTIES)


def group_and_sequence(data: bytes, sections: Sections) -> tuple[str, int]:
    """Return a message's group and its number in the group, from the default places.

    A queue may have a group header of its own; that is not looked at here.
    """
    offsets = sections.properties
    sequence = 0
    if len(offsets) > GROUP_SEQUENCE:
        number = field(data, offsets, GROUP_SEQUENCE)
        sequence = _signed(number) if isinstance(number, int) else 0
    native = text_field(data, offsets, GROUP_ID)
    if not native and not _may_name_group(data, sections):
        return "", sequence
    named: dict[str, Value] = {}
    if not native:
        found = pick(data, sections.application_properties, _GROUP_NAMES)
        named = {name: plain(value) for name, value in found.items()}
    try:
        group = _GROUP_KEY.resolve(native, named.get)
    except GroupIdError as error:
        raise RefusedError(str(error), "invalid") from error
    given = named.get(SEQUENCE_PROPERTY)
    if isinstance(given, int) and not sequence:
        sequence = given
    return group, sequence


def group_place(data: bytes, sections: Sections) -> str:
    """Return the name of the field or property that gives a message's group."""
    if not text_field(data, sections.properties, GROUP_ID):
        named = pick(data, sections.application_properties, _GROUP_NAMES)
        for name in DEFAULT_HEADERS:
            if named.get(name):
                return name
    return "group-id"


def due_time(data: bytes, sections: Sections, wall_ms: int) -> int:
    """Return the time before which a message must not be delivered; 0: at once."""
    start = sections.message_annotations
    if data.find(_DELAY_MARK, start, sections.bare_start) < 0:
        return 0
    given = pick(data, start, _DELAY_NAMES)
    due_ms = 0
    for name, since in ((DELIVERY_TIME, 0), (DELIVERY_DELAY, wall_ms)):
        due = given.get(name)
        if due is None:
            continue
        if not isinstance(due, int) or isinstance(due, bool):
            raise RefusedError(f"{name} must be a whole number of milliseconds", "invalid")
        due_ms = max(0, min(since + due, TIME_MAX_MS))
    return due_ms


def _may_name_group(data: bytes, sections: Sections) -> bool:
    if not sections.application_properties:
        return False
    start, end = sections.properties_end, sections.body_start
    return any([data.find(mark, start, end) >= 0 for mark in _GROUP_MARKS])


def _signed(number: int) -> int:
    """Return a uint as the signed number of JMS: 0xFFFFFFFF is -1, which closes the group."""
    return number - 2**32 if number >= 2**31 else number


# Names in selectors: those of JMS, and "amqp." before the name in the AMQP specification.
FIELD_NAMES: Final[dict[str, int]] = {
    "JMSMessageID": MESSAGE_ID,
    "JMSCorrelationID": CORRELATION_ID,
    "JMSType": SUBJECT,
    "JMSReplyTo": REPLY_TO,
    "JMSDestination": TO,
    "JMSTimestamp": CREATION_TIME,
    "JMSXUserID": USER_ID,
    "amqp.message_id": MESSAGE_ID,
    "amqp.user_id": USER_ID,
    "amqp.to": TO,
    "amqp.subject": SUBJECT,
    "amqp.reply_to": REPLY_TO,
    "amqp.correlation_id": CORRELATION_ID,
    "amqp.content_type": CONTENT_TYPE,
    "amqp.content_encoding": CONTENT_ENCODING,
    "amqp.absolute_expiry_time": ABSOLUTE_EXPIRY_TIME,
    "amqp.creation_time": CREATION_TIME,
    "amqp.group_id": GROUP_ID,
    "amqp.group_sequence": GROUP_SEQUENCE,
    "amqp.reply_to_group_id": REPLY_TO_GROUP_ID,
}


def selected_field(data: bytes, sections: Sections, place: int) -> Value:
    """Return a field of the properties in the form that selectors use."""
    value = field(data, sections.properties, place)
    if place == MESSAGE_ID or place == CORRELATION_ID:
        return id_text(value) or None
    return value if isinstance(value, str | int) else None


def selected_own(message: Message, name: str) -> Value:
    """Return a value that the broker itself reads from a message, by its name in selectors."""
    if name == "JMSPriority" or name == "amqp.priority":
        return message.priority
    if name == "JMSDeliveryMode":
        return "PERSISTENT" if message.persistent else "NON_PERSISTENT"
    if name == "amqp.durable":
        return message.persistent
    if name == "JMSExpiration":
        return message.expires_ms
    if name == "JMSXGroupID":
        return message.group or None
    if name == "JMSXGroupSeq":
        return message.group_sequence
    return None


# What a store keeps before the sections: format, expiry, due time, length of the user's name. Every
# change of this layout needs a new format number: an older release must not misread a newer one.
_TIMES: Final = Struct(">BqqH")
_FORMAT: Final = 2  # format 1 had no user


class AmqpMessage(Message):
    """A message that an AMQP client sent."""

    kind = "amqp"

    __slots__ = ("_properties", "data", "sections", "user")

    def __init__(self, data: bytes, sections: Sections) -> None:
        super().__init__(sections.body_size)
        self.weight += head_weight(len(data) - sections.body_size)
        self.data = data
        self.sections = sections
        self.user = ""  # the login name of the sender
        self._properties: dict[str, Value] | None = None

    @classmethod
    def decode(cls, data: bytes, wall_ms: int) -> AmqpMessage:
        """Make a message of a producer's bytes; raises ProtocolError or RefusedError."""
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
        """Return a message with other content whose other parts are known to be the same."""
        copy = AmqpMessage(data, self.sections)
        copy.persistent = self.persistent
        copy.priority = self.priority
        copy.expires_ms = self.expires_ms
        copy.group = self.group
        copy.group_sequence = self.group_sequence
        return copy

    def form(self) -> object:
        """Return the sections: only messages that `with_content` has made share them."""
        return self.sections

    def content(self) -> bytes:
        """Return the content of the only data section; for messages that share a `form`."""
        return self.data[len(self.data) - self.size :]

    @classmethod
    def restore(cls, head: bytes, body: bytes) -> AmqpMessage:
        """Read a message back from a store; raises StoreError if it has another format."""
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
        """Return what a store keeps: a head (times, user, sections before the body), the body."""
        user = self.user.encode()
        times = _TIMES.pack(_FORMAT, self.expires_ms, self.due_ms, len(user))
        cut = self.sections.body_start
        return times + user + self.data[:cut], self.data[cut:]

    def message_id(self) -> str:
        """Return the message-id that the producer gave, "" if it gave none."""
        return id_text(field(self.data, self.sections.properties, MESSAGE_ID))

    def group_place(self) -> str:
        """Return the property that names the group."""
        return group_place(self.data, self.sections)

    def to(self) -> str:
        """Return the address in the field `to`, "" if there is none."""
        return text_field(self.data, self.sections.properties, TO)

    def passed_on(self) -> bytes:
        """Return the payload of a first delivery if only the header must change, else b""."""
        sections = self.sections
        if self.expires_ms or sections.message_annotations:
            return b""
        header = FRESH_HEADERS[PRIORITIES * self.persistent + self.priority]
        return header + self.data[sections.bare_start :]

    @property
    def names_user(self) -> bool:
        """Return True if the producer has set user-id."""
        offsets = self.sections.properties
        return len(offsets) > USER_ID and offsets[USER_ID] > 0

    def user_id(self) -> str:
        """Return the user-id that the producer has set, "" if it has set none."""
        return user_field(self.data, self.sections.properties)

    def lookup(self, name: str) -> Value:
        """Return a property by its JMS or AMQP name, else an application property."""
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

    def trace_parent(self) -> str:
        """Return the trace context, of the application properties or of the annotations."""
        return trace_of(self.data, self.sections)

    def neutral(self) -> Neutral:
        """Return the message in the neutral form, from which other protocols translate."""
        neutral = read_neutral(self.data, self.sections)
        neutral.user_id = neutral.user_id or self.user
        neutral.group_id = self.group
        neutral.group_sequence = self.group_sequence
        neutral.expires_ms = self.expires_ms
        neutral.priority = min(self.priority, PRIORITY_MAX)
        neutral.persistent = self.persistent
        return neutral

    def as_dead_letter(self, reason: str, origin: Origin | None = None) -> AmqpMessage:
        """Return a copy that never expires and says why the message was dead-lettered."""
        data = self.data
        sections = self.sections
        header = header_section(self.persistent, self.priority, 0, 0)
        told = {} if origin is None else origin.fields()
        annotations = dead_annotations(data, sections, reason, told)
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
