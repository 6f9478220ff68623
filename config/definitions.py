"""Definitions: the document of everything that operators have declared, checked before it is used.

An export writes this document and an import reads it, over HTTP and `$management` alike
(`core.management.definitions`). Unknown fields are refused here. Names and arguments are checked
when the import applies them.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

VERSION: Final = 1


class Entry(BaseModel):
    """One thing, with known fields only."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)


class QueueDefinition(Entry):
    """A queue that was declared."""

    arguments: dict[str, object] = {}


class SubscriptionDefinition(Entry):
    """A durable subscription and the topics it hears."""

    destinations: tuple[str, ...] = Field(min_length=1)
    selector: str = ""


class PolicyDefinition(Entry):
    """How queues are whose names match; the name is the pattern."""

    settings: dict[str, object] = {}


class PermissionDefinition(Entry):
    """Who may do what."""

    who: tuple[str, ...]
    may: tuple[str, ...]
    on: str = "**"


class UserDefinition(Entry):
    """A user; without a record of the password only roles can be changed."""

    roles: tuple[str, ...] = ()
    password: str | None = None


class Definitions(BaseModel):
    """Everything that was declared, as exported."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = VERSION
    policies: tuple[PolicyDefinition, ...] = ()
    queues: tuple[QueueDefinition, ...] = ()
    subscriptions: tuple[SubscriptionDefinition, ...] = ()
    permissions: tuple[PermissionDefinition, ...] = ()
    users: tuple[UserDefinition, ...] = ()
