"""Permissions: `[[permission]]`, who may do what to which destinations.

Without any entry every user may do everything but manage, which needs the role `admin`. As soon
as there is one entry, what no entry allows is denied; the role `admin` may always do everything.
"""

from __future__ import annotations

from typing import Literal

from covey.config.record import Names, Record, Text

VerbName = Literal["connect", "create", "send", "consume", "browse", "destroy", "manage", "*"]


class PermissionSettings(Record):
    """One thing that somebody is allowed."""

    who: Names
    """User names, `role:NAME`, or `*` for everybody who has logged in."""
    may: tuple[VerbName, ...]
    """connect, create, send, consume, browse, destroy, manage, or `*` for all of them."""
    on: Text = "**"
    """`queue:PATTERN`, `topic:PATTERN`, `dsub:PATTERN`, or a pattern for all three kinds."""
