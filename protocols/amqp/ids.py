"""Message ids: an AMQP id has a type, everybody else's is text.

    ulong 7          "ulong:7"            uuid     "uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
    binary 0a ff     "binary:0aff"        string   as it is

A string that looks like one of the others gets "string:" before it, so that every id has one text
and every text is one id. Only the exact form counts: "ulong:007" is a string.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from covey.protocols.amqp import encoder

ULONG: Final = "ulong:"
UUID_PREFIX: Final = "uuid:"
BINARY: Final = "binary:"
STRING: Final = "string:"

_ULONG_DIGITS_MAX: Final = 20


def id_text(value: object) -> str:
    """Return the text of an id as decoded; "" for none."""
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
    """Say whether a text, behind any number of "string:", is a typed id."""
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
