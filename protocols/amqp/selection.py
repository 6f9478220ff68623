"""Selection: what a selector sees of an AMQP message, by the names of JMS and of AMQP.

A name stands for a field of the properties, or for what the broker itself reads of a message; any
other is the application's own. The bytes must have been scanned.
"""

from __future__ import annotations

from typing import Final

from covey.core.message import Message
from covey.core.selector import Value
from covey.protocols.amqp.fields import (
    ABSOLUTE_EXPIRY_TIME,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    CORRELATION_ID,
    CREATION_TIME,
    GROUP_ID,
    GROUP_SEQUENCE,
    MESSAGE_ID,
    REPLY_TO,
    REPLY_TO_GROUP_ID,
    SUBJECT,
    TO,
    USER_ID,
)
from covey.protocols.amqp.ids import id_text
from covey.protocols.amqp.mapping import field
from covey.protocols.amqp.sections import Sections

# Names in selectors: JMS, and "amqp." with the name of the specification.
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
    """Return a field of the properties as a selector sees it."""
    value = field(data, sections.properties, place)
    if place == MESSAGE_ID or place == CORRELATION_ID:
        return id_text(value) or None
    return value if isinstance(value, str | int) else None


def selected_own(message: Message, name: str) -> Value:
    """Return what the broker itself reads of a message, by its name in selectors."""
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
