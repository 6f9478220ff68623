"""Entities: how `$management` names queues, topics, connections and so on.

The management draft gives every entity a name, an identity and a type. A name is unique among the
entities of one type. An identity is unique among all, because it contains the type:

    name       orders
    identity   covey.queue/orders
    type       covey.queue

The management node is an entity itself: `self`, of the type `org.amqp.management`.

Source: AMQP Management 1.0, working draft, sections 2 and 3.
"""

from __future__ import annotations

from typing import Final

from covey.core.management.describe import ATTRIBUTES, Attributes

TYPE_PREFIX: Final = "covey."
SELF_TYPE: Final = "org.amqp.management"
SELF_NAME: Final = "self"
NAMES: Final = ("name", "identity", "type")  # what every entity has

SELF: Final[Attributes] = {"name": SELF_NAME, "identity": SELF_NAME, "type": SELF_TYPE}

TYPES: Final = (SELF_TYPE, *ATTRIBUTES)  # in the core's names


def full_name(type_name: str) -> str:
    """Return the name of a type that peers see."""
    return type_name if type_name == SELF_TYPE else TYPE_PREFIX + type_name


def type_name_of(text: str) -> str:
    """Return the core's name of a type: `covey.queue` and `queue` are the same."""
    return text.removeprefix(TYPE_PREFIX)


def attributes_of(type_name: str) -> list[str]:
    """Return the names of all attributes of a type."""
    own = ATTRIBUTES.get(type_name, ())
    return [*NAMES, *[name for name in own if name not in NAMES]]


def all_attributes() -> list[str]:
    """Return the names of all attributes of all types, each once."""
    return list(dict.fromkeys([name for each in TYPES for name in attributes_of(each)]))


def entity(type_name: str, found: Attributes) -> Attributes:
    """Return the core's attributes of an entity, with its identity and its type's full name."""
    kind = full_name(type_name)
    named: Attributes = {"name": found["name"], "identity": f"{kind}/{found['name']}", "type": kind}
    return {**named, **{name: value for name, value in found.items() if name not in NAMES}}


def named_by(identity: str) -> tuple[str, str]:
    """Return the type and the name in an identity; the type is "" if the identity has none."""
    kind, slash, name = identity.partition("/")
    known = type_name_of(kind)
    if slash and kind.startswith(TYPE_PREFIX) and known in ATTRIBUTES:
        return known, name
    return "", identity
