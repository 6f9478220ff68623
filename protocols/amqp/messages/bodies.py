# Compiled by mypyc: see setup.py.
"""Bodies: turns an AMQP body into bytes or text for other protocols, and back.

| AMQP                        | neutral kind | shape    | bytes                                |
|-----------------------------|--------------|----------|--------------------------------------|
| data, one or more; no body  | data         |          | all sections joined                  |
| value: string, symbol       | text         | string   | UTF-8                                |
| value: binary               | data         | binary   | as they are                          |
| value: null                 | data         | null     | none                                 |
| value: map, list            | json         | map, list| JSON                                 |
| value: anything else        | json         | value    | JSON                                 |
| sequence, one or more       | json         | sequence | JSON: all of them as one list        |

On the way back the shape decides. Without a shape, text becomes a string, and everything else
becomes data. A body may not fit its shape: it is invalid JSON, or a list where a map is announced.
Such a body is sent as data. By then it is too late to refuse the message.

JSON has no bytes, no uuid and no NaN, and its keys must be text: such values become text. A
described value loses its descriptor. A binary or a uuid is written as in a message id. Message ids
have a type in AMQP, and are text everywhere else:

    ulong 7          "ulong:7"            uuid     "uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
    binary 0a ff     "binary:0aff"        string   as it is

A string that looks like one of the others gets "string:" before it. So every id has exactly one
text, and every text means exactly one id. Only the exact form counts: "ulong:007" is a string.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Final
from uuid import UUID

from covey.core.model.message import Neutral
from covey.protocols.amqp.codec import encoder
from covey.protocols.amqp.codec.checker import DEPTH_MAX
from covey.protocols.amqp.codec.decoder import Described, decode
from covey.protocols.amqp.codec.types import STRETCHED, skip, stretch
from covey.protocols.amqp.messages.sections import DATA, SEQUENCE, VALUE, Sections

ULONG: Final = "ulong:"
UUID_PREFIX: Final = "uuid:"
BINARY: Final = "binary:"
STRING: Final = "string:"

_ULONG_DIGITS_MAX: Final = 20


def id_text(value: object) -> str:
    """Return the text of a decoded id; "" if there is no id."""
    if isinstance(value, str):
        return STRING + value if _looks_typed(value) else value
    if isinstance(value, int):
        return f"{ULONG}{value}"
    if isinstance(value, UUID):
        return f"{UUID_PREFIX}{value}"
    if isinstance(value, bytes):
        return BINARY + value.hex()
    return ""


def encode_id(text: str) -> bytes:
    """Return the encoded id that a text stands for."""
    typed = _typed(text)
    if typed is not None:
        return encoder.ulong(typed) if isinstance(typed, int) else encoder.value(typed)
    if text.startswith(STRING) and _looks_typed(text[len(STRING) :]):
        return encoder.string(text[len(STRING) :])
    return encoder.string(text)


def _looks_typed(text: str) -> bool:
    """Return True if a text is a typed id, after any number of leading "string:"."""
    at = 0
    while text.startswith(STRING, at):
        at += len(STRING)
    return _typed(text[at:]) is not None


def _typed(text: str) -> int | UUID | bytes | None:
    if text.startswith(ULONG):
        return _ulong(text[len(ULONG) :])
    if text.startswith(UUID_PREFIX):
        return _uuid(text[len(UUID_PREFIX) :])
    if text.startswith(BINARY):
        return _binary(text[len(BINARY) :])
    return None


def _ulong(digits: str) -> int | None:
    if not digits.isascii() or not digits.isdigit() or len(digits) > _ULONG_DIGITS_MAX:
        return None
    number = int(digits)
    return number if number <= encoder.ULONG_MAX and str(number) == digits else None


def _uuid(text: str) -> UUID | None:
    try:
        value = UUID(text)
    except ValueError:
        return None
    return value if str(value) == text else None


def _binary(text: str) -> bytes | None:
    try:
        value = bytes.fromhex(text)
    except ValueError:
        return None
    return value if value.hex() == text else None


# Writing a larger body as JSON would stop the broker for more than some 50 ms. Such a body is
# passed on in its AMQP encoding.
JSON_SOURCE_BYTES_MAX: Final = 1024 * 1024

ENCODED_TYPE: Final = "application/amqp"


def read_body(data: bytes, sections: Sections, neutral: Neutral) -> None:
    """Set the body, its kind and its shape in the neutral form."""
    if sections.body_kind == VALUE:
        _read_value(data, sections, neutral)
    elif sections.body_kind == SEQUENCE:
        if sections.body_size > JSON_SOURCE_BYTES_MAX:
            _as_encoded(data, sections, neutral)
        else:
            _as_json(_sequences(data, sections), "sequence", neutral)
    elif sections.body_kind == DATA:
        neutral.body = b"".join([_content(data, at) for at in _starts(data, sections)])


def encode_body(neutral: Neutral) -> bytes:
    """Return the body section."""
    body = neutral.body
    shape = neutral.body_shape
    if shape == "binary":
        return encoder.section(VALUE, encoder.binary(body))
    if shape == "null" and not body:
        return encoder.section(VALUE, encoder.NULL)
    if neutral.body_kind == "json":
        return _from_json(body, shape)
    if neutral.body_kind == "text" and _is_text(body):
        return encoder.section(VALUE, encoder.string(body.decode()))
    return encoder.section(DATA, encoder.binary(body))


def _read_value(data: bytes, sections: Sections, neutral: Neutral) -> None:
    if sections.body_size > JSON_SOURCE_BYTES_MAX and data[sections.body] not in STRETCHED:
        _as_encoded(data, sections, neutral)
        return
    value = _bare(decode(data, sections.body))
    if value is None:
        neutral.body_shape = "null"
    elif isinstance(value, bytes):
        neutral.body = value
        neutral.body_shape = "binary"
    elif isinstance(value, str):
        neutral.body = value.encode()
        neutral.body_kind = "text"
        neutral.body_shape = "string"
    elif isinstance(value, dict):
        _as_json(value, "map", neutral)
    elif isinstance(value, list):
        _as_json(value, "list", neutral)
    else:
        _as_json(value, "value", neutral)


def _as_json(value: object, shape: str, neutral: Neutral) -> None:
    neutral.body = json.dumps(_plain(value), ensure_ascii=False).encode()
    neutral.body_kind = "json"
    neutral.body_shape = shape


def _as_encoded(data: bytes, sections: Sections, neutral: Neutral) -> None:
    end = skip(data, _starts(data, sections)[-1])
    neutral.body = data[sections.body_start : end]
    neutral.content_type = ENCODED_TYPE


def _starts(data: bytes, sections: Sections) -> list[int]:
    """Return the offset of the value of each body section."""
    starts: list[int] = []
    at = sections.body_start
    while at < len(data):
        value = skip(data, at + 1)  # past the descriptor
        if value == sections.footer:
            break
        starts.append(value)
        at = skip(data, value)
    return starts


def _content(data: bytes, at: int) -> bytes:
    start, end = stretch(data, data[at], at + 1)
    return data[start:end]


def _sequences(data: bytes, sections: Sections) -> list[object]:
    items: list[object] = []
    for at in _starts(data, sections):
        sequence = decode(data, at)
        assert isinstance(sequence, list)
        items += sequence
    return items


def _bare(value: object) -> object:
    while isinstance(value, Described):
        value = value.value
    return value


def _plain(value: object) -> object:
    """Turn a value into one that JSON can hold."""
    value = _bare(value)
    if isinstance(value, dict):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bytes | UUID):
        return id_text(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value


def _key(key: object) -> str:
    plain = _plain(key)
    return plain if isinstance(plain, str) else json.dumps(plain)


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _from_json(body: bytes, shape: str) -> bytes:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return encoder.section(DATA, encoder.binary(body))
    is_fit = _is_shallow(value, DEPTH_MAX - 1)
    if shape == "map" and is_fit and isinstance(value, dict):
        return encoder.section(VALUE, encoder.value(value))
    if shape == "list" and is_fit and isinstance(value, list):
        return encoder.section(VALUE, encoder.value(value))
    if shape == "sequence" and is_fit and isinstance(value, list):
        return encoder.section(SEQUENCE, encoder.value(value))
    if shape == "value" and not isinstance(value, dict | list):
        return encoder.section(VALUE, encoder.value(value))
    return encoder.section(DATA, encoder.binary(body))


def _is_shallow(value: object, depth: int) -> bool:
    """Return True if a value is nested at most `depth` deep: the broker itself accepts no more."""
    if isinstance(value, dict):
        return depth > 0 and all(_is_shallow(item, depth - 1) for item in value.values())
    if isinstance(value, list):
        return depth > 0 and all(_is_shallow(item, depth - 1) for item in value)
    return True
