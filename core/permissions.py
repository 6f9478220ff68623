"""Permissions: the rules of `[[permission]]`, compiled, and the one question asked of them.

Deny by default once there is a rule. A destination is asked about by its kind and canonical
name, after aliases, temporary names, patterns and composites are expanded, so there is no other
spelling to slip through.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from covey.config.permissions import PermissionSettings
from covey.core.destination import Destination, Kind
from covey.core.wildcard import Pattern

EVERYTHING: Final = "*"
KINDS: Final = ("queue", "topic", "dsub")
ROLE_PREFIX: Final = "role:"


class Permission:
    """One rule: somebody may do something to some destinations."""

    __slots__ = ("_kind", "_pattern", "_verbs", "_who")

    def __init__(self, settings: PermissionSettings) -> None:
        self._who = frozenset(settings.who)
        self._verbs: frozenset[str] = frozenset(settings.may)
        kind, colon, name = settings.on.partition(":")
        has_kind = bool(colon) and kind in KINDS
        self._kind = kind if has_kind else ""
        text = name if has_kind else settings.on
        self._pattern = Pattern(Destination(Kind.QUEUE, text, is_pattern=True))

    def is_for(self, name: str, roles: Iterable[str]) -> bool:
        """Say whether the rule is about this user."""
        if EVERYTHING in self._who or name in self._who:
            return True
        return any(ROLE_PREFIX + role in self._who for role in roles)

    def allows(self, verb: str, kind: str, name: str) -> bool:
        """Say whether the rule allows the verb on a destination; "" kind is the broker itself."""
        if EVERYTHING not in self._verbs and verb not in self._verbs:
            return False
        if not kind:
            return True
        return self._kind in ("", kind) and self._pattern.matches(name)
