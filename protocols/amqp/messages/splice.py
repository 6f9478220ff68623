# Compiled by mypyc: see setup.py.
"""Splice: the sections that a delivery adds to a producer's message, or changes in it.

Every delivery gets a header of its own. Annotations and one property tell what the broker knows:

    first of its group for its consumer    a message annotation; by option an application property,
                                           too, for JMS clients
    the sender                             an annotation, by option
    its place in the queue                 an annotation, for browsers only
    a group that is the link's no longer   an annotation of a notice, which has no body
    why it was dead-lettered               an annotation of a dead letter

All other bytes are the producer's, unchanged. Only sections that must change are built anew, from
their encoded parts.

Only the broker may write these annotations: a producer's are taken out when a message comes
(`unforged`). The property is a part of the bare message, which nobody may change. So as long as the
option is off, the property is passed on as the producer wrote it. With the option on, a producer's
property is replaced or taken out at each delivery.

The bytes must have been scanned. Source: AMQP 1.0 part 3, section 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from covey.core.model.message import ORIGIN_NUMBERS
from covey.protocols.amqp.codec import encoder
from covey.protocols.amqp.codec.decoder import text_at
from covey.protocols.amqp.codec.types import skip, span
from covey.protocols.amqp.messages.sections import (
    APPLICATION_PROPERTIES,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    VALUE,
    Sections,
)

FIRST_ANNOTATION: Final = "x-opt-group-first-for-consumer"
FIRST_PROPERTY: Final = "JMSXGroupFirstForConsumer"
FIRST_ANNOTATION_PAIR: Final = encoder.symbol(FIRST_ANNOTATION) + encoder.TRUE
FIRST_PROPERTY_PAIR: Final = encoder.string(FIRST_PROPERTY) + encoder.TRUE
USER_ANNOTATION: Final = "x-opt-user-id"
SEQ_ANNOTATION: Final = "x-opt-covey-seq"
REVOKED_ANNOTATION: Final = "x-opt-group-revoked"
DEAD_ANNOTATION: Final = "x-opt-dead-letter-reason"

DEAD_PREFIX: Final = "x-opt-dead-letter-"
ORIGIN_FIELDS: Final = ("queue", "group", "seq", "count", "time", "consumer")
ORIGIN_ANNOTATIONS: Final = tuple([DEAD_PREFIX + name for name in ORIGIN_FIELDS])
DEAD_ANNOTATIONS: Final = (DEAD_ANNOTATION, *ORIGIN_ANNOTATIONS)
OWN_ANNOTATIONS: Final = (
    FIRST_ANNOTATION,
    USER_ANNOTATION,
    SEQ_ANNOTATION,
    REVOKED_ANNOTATION,
    *DEAD_ANNOTATIONS,
)
_OWN_MARKS: Final = tuple(name.encode() for name in OWN_ANNOTATIONS)
_PROPERTY_MARK: Final = FIRST_PROPERTY.encode()

PRIORITIES: Final = 256  # a ubyte


def remaining_ms(expires_ms: int, wall_ms: int) -> int:
    """Return the rest of a message's time to live; 0 if it never expires."""
    return max(1, expires_ms - wall_ms) if expires_ms else 0


def header_section(is_durable: bool, priority: int, ttl_ms: int, deliveries: int) -> bytes:
    """Return the header section of a delivery."""
    if not ttl_ms and not deliveries:
        return FRESH_HEADERS[PRIORITIES * is_durable + priority]
    return _header(is_durable, priority, ttl_ms, deliveries)


def _header(is_durable: bool, priority: int, ttl_ms: int, deliveries: int) -> bytes:
    fields = (
        encoder.boolean(is_durable),
        bytes((0x50, priority)),
        encoder.uint(ttl_ms) if ttl_ms else encoder.NULL,
        encoder.boolean(deliveries == 0),  # first-acquirer
        encoder.uint(deliveries),
    )
    return encoder.section(HEADER, encoder.compound(fields))


# The headers of first deliveries without an expiry, as nearly all are. The index is the priority,
# plus `PRIORITIES` if durable.
FRESH_HEADERS: Final = [
    _header(is_durable, priority, 0, 0)
    for is_durable in (False, True)
    for priority in range(PRIORITIES)
]


def user_pair(user: str) -> bytes:
    """Return the annotation that names who sent a message."""
    return encoder.symbol(USER_ANNOTATION) + encoder.string(user)


def seq_pair(seq: int) -> bytes:
    """Return the annotation with a message's number in its queue."""
    return encoder.symbol(SEQ_ANNOTATION) + encoder.ulong(seq)


