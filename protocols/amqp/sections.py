"""Sections: the parts of an encoded message, and where they lie.

    70 header                  list    rewritten by every broker on the way
    71 delivery-annotations    map     for one hop
    72 message-annotations     map     for the infrastructure
    73 properties              list   ┐
    74 application-properties  map    │ the bare message: passed on bit by bit
    75 data, many              binary │
    or 76 sequence, many       list   │
    or 77 value                any    ┘
    78 footer                  map

An offset is that of the value's code, behind the descriptor. 0 means absent: no value can be
there, since a descriptor comes first. `scan` finds them.

Source: AMQP 1.0 part 3, section 3.2.
"""

from __future__ import annotations

from typing import Final

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
FOOTER: Final = 0x78

NAMES: Final = (
    "header",
    "delivery-annotations",
    "message-annotations",
    "properties",
    "application-properties",
    "data",
    "amqp-sequence",
    "amqp-value",
    "footer",
)
# A client may write a descriptor out, as "amqp:header:list".
_KINDS: Final = ("list", "map", "map", "list", "map", "binary", "list", "*", "map")
DESCRIPTORS: Final[dict[object, int]] = {
    f"amqp:{name}:{kind}": HEADER + place
    for place, (name, kind) in enumerate(zip(NAMES, _KINDS, strict=True))
}


class Sections:
    """Where everything is; 0 for what is not there."""

    __slots__ = (
        "application_properties",
        "bare_start",
        "body",
        "body_kind",
        "body_size",
        "body_start",
        "delivery_annotations",
        "footer",
        "header",
        "message_annotations",
        "properties",
        "properties_end",
    )

    def __init__(self) -> None:
        self.header: list[int] = []  # the offset of each field
        self.delivery_annotations = 0
        self.message_annotations = 0
        self.properties: list[int] = []  # the offset of each field
        self.application_properties = 0
        self.body = 0  # the first of its sections
        self.body_kind = 0  # DATA, SEQUENCE, VALUE, or 0
        self.body_size = 0  # bytes of content
        self.footer = 0
        # Where whole sections begin, descriptor included. Between the end of the properties and
        # the start of the body there is nothing but the application properties.
        self.bare_start = 0
        self.properties_end = 0
        self.body_start = 0


def name_of(code: int) -> str:
    """Return a section's name, or its descriptor for one that is none."""
    return NAMES[code - HEADER] if HEADER <= code <= FOOTER else f"0x{code:02x}"
