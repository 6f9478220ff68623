"""Fields: what the lists of a message hold, the header and the properties, place by place.

A field is known by its place. Each may be absent, or of the types given here and no other, which
`scan` sees to: whoever reads one finds what it may hold, or nothing.

Source: AMQP 1.0 part 3, sections 3.2.1 and 3.2.4.
"""

from __future__ import annotations

from typing import Final

from covey.protocols.amqp.codes import BINARIES, STRINGS, TEXTS, UUID_CODE

Types = tuple[frozenset[int], ...]  # the codes that each place may have

BOOLEANS: Final = frozenset({0x41, 0x42, 0x56})
UINTS: Final = frozenset({0x43, 0x52, 0x70})
TIMES: Final = frozenset({0x83})
IDS: Final = STRINGS | BINARIES | frozenset({0x44, 0x53, 0x80, UUID_CODE})

# Places in the header, and the codes each may have.
DURABLE: Final = 0
PRIORITY: Final = 1
TTL: Final = 2
HEADER_TYPES: Final = (BOOLEANS, frozenset({0x50}), UINTS, BOOLEANS, UINTS)

# Places in the properties, and the codes each may have.
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
