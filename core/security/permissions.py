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

    __slots__ = ("_kind", "_pattern", "_verbs", "who")

    def __init__(self, settings: PermissionSettings) -> None:
        """Compile a rule; raises RefusedError that quotes the pattern if it makes no sense."""
        self.who = [_principal(who) for who in settings.who]  # `user:x`, `role:y`, EVERYTHING
        self._verbs: frozenset[str] = frozenset(settings.may)
        kind, colon, name = settings.on.partition(":")
        has_kind = bool(colon) and kind in KINDS
        self._kind = kind if has_kind else ""
        self._pattern = _pattern(name if has_kind else settings.on)

    def is_for(self, principals: frozenset[str]) -> bool:
        """Return True if the rule is about one of these principals, `user:x` or `role:y`."""
        return not _addressed(principals).isdisjoint(self.who)

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


class Rules:
    """All rules, by whom they are about: ten thousand users do not ask ten thousand rules each."""

    __slots__ = ("_by_principal", "are_any")

    def __init__(self, permissions: Iterable[Permission]) -> None:
        self.are_any = False
        self._by_principal: dict[str, list[Permission]] = {}
        for rule in permissions:
            self.are_any = True
            for name in rule.who:
                self._by_principal.setdefault(name, []).append(rule)

    def about(self, principals: frozenset[str]) -> list[Permission]:
        """Return the rules about these principals, each once."""
        found = [
            rule for name in _addressed(principals) for rule in self._by_principal.get(name, ())
        ]
        return list(dict.fromkeys(found))


class Access:
    """The rules about one user; a reload changes them in place, for open connections too."""

    __slots__ = ("permissions", "principals")

    def __init__(self, principals: frozenset[str] = frozenset()) -> None:
        self.principals = principals
        # None: there is no rule at all, so everybody may do everything but manage.
        self.permissions: list[Permission] | None = None

    def apply(self, rules: Rules) -> None:
        """Use these rules from now on."""
        self.permissions = rules.about(self.principals) if rules.are_any else None

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


def compile_permissions(settings: Iterable[PermissionSettings]) -> Rules:
    """Compile all rules; raises RefusedError if one makes no sense."""
    return Rules([Permission(entry) for entry in settings])


def _addressed(principals: frozenset[str]) -> frozenset[str]:
    """Return the names by which rules may address somebody; `EVERYTHING` means every user."""
    is_user = any(name.startswith(USER_MARK) for name in principals)
    return principals | {EVERYTHING} if is_user else principals


def _principal(who: str) -> str:
    return who if who == EVERYTHING or who.startswith(ROLE_MARK) else USER_MARK + who


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
