"""Wishes: what a message asks the broker for, besides its place: its group, and a time to wait.

The group is `group-id`, or else an application property by one of the names that other clients
use; its number may come as `group-sequence` or as JMS's property. A delivery may be put off by an
annotation, as a time or as a delay (JMS delivery delay).

The bytes must have been scanned; what is asked in another type than it must have is refused.
"""

from __future__ import annotations

from typing import Final

from covey.core.errors import RefusedError
from covey.core.selector import Value
from covey.groups.key import DEFAULT_HEADERS, GroupIdError, GroupKey
from covey.protocols.amqp.decoder import pick
from covey.protocols.amqp.fields import GROUP_ID, GROUP_SEQUENCE
from covey.protocols.amqp.mapping import (
    GROUP_PROPERTIES,
    SEQUENCE_PROPERTY,
    field,
    plain,
    text_field,
)
from covey.protocols.amqp.sections import Sections

TIME_MAX_MS: Final = 2**53  # far beyond any calendar: sums stay exact integers everywhere

DELIVERY_TIME: Final = "x-opt-delivery-time"  # milliseconds since the epoch
DELIVERY_DELAY: Final = "x-opt-delivery-delay"  # milliseconds from now

# Before anything is decoded: does the text occur at all?
_GROUP_MARKS: Final = (b"message_group", b"JMSXGroupI")
_DELAY_MARK: Final = b"x-opt-delivery-"
_DELAY_NAMES: Final = frozenset((DELIVERY_TIME.encode(), DELIVERY_DELAY.encode()))

_GROUP_KEY: Final = GroupKey()
_GROUP_NAMES: Final = frozenset(name.encode() for name in GROUP_PROPERTIES)


def group_and_sequence(data: bytes, sections: Sections) -> tuple[str, int]:
    """Return a message's group where a queue without a header of its own looks, and its number."""
    offsets = sections.properties
    sequence = 0
    if len(offsets) > GROUP_SEQUENCE:
        number = field(data, offsets, GROUP_SEQUENCE)
        sequence = _signed(number) if isinstance(number, int) else 0
    native = text_field(data, offsets, GROUP_ID)
    if not native and not _may_name_group(data, sections):
        return "", sequence
    named: dict[str, Value] = {}
    if not native:
        found = pick(data, sections.application_properties, _GROUP_NAMES)
        named = {name: plain(value) for name, value in found.items()}
    try:
        group = _GROUP_KEY.resolve(native, named.get)
    except GroupIdError as error:
        raise RefusedError(str(error), "invalid") from error
    given = named.get(SEQUENCE_PROPERTY)
    if isinstance(given, int) and not sequence:
        sequence = given
    return group, sequence


def group_place(data: bytes, sections: Sections) -> str:
    """Return by which name a message's group was found."""
    if not text_field(data, sections.properties, GROUP_ID):
        named = pick(data, sections.application_properties, _GROUP_NAMES)
        for name in DEFAULT_HEADERS:
            if named.get(name):
                return name
    return "group-id"


def due_time(data: bytes, sections: Sections, wall_ms: int) -> int:
    """Return before which time a message is not to be delivered, 0 for at once."""
    start = sections.message_annotations
    if data.find(_DELAY_MARK, start, sections.bare_start) < 0:
        return 0
    given = pick(data, start, _DELAY_NAMES)
    due_ms = 0
    for name, since in ((DELIVERY_TIME, 0), (DELIVERY_DELAY, wall_ms)):
        due = given.get(name)
        if due is None:
            continue
        if not isinstance(due, int) or isinstance(due, bool):
            raise RefusedError(f"{name} must be a whole number of milliseconds", "invalid")
        due_ms = max(0, min(since + due, TIME_MAX_MS))
    return due_ms


def _may_name_group(data: bytes, sections: Sections) -> bool:
    if not sections.application_properties:
        return False
    start, end = sections.properties_end, sections.body_start
    return any([data.find(mark, start, end) >= 0 for mark in _GROUP_MARKS])


def _signed(number: int) -> int:
    """Read a uint as the signed number that JMS has there: 0xFFFFFFFF closes the group."""
    return number - 2**32 if number >= 2**31 else number