def revoked_notice(group: str) -> bytes:
    """Return the message that tells a consumer that a group is no longer its own."""
    pair = encoder.symbol(REVOKED_ANNOTATION) + encoder.string(group)
    return FRESH_HEADERS[0] + new_annotations([pair]) + encoder.section(VALUE, encoder.NULL)


def unforged(data: bytes, sections: Sections) -> bytes:
    """Return a message without the annotations that only the broker may write.

    Mostly it has none, and the bytes are returned as they are.
    """
    at = sections.message_annotations
    end = sections.bare_start
    if not any([data.find(mark, at, end) >= 0 for mark in _OWN_MARKS]):
        return data
    return data[:at] + _with_pairs(data, at, OWN_ANNOTATIONS, []) + data[skip(data, at) :]


def annotations_section(data: bytes, sections: Sections, pairs: list[bytes]) -> bytes:
    """Return the section of message annotations, with `pairs` added at the end."""
    at = sections.message_annotations
    if not at:
        return new_annotations(pairs)
    if not pairs:
        return encoder.section(MESSAGE_ANNOTATIONS, data[at : skip(data, at)])
    return encoder.section(MESSAGE_ANNOTATIONS, _with_pairs(data, at, (), pairs))


def new_annotations(pairs: list[bytes]) -> bytes:
    """Return a section of these annotations; b"" if there are none."""
    if not pairs:
        return b""
    encoded = encoder.packed(b"".join(pairs), 2 * len(pairs), is_map=True)
    return encoder.section(MESSAGE_ANNOTATIONS, encoded)


def dead_pair(reason: str) -> bytes:
    """Return the annotation that says why a message was dead-lettered."""
    return encoder.symbol(DEAD_ANNOTATION) + encoder.string(reason)


def origin_pairs(origin: Mapping[str, str]) -> list[bytes]:
    """Return the annotations that say where a dead letter comes from.

    Numbers and the time are encoded as such, not as text.
    """
    pairs = []
    for name, text in origin.items():
        is_number = name in ORIGIN_NUMBERS and text.isdecimal()
        value = encoder.ulong(int(text)) if is_number else encoder.string(text)
        if name == "time" and is_number:
            value = encoder.timestamp(int(text))
        pairs.append(encoder.symbol(DEAD_PREFIX + name) + value)
    return pairs


def dead_annotations(
    data: bytes, sections: Sections, reason: str, origin: Mapping[str, str]
) -> bytes:
    """Return the section of message annotations of a dead letter."""
    pairs = [dead_pair(reason), *origin_pairs(origin)]
    at = sections.message_annotations
    if not at:
        return new_annotations(pairs)
    return encoder.section(MESSAGE_ANNOTATIONS, _with_pairs(data, at, DEAD_ANNOTATIONS, pairs))


def says_first(data: bytes, sections: Sections) -> bool:
    """Return True if a producer may have set the first-for-consumer property."""
    start, end = sections.properties_end, sections.body_start
    return data.find(_PROPERTY_MARK, start, end) >= 0


def first_property_section(data: bytes, sections: Sections, *, is_first: bool) -> bytes:
    """Return the application properties with the broker's first-for-consumer, or without any."""
    at = sections.application_properties
    pairs = [FIRST_PROPERTY_PAIR] if is_first else []
    if at:
        encoded = _with_pairs(data, at, (FIRST_PROPERTY,), pairs)
    else:
        encoded = encoder.packed(FIRST_PROPERTY_PAIR, 2, is_map=True)
    return encoder.section(APPLICATION_PROPERTIES, encoded)


def _with_pairs(data: bytes, at: int, names: tuple[str, ...], pairs: list[bytes]) -> bytes:
    """Return the map at `at` without the keys in `names`, and with `pairs` added."""
    parts: list[bytes] = []
    at, _end, count = span(data, data[at], at + 1)
    for _ in range(count // 2):
        value = skip(data, at)
        end = skip(data, value)
        if text_at(data, at) not in names:
            parts.append(data[at:end])
        at = end
    parts += pairs
    return encoder.packed(b"".join(parts), 2 * len(parts), is_map=True)


def without_field(data: bytes, sections: Sections, place: int) -> bytes:
    """Return the bare message with one field of its properties taken out."""
    parts = [data[at : skip(data, at)] if at else encoder.NULL for at in sections.properties]
    parts[place] = encoder.NULL
    section = encoder.section(PROPERTIES, encoder.compound(parts))
    return section + data[sections.properties_end :]
