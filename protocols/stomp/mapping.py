"""Mapping: STOMP headers to the fields of a neutral message, and back.

| STOMP header                     | neutral           | note                                    |
|----------------------------------|-------------------|-----------------------------------------|
| `amqp-message-id`, `message-id`  | message_id        | the first wins if both are there        |
| `correlation-id`, `reply-to`     | of that name      |                                         |
| `type`                           | subject           |                                         |
| `content-type`, `-encoding`      | of that name      |                                         |
| `timestamp`                      | created_ms        |                                         |
| `JMSXUserID`, `user-id`          | user_id           | out only: a sender could forge it       |
| `message_group`, `JMSXGroupID`   | group_id          | out: the queue's own header, or both    |
| `JMSXGroupSeq`                   | group_sequence    |                                         |
| `covey-dead-reason`              | dead_reason       | out only                                |
| `covey-dead-queue`, `-group` ... | dead_origin       | out only                                |
| `amqp-body`                      | body kind, shape  | a body that is sent on keeps its kind   |
| any other                        | properties        | as text                                 |

Without `amqp-body` a body is text if it is UTF-8 and its content type does not say otherwise.
"""

from __future__ import annotations

from typing import Final

from covey.core.model.message import DEFAULT_PRIORITY, Neutral
from covey.core.selector import Value

# The STOMP header on the left is the neutral field on the right.
NEUTRAL_FIELDS: Final = {
    "correlation-id": "correlation_id",
    "reply-to": "reply_to",
    "type": "subject",
    "content-type": "content_type",
    "content-encoding": "content_encoding",
}

DEAD_REASON: Final = "covey-dead-reason"
ORIGIN_FIELDS: Final = ("queue", "group", "seq", "count", "time", "consumer")
ORIGIN_HEADERS: Final = {name: f"covey-dead-{name}" for name in ORIGIN_FIELDS}
USER_HEADERS: Final = ("JMSXUserID", "user-id")
ID_HEADER: Final = "amqp-message-id"
BODY_HEADER: Final = "amqp-body"

# Headers that do not become properties: other fields of the neutral form hold them.
CONSUMED: Final = (
    "destination",
    "message_group",
    "JMSXGroupID",
    "JMSXGroupId",
    "JMSXGroupSeq",
    "persistent",
    "priority",
    "timestamp",
    "retain",
    "AMQ_SCHEDULED_DELAY",
    *USER_HEADERS,
)

# What `amqp-body` may say, and the kind of body that it means.
SHAPES: Final = {
    "string": "text",
    "data": "data",
    "binary": "data",
    "null": "data",
    "map": "json",
    "list": "json",
    "sequence": "json",
    "value": "json",
}
TYPES_OF_KINDS: Final = {"text": "text/plain", "json": "application/json"}

TIME_DIGITS_MAX: Final = 15  # the year 33658


def read_headers(headers: dict[str, str], neutral: Neutral) -> None:
    """Fill in what the headers say; the caller has set the fields that the message itself has."""
    left = dict(headers)
    kind = left.get("content-type", "text/plain")
    neutral.body_kind = "text" if _is_text_type(kind) and _is_utf8(neutral.body) else "data"
    for name, field in NEUTRAL_FIELDS.items():
        value = left.pop(name, "")
        if value:
            setattr(neutral, field, value)
    neutral.dead_reason = left.pop(DEAD_REASON, "")
    told = {name: left.pop(header, "") for name, header in ORIGIN_HEADERS.items()}
    neutral.dead_origin = {name: text for name, text in told.items() if text}
    neutral.message_id = left.pop(ID_HEADER, "") or neutral.message_id
    shape = left.pop(BODY_HEADER, "")
    if shape in SHAPES:
        neutral.body_kind = SHAPES[shape]
        neutral.body_shape = "" if shape == "data" else shape
    time = left.get("timestamp", "")
    if time.isascii() and time.isdigit() and len(time) <= TIME_DIGITS_MAX:
        neutral.created_ms = int(time)
    for name in CONSUMED:
        left.pop(name, None)
    neutral.properties.update(left)


def headers_of(
    neutral: Neutral, destination: str, group_header: str | None
) -> list[tuple[str, str]]:
    """Return the headers that the broker itself writes; each name once.

    The group is written under the queue's own header. If the queue has none, it is written under
    both names that STOMP clients look for.
    """
    headers = {"destination": destination}
    for name, field in NEUTRAL_FIELDS.items():
        headers[name] = getattr(neutral, field)
    groups = ("message_group", "JMSXGroupID") if group_header is None else (group_header,)
    headers |= dict.fromkeys(groups, neutral.group_id)
    headers |= dict.fromkeys(USER_HEADERS, neutral.user_id)
    headers["JMSXGroupSeq"] = str(neutral.group_sequence or "")
    headers["persistent"] = "true" if neutral.persistent else ""
    headers["priority"] = "" if neutral.priority == DEFAULT_PRIORITY else str(neutral.priority)
    headers["timestamp"] = str(neutral.created_ms or "")
    headers[ID_HEADER] = neutral.message_id
    headers[DEAD_REASON] = neutral.dead_reason
    headers |= {ORIGIN_HEADERS[name]: text for name, text in neutral.dead_origin.items()}
    kind = neutral.body_kind
    headers[BODY_HEADER] = neutral.body_shape or ("string" if kind == "text" else kind)
    headers["content-type"] = neutral.content_type or TYPES_OF_KINDS.get(kind, "")
    return [(name, value) for name, value in headers.items() if value]


def property_headers(neutral: Neutral, taken: set[str]) -> list[tuple[str, str]]:
    """Return the application's properties as headers.

    Left out: values that have no text form, and names that are `taken`.
    """
    found = []
    for name, value in neutral.properties.items():
        text = _as_text(value)
        if text is not None and name not in taken:
            found.append((name, text))
    return found


def _as_text(value: Value) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes) or value is None:
        return None
    return str(value)


def _is_text_type(content_type: str) -> bool:
    return content_type.startswith(("text/", "application/json", "application/xml"))


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
