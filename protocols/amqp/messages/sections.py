# Compiled by mypyc: see setup.py.
"""Sections: the parts of an encoded message, and one pass over the bytes that finds them.

    70 header                  list    rewritten by every broker on the way
    71 delivery-annotations    map     for one hop
    72 message-annotations     map     for the infrastructure
    73 properties              list   ┐
    74 application-properties  map    │ the bare message: passed on unchanged
    75 data, many              binary │
    or 76 sequence, many       list   │
    or 77 value                any    ┘
    78 footer                  map

`scan` checks every byte that could make decoding fail, in the broker or in a consumer. It remembers
offsets, and decodes nothing. After a scan every part of the message can be decoded.

Rules of this file:
- Sections come in the order of their descriptors, each at most once. Only data and sequence may be
  repeated. The body has one kind. A message without a body is accepted: some clients leave out an
  empty one.
- An offset is that of the value's type code, after the descriptor. 0 means absent: no value can be
  there, because a descriptor comes first.
- A field of the header or the properties is known by its place. A field may be absent, or must have
  a type that the specification allows. `scan` checks that, so readers of a field get such a type or
  nothing.

Source: AMQP 1.0 part 3, sections 3.2, 3.2.1 and 3.2.4.
"""

from __future__ import annotations

from struct import error as StructError
from typing import Final

from covey.protocols.amqp.codec.checker import Checker, check_text
from covey.protocols.amqp.codec.decoder import decode
from covey.protocols.amqp.codec.types import (
    BINARIES,
    DESCRIBED,
    LIST0,
    LISTS,
    MAPS,
    NULL,
    SHORT_STRING,
    SMALL_ULONG,
    STRETCHED,
    STRINGS,
    SYMBOLS,
    TEXTS,
    UUID_CODE,
    WIDTHS,
    malformed,
    span,
    stretch,
)

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
# A client may write a descriptor as a name, such as "amqp:header:list".
_KINDS: Final = ("list", "map", "map", "list", "map", "binary", "list", "*", "map")
DESCRIPTORS: Final[dict[object, int]] = {
    f"amqp:{name}:{kind}": HEADER + place
    for place, (name, kind) in enumerate(zip(NAMES, _KINDS, strict=True))
}


class Sections:
    """The offsets of a message's sections; 0 for what is absent."""

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
        self.body = 0  # the value of its first section
        self.body_kind = 0  # DATA, SEQUENCE, VALUE, or 0
        self.body_size = 0  # bytes of content
        self.footer = 0
        # These three are offsets of whole sections, descriptor included. Between the end of the
        # properties and the start of the body are only the application properties.
        self.bare_start = 0
        self.properties_end = 0
        self.body_start = 0


def name_of(code: int) -> str:
    """Return a section's name; the number itself if no section has that descriptor."""
    return NAMES[code - HEADER] if HEADER <= code <= FOOTER else f"0x{code:02x}"


Types = tuple[frozenset[int], ...]  # the type codes that are allowed at each place

BOOLEANS: Final = frozenset({0x41, 0x42, 0x56})
UINTS: Final = frozenset({0x43, 0x52, 0x70})
TIMES: Final = frozenset({0x83})
IDS: Final = STRINGS | BINARIES | frozenset({0x44, 0x53, 0x80, UUID_CODE})

# Places in the header, and the type codes that each may have.
DURABLE: Final = 0
PRIORITY: Final = 1
TTL: Final = 2
HEADER_TYPES: Final = (BOOLEANS, frozenset({0x50}), UINTS, BOOLEANS, UINTS)

# Places in the properties, and the type codes that each may have.
MESSAGE_ID: Final = 0
USER_ID: Final = 1
TO: Final = 2
SUBJECT: Final = 3
REPLY_TO: Final = 4
CORRELATION_ID: Final = 5
CONTENT_TYPE: Final = 6
CONTENT_ENCODING: Final = 7
ABSOLUTE_EXPIRY_TIME: Final = 8
CREATION_TIME: Final = 9
GROUP_ID: Final = 10
GROUP_SEQUENCE: Final = 11
REPLY_TO_GROUP_ID: Final = 12
PROPERTY_TYPES: Final = (
    *(IDS, BINARIES, TEXTS, TEXTS, TEXTS, IDS, TEXTS, TEXTS),
    *(TIMES, TIMES, TEXTS, UINTS, TEXTS),
)


def scan(data: bytes) -> Sections:
    """Find the sections of an encoded message; raises ProtocolError or RefusedError."""
    if not data:
        raise malformed("a message without a single byte")
    try:
        return _Scan(data).run()
    except (IndexError, StructError) as error:
        raise malformed("the message is cut short") from error


