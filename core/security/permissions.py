"""Permissions: the rules of `[[permission]]`, compiled, and the checks against them.

Once there is a rule, everything is denied that no rule allows. A destination is checked by its kind
and canonical name. Aliases, temporary names, patterns and composites are expanded before the check,
so no other spelling can get around a rule.

Two checks are about patterns. A wildcard subscription is let in if it may read *some* destination:
each destination is checked when it is attached. A durable wildcard subscription goes on while its
user is away and cannot be checked. So it needs one rule that covers its whole pattern.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from covey.config.settings import PermissionSettings
from covey.core.errors import RefusedError
from covey.core.naming.destination import Kind, Syntax
from covey.core.naming.path import CANONICAL, cut
from covey.core.naming.pattern import Pattern

EVERYTHING: Final = "*"
EVERY_NAME: Final = "**"
CONNECT: Final = "connect"
ROLE_MARK: Final = "role:"
USER_MARK: Final = "user:"
KINDS: Final = tuple([kind.value for kind in Kind])
SYNTAX: Final = Syntax()


class Permission:
    """One rule: somebody may do something to some destinations."""

    __slots__ = ("_is_for_all", "_kind", "_pattern", "_verbs", "_who")

    def __init__(self, settings: PermissionSettings) -> None:
        """Compile a rule; raises RefusedError that quotes the pattern if it makes no sense."""
        self._is_for_all = EVERYTHING in settings.who
        self._who = frozenset([_principal(who) for who in settings.who])
        self._verbs: frozenset[str] = frozenset(settings.may)
        kind, colon, name = settings.on.partition(":")
        has_kind = bool(colon) and kind in KINDS
        self._kind = kind if has_kind else ""
        self._pattern = _pattern(name if has_kind else settings.on)

    def is_for(self, principals: frozenset[str]) -> bool:
        """Return True if the rule is about one of these principals, `user:x` or `role:y`."""
        if self._is_for_all and any(name.startswith(USER_MARK) for name in principals):
            return True
        return not self._who.isdisjoint(principals)

    def allows_some(self, verb: str, kind: str) -> bool:
        """Return True if the rule allows the verb on any destination of a kind."""
        return self._has_verb(verb) and self._kind in ("", kind)

    def allows(self, verb: str, kind: str, name: str) -> bool:
        """Return True if the rule allows the verb on a destination."""
        return self.allows_some(verb, kind) and self._pattern.matches(name)

    def covers(self, verb: str, kind: str, pattern: str) -> bool:
        """Return True if the rule allows the verb on all that a canonical pattern can match."""
        return self.allows_some(verb, kind) and _covers(self._pattern.name, pattern)

    def allows_broker(self, verb: str) -> bool:
        """Return True if the rule allows a verb on the broker itself.

        Connecting has no destination. Managing the broker means managing everything in it.
        """
        is_about_all = self._kind == "" and self._pattern.name == EVERY_NAME
        return self._has_verb(verb) and (verb == CONNECT or is_about_all)

    def _has_verb(self, verb: str) -> bool:
        return verb in self._verbs or EVERYTHING in self._verbs


class Access:
    """The rules about one user; a reload changes them in place, for open connections too."""

    __slots__ = ("permissions", "principals")

    def __init__(self, principals: frozenset[str] = frozenset()) -> None:
        self.principals = principals
        # None: there is no rule at all, so everybody may do everything but manage.
        self.permissions: list[Permission] | None = None

    def apply(self, permissions: list[Permission]) -> None:
        """Use these rules from now on."""
        own = [rule for rule in permissions if rule.is_for(self.principals)]
        self.permissions = own if permissions else None

    def allows(self, verb: str, destination: str) -> bool:
        """Return True if the verb is allowed on a destination, `kind:name`; else: on the broker."""
        kind, colon, name = destination.partition(":")
        if self.permissions is None:
            return verb != "manage"
        if not colon or kind not in KINDS:
            return any(rule.allows_broker(verb) for rule in self.permissions)
        return any(rule.allows(verb, kind, name) for rule in self.permissions)

    def allows_some(self, verb: str, kind: str) -> bool:
        """Return True if a rule allows the verb on any destination of a kind."""
        if self.permissions is None:
            return verb != "manage"
        return any(rule.allows_some(verb, kind) for rule in self.permissions)

    def covers(self, verb: str, kind: str, pattern: str) -> bool:
        """Return True if a rule allows the verb on all that a pattern can match, now and later."""
        if self.permissions is None:
            return verb != "manage"
        return any(rule.covers(verb, kind, pattern) for rule in self.permissions)


def compile_permissions(settings: Iterable[PermissionSettings]) -> list[Permission]:
    """Compile all rules; raises RefusedError if one makes no sense."""
    return [Permission(entry) for entry in settings]


def _principal(who: str) -> str:
    return who if who.startswith(ROLE_MARK) else USER_MARK + who


def _pattern(text: str) -> Pattern:
    try:
        (destination,) = SYNTAX.parse(SYNTAX.queue_prefix + text, allow_patterns=True)
        return Pattern(destination)
    except (RefusedError, ValueError) as error:
        raise RefusedError(f"permission on {text!r}: not one name or pattern", "invalid") from error


def _covers(rule: str, pattern: str) -> bool:
    """Compare two patterns part by part; return False if the answer is not obvious."""
    wide = cut(rule, CANONICAL.separator, CANONICAL)
    narrow = cut(pattern, CANONICAL.separator, CANONICAL)
    if wide[-1] == CANONICAL.any_descendant:
        wide = wide[:-1]
        if len(narrow) <= len(wide):
            return False
        narrow = narrow[: len(wide)]
    if len(wide) != len(narrow):
        return False
    return all(_covers_part(*pair) for pair in zip(wide, narrow, strict=True))


def _covers_part(rule: str, pattern: str) -> bool:
    is_one_part = pattern != CANONICAL.any_descendant
    return rule == pattern or (rule == CANONICAL.any_child and is_one_part)
