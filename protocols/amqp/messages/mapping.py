# Compiled by mypyc: see setup.py.
"""Mapping: an AMQP message to the neutral form, and a neutral message to AMQP.

| neutral                 | AMQP 1.0                                       | note                |
|-------------------------|------------------------------------------------|---------------------|
| message_id, correlation | properties message-id, correlation-id          | typed: see `bodies` |
| to, reply_to, subject   | properties of that name                        |                     |
| content_type, encoding  | properties content-type, content-encoding      | symbols             |
| user_id                 | properties user-id                             | UTF-8               |
| created_ms              | properties creation-time                       |                     |
| expires_ms              | properties absolute-expiry-time, header ttl    | ttl is what is left |
| group_id, sequence      | properties group-id, group-sequence            | -1 is 0xFFFFFFFF    |
| priority, persistent    | header priority, durable                       |                     |
| properties              | application-properties                         | plain values only   |
| body                    | data, sequence or value                        | see `bodies`        |
| traceparent, tracestate | the same; else the annotations of these names  | W3C trace context   |
| dead_reason             | annotation x-opt-dead-letter-reason            | of dead letters     |
| dead_origin             | x-opt-dead-letter-queue, -group, -seq, ...     | of dead letters     |

Nothing here fails: AMQP input was scanned, and at delivery it is too late to refuse a message.
Empty fields of the neutral message are left out. Application properties that name the group do not
become properties: the group is a field of its own. A property that is a list, a map or binary has
no neutral form, and is left out, too.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from covey.core.model.message import TRACE_PARENT, TRACE_STATE, Neutral
from covey.core.selector import Value
from covey.groups.key import DEFAULT_HEADERS
from covey.protocols.amqp.codec import encoder
from covey.protocols.amqp.codec.decoder import decode, decode_map, pick, text_at
from covey.protocols.amqp.codec.encoder import NULL
from covey.protocols.amqp.messages.bodies import encode_body, encode_id, id_text, read_body
from covey.protocols.amqp.messages.sections import (
    APPLICATION_PROPERTIES,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    CORRELATION_ID,
    CREATION_TIME,
    MESSAGE_ID,
    PROPERTIES,
    REPLY_TO,
    SUBJECT,
    TO,
    USER_ID,
    Sections,
)
from covey.protocols.amqp.messages.splice import (
    DEAD_ANNOTATION,
    DEAD_ANNOTATIONS,
    DEAD_PREFIX,
    FIRST_ANNOTATION_PAIR,
    FIRST_PROPERTY,
    FIRST_PROPERTY_PAIR,
    ORIGIN_FIELDS,
    dead_pair,
    header_section,
    new_annotations,
    origin_pairs,
    remaining_ms,
    seq_pair,
)

PRIORITY_MAX: Final = 9  # of JMS and STOMP; AMQP allows 255

# Application properties that stand for the group-id and the group-sequence.
SEQUENCE_PROPERTY: Final = "JMSXGroupSeq"
GROUP_PROPERTIES: Final = (*DEFAULT_HEADERS, SEQUENCE_PROPERTY)

# What does not become a property: other fields hold it, or only the broker may write it.
_DEAD_NAME: Final = DEAD_ANNOTATION.encode()
_DEATH_NAMES: Final = frozenset([name.encode() for name in DEAD_ANNOTATIONS])
_TRACE_NAMES: Final = frozenset((TRACE_PARENT.encode(), TRACE_STATE.encode()))
_NOT_PROPERTIES: Final = frozenset((*GROUP_PROPERTIES, FIRST_PROPERTY))


def read_neutral(data: bytes, sections: Sections) -> Neutral:
    """Return the neutral form of properties, application properties and body.

    The caller, `AmqpMessage`, adds the other fields.
    """
    neutral = Neutral()
    properties = sections.properties
    neutral.message_id = id_text(field(data, properties, MESSAGE_ID))
    neutral.correlation_id = id_text(field(data, properties, CORRELATION_ID))
    neutral.to = text_field(data, properties, TO)
    neutral.subject = text_field(data, properties, SUBJECT)
    neutral.reply_to = text_field(data, properties, REPLY_TO)
    neutral.content_type = text_field(data, properties, CONTENT_TYPE)
    neutral.content_encoding = text_field(data, properties, CONTENT_ENCODING)
    neutral.user_id = user_field(data, properties)
    created = field(data, properties, CREATION_TIME)
    neutral.created_ms = created if isinstance(created, int) else 0
    _read_death(data, sections, neutral)
    for name, value in plain_properties(data, sections).items():
        if name not in _NOT_PROPERTIES and not isinstance(value, bytes):
            neutral.properties[name] = value
    if TRACE_PARENT not in neutral.properties:
        neutral.properties.update(annotated_trace(data, sections))
    read_body(data, sections, neutral)
    return neutral


def trace_of(data: bytes, sections: Sections) -> str:
    """Return the trace context of a message, "" if it has none; reads no more than it needs."""
    at = sections.application_properties
    value = pick(data, at, _TRACE_NAMES).get(TRACE_PARENT) if at else None
    if value is None:
        value = annotated_trace(data, sections).get(TRACE_PARENT)
    return value if isinstance(value, str) else ""


def annotated_trace(data: bytes, sections: Sections) -> dict[str, Value]:
    """Return the trace context that message annotations have."""
    at = sections.message_annotations
    if not at:
        return {}
    found = pick(data, at, _TRACE_NAMES)
    return {name: value for name, value in found.items() if isinstance(value, str)}


def _read_death(data: bytes, sections: Sections, neutral: Neutral) -> None:
    at = sections.message_annotations
    if not at or data.find(_DEAD_NAME, at, sections.bare_start) < 0:
        return
    found = pick(data, at, _DEATH_NAMES)
    reason = found.get(DEAD_ANNOTATION)
    neutral.dead_reason = reason if isinstance(reason, str) else ""
    told = {name: found.get(DEAD_PREFIX + name) for name in ORIGIN_FIELDS}
    neutral.dead_origin = {name: str(value) for name, value in told.items() if value is not None}


def field(data: bytes, offsets: list[int], place: int) -> object:
    """Return a field of the header or the properties, None if it is not there."""
    if place >= len(offsets) or not offsets[place]:
        return None
    return decode(data, offsets[place])


def text_field(data: bytes, offsets: list[int], place: int) -> str:
    """Return a field that is text, "" if it is not there."""
    if place >= len(offsets) or not offsets[place]:
        return ""
    return text_at(data, offsets[place])


def user_field(data: bytes, offsets: list[int]) -> str:
    """Return the user-id as text, "" if it is not there."""
    user = field(data, offsets, USER_ID)
    return user.decode("utf-8", "replace") if isinstance(user, bytes) else ""


def plain_properties(data: bytes, sections: Sections) -> dict[str, Value]:
    """Return the application properties that a selector can compute with."""
    found: dict[str, Value] = {}
    if not sections.application_properties:
        return found
    for name, value in decode_map(data, sections.application_properties).items():
        known = plain(value)
        if isinstance(name, str) and known is not None:
            found[name] = known
    return found


def plain(value: object) -> Value:
    """Return a decoded value if a selector can compute with it, else None."""
    if isinstance(value, str | int | float | bytes):  # a bool is an int
        return value
    return str(value) if isinstance(value, UUID) else None


def encode_neutral(
    neutral: Neutral,
    *,
    wall_ms: int,
    deliveries: int = 0,
    is_first: bool = False,
    group_first_property: bool = False,
    seq: int = 0,
) -> bytes:
    """Return the payload of a transfer that carries the message."""
    priority = max(0, min(neutral.priority, PRIORITY_MAX))
    parts = [
        header_section(
            neutral.persistent, priority, remaining_ms(neutral.expires_ms, wall_ms), deliveries
        )
    ]
    annotations = [FIRST_ANNOTATION_PAIR] if is_first else []
    if neutral.dead_reason:
        annotations.append(dead_pair(neutral.dead_reason))
        annotations += origin_pairs(neutral.dead_origin)
    if seq:
        annotations.append(seq_pair(seq))
    parts.append(new_annotations(annotations))
    parts.append(_properties_section(neutral))
    pairs = _property_pairs(neutral)
    if is_first and group_first_property:
        pairs.append(FIRST_PROPERTY_PAIR)
    if pairs:
        encoded = encoder.packed(b"".join(pairs), 2 * len(pairs), is_map=True)
        parts.append(encoder.section(APPLICATION_PROPERTIES, encoded))
    parts.append(encode_body(neutral))
    return b"".join(parts)


def _properties_section(neutral: Neutral) -> bytes:
    fields = [
        _id(neutral.message_id),
        encoder.binary(neutral.user_id.encode("utf-8", "replace")) if neutral.user_id else NULL,
        _text(neutral.to),
        _text(neutral.subject),
        _text(neutral.reply_to),
        _id(neutral.correlation_id),
        encoder.symbol(neutral.content_type) if neutral.content_type else NULL,
        encoder.symbol(neutral.content_encoding) if neutral.content_encoding else NULL,
        encoder.timestamp(neutral.expires_ms) if neutral.expires_ms else NULL,
        encoder.timestamp(neutral.created_ms) if neutral.created_ms else NULL,
        _text(neutral.group_id),
        _sequence(neutral.group_sequence),
    ]
    while fields and fields[-1] == NULL:
        fields.pop()
    return encoder.section(PROPERTIES, encoder.compound(fields))


def _property_pairs(neutral: Neutral) -> list[bytes]:
    return [
        encoder.string(name) + encoder.value(value)
        for name, value in neutral.properties.items()
        if value is not None and name != FIRST_PROPERTY
    ]


def _id(text: str) -> bytes:
    return encode_id(text) if text else NULL


def _text(text: str) -> bytes:
    return encoder.string(text) if text else NULL


def _sequence(number: int) -> bytes:
    """Write a signed group sequence as AMQP's uint."""
    if not number:
        return NULL
    bounded = max(-encoder.INT_MAX - 1, min(number, encoder.INT_MAX))
    return encoder.uint(bounded & encoder.UINT_MAX)