class _Scan:
    """One pass over one message."""

    __slots__ = ("checker", "data", "sections")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sections = Sections()
        self.checker: Checker | None = None  # made when needed: most messages need none

    def run(self) -> Sections:
        data = self.data
        sections = self.sections
        bare = -1
        body = -1
        last = 0
        at = 0
        size = len(data)
        while at < size:
            start = at
            if data[at] == DESCRIBED and data[at + 1] == SMALL_ULONG:
                code = data[at + 2]
                at += 3
            else:
                code, at = self._descriptor(at)
            if code <= last or DATA <= last < code < FOOTER:
                _check_order(code, last)
            last = code
            if code >= PROPERTIES and bare < 0:
                bare = start
            if code >= DATA and body < 0:
                body = start
            if code == DATA:
                at = self._data(at)
            elif code == PROPERTIES:
                at = self._fields(code, at, sections.properties, PROPERTY_TYPES)
            elif code == HEADER:
                at = self._fields(code, at, sections.header, HEADER_TYPES)
            else:
                at = self._content(code, at)
            if at > size:
                raise malformed(f"the section {name_of(code)} is cut short")
            if code <= PROPERTIES:
                sections.properties_end = at
        sections.bare_start = bare if bare >= 0 else size
        sections.body_start = body if body >= 0 else size
        return sections

    def _content(self, code: int, at: int) -> int:
        """Check the value of any other section; return where it ends."""
        sections = self.sections
        if code == VALUE or code == SEQUENCE:
            return self._body(code, at)
        if self.data[at] not in MAPS:
            raise malformed(f"the section {name_of(code)} is not a map")
        if code == APPLICATION_PROPERTIES:
            sections.application_properties = at
        elif code == MESSAGE_ANNOTATIONS:
            sections.message_annotations = at
        elif code == DELIVERY_ANNOTATIONS:
            sections.delivery_annotations = at
        elif code == FOOTER:
            sections.footer = at
        else:
            raise malformed(f"no section has the descriptor 0x{code:02x}")
        return self._check(at)

    def _data(self, at: int) -> int:
        sections = self.sections
        sections.body_kind = DATA
        if not sections.body:
            sections.body = at
        form = self.data[at]
        if form not in BINARIES:
            raise malformed("the section data is not binary")
        start, end = stretch(self.data, form, at + 1)
        sections.body_size += end - start
        return end

    def _body(self, code: int, at: int) -> int:
        """Check a body that is not data."""
        sections = self.sections
        sections.body_kind = code
        if not sections.body:
            sections.body = at
        form = self.data[at]
        if form in STRETCHED and code == VALUE:
            start = stretch(self.data, form, at + 1)[0]
            end = check_text(self.data, form, at + 1)
            sections.body_size += end - start
            return end
        if code == SEQUENCE and form not in LISTS and form != LIST0:
            raise malformed(f"the section {name_of(code)} is of another type")
        end = self._check(at)
        sections.body_size += end - at
        return end

    def _fields(self, code: int, at: int, offsets: list[int], types: Types) -> int:
        """Check a list of fields, and note the offset of each."""
        data = self.data
        form = data[at]
        if form == LIST0:
            return at + 1
        if form not in LISTS:
            raise malformed(f"the section {name_of(code)} is not a list")
        at, end, count = span(data, form, at + 1)
        if count > len(types):
            raise malformed(f"the section {name_of(code)} has {count} fields, not {len(types)}")
        for place in range(count):
            form = data[at]
            if form == NULL:
                offsets.append(0)
                at += 1
                continue
            if form not in types[place]:
                raise malformed(f"field {place} of {name_of(code)} has the type 0x{form:02x}")
            offsets.append(at)
            if form == SHORT_STRING and data[at + 2 : at + 2 + data[at + 1]].isascii():
                at += 2 + data[at + 1]  # the short way; the check of `end` finds overruns
            elif form in STRETCHED:
                at = check_text(data, form, at + 1)
            else:
                at += 1 + WIDTHS[form]
        if at != end:
            raise malformed(f"{count} fields of {name_of(code)} end at {at} and not at {end}")
        return end

    def _check(self, at: int) -> int:
        if self.checker is None:
            self.checker = Checker(self.data)
        return self.checker.check(at)

    def _descriptor(self, at: int) -> tuple[int, int]:
        """Read a descriptor that is not in the short form; return it and where it ends."""
        data = self.data
        if data[at] != DESCRIBED or data[at + 1] not in SYMBOLS | {0x80}:
            raise malformed(f"no section begins at byte {at}")
        end = self._check(at + 1)
        found = decode(data, at + 1)
        code = found if isinstance(found, int) else DESCRIPTORS.get(found, 0)
        return min(code, 0xFF), end


def _check_order(code: int, last: int) -> None:
    if code == last and code in (DATA, SEQUENCE):
        return
    if code == last:
        raise malformed(f"the section {name_of(code)} comes twice")
    raise malformed(f"the section {name_of(code)} comes behind the section {name_of(last)}")
