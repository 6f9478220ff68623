"""Render: the payload of a transfer that delivers a message to an AMQP consumer.

A consumer gets a new header and the message annotations, then the bare message bit by bit.
Delivery annotations were for us and end here. What another protocol brought is encoded anew.
"""

from __future__ import annotations

from covey.core.message import Message
from covey.protocols.amqp.mapping import encode_neutral
from covey.protocols.amqp.message import AmqpMessage
from covey.protocols.amqp.splice import (
    FIRST_ANNOTATION_PAIR,
    annotations_section,
    first_property_section,
    header_section,
    remaining_ms,
    says_first,
    seq_pair,
    user_pair,
)


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
