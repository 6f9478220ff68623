"""Destination patterns: which names a wildcard subscription means.

    *        any text within one part (`I*` begins with I; alone: any one part)
    **       one or more whole parts; zero too if the syntax says so
    {regex}  a regular expression that takes part in matching one whole part

A pattern is matched by walking the name once and keeping the set of pattern positions that can
be reached (dynamic programming): at most levels x parts steps, whatever `**`s follow each other.
Inside one part RE2 does the work. So no pattern and no name can make matching slow.

Names come in canonical form; literal parts are compared in it, the rest against what the part
means (`{é+}` matches `%C3%A9`). Patterns are tested when a destination appears, not per message.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from covey.core.destination import Destination
from covey.core.path import CANONICAL, Atom, AtomKind, atoms, cut, decode
from covey.core.regex import Regex, quote

T = TypeVar("T")

ANY_TEXT = ".*"


class Pattern:
    """A compiled pattern; equal when it was compiled from the same text and rule."""

    __slots__ = ("_parts", "matches_zero", "name")

    def __init__(self, destination: Destination, *, descendant_matches_zero: bool = False) -> None:
        """Compile a destination's pattern; a bad regular expression is refused."""
        self.name = destination.name
        self.matches_zero = descendant_matches_zero
        self._parts = [_Part(part) for part in cut(self.name, CANONICAL.separator, CANONICAL)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pattern):
            return NotImplemented
        return self.name == other.name and self.matches_zero == other.matches_zero

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def first(self) -> str | None:
        """The part every matching name begins with, or None if that is a wildcard."""
        return self._parts[0].literal

    def matches(self, name: str) -> bool:
        """Say whether the pattern means this canonical name."""
        reached = [False] * (len(self._parts) + 1)
        reached[0] = True
        self._skip_descendants(reached)
        for level in name.split(CANONICAL.separator):
            reached = self._step(reached, level)
        return reached[-1]

    def _step(self, reached: list[bool], level: str) -> list[bool]:
        """Return the positions that can be reached by taking one more level of the name."""
        following = [False] * len(reached)
        for position, part in enumerate(self._parts):
            if reached[position] and part.accepts(level):
                following[position + 1] = True
                if part.is_descendant:
                    following[position] = True
        self._skip_descendants(following)
        return following

    def _skip_descendants(self, reached: list[bool]) -> None:
        if not self.matches_zero:
            return
        for position, part in enumerate(self._parts):
            if reached[position] and part.is_descendant:
                reached[position + 1] = True


class _Part:
    """One part of a pattern: literal text, a regular expression, or anything at all."""

    __slots__ = ("_regex", "is_descendant", "literal")

    def __init__(self, text: str) -> None:
        pieces = atoms(text, CANONICAL)
        kinds = [atom.kind for atom in pieces]
        self.is_descendant = kinds == [AtomKind.ANY_DESCENDANT]
        self.literal: str | None = text if kinds == [AtomKind.TEXT] else None
        self._regex: Regex | None = None
        is_anything = self.is_descendant or kinds == [AtomKind.ANY_CHILD]
        if self.literal is None and not is_anything:
            self._regex = Regex("".join(_expression(atom) for atom in pieces))

    def accepts(self, level: str) -> bool:
        if self.literal is not None:
            return level == self.literal
        return self._regex is None or self._regex.matches(decode(level))


def _expression(atom: Atom) -> str:
    """Return the regular expression for one atom of a mixed part."""
    if atom.kind is AtomKind.TEXT:
        return quote(decode(atom.text))
    if atom.kind is AtomKind.ANY_CHILD:
        return ANY_TEXT
    Regex(atom.text)  # alone first: `a)(b` must not borrow the parentheses put around it
    return f"(?:{atom.text})"


class PatternIndex(Generic[T]):
    """Who waits behind which pattern; one index for each kind of destination.

    Patterns are kept by their first part when that is literal, so a new destination is tested
    against those that share its first part and those that begin with a wildcard.
    """

    __slots__ = ("_by_first",)

    def __init__(self) -> None:
        # A dict of values serves as an ordered set: who subscribed first is told first.
        self._by_first: dict[str | None, dict[Pattern, dict[T, None]]] = {}

    def add(self, pattern: Pattern, value: T) -> None:
        """Put a value behind a pattern; putting it there twice changes nothing."""
        self._by_first.setdefault(pattern.first, {}).setdefault(pattern, {})[value] = None

    def discard(self, pattern: Pattern, value: T) -> None:
        """Take a value away; one that is not there is no error."""
        patterns = self._by_first.get(pattern.first, {})
        values = patterns.get(pattern, {})
        values.pop(value, None)
        if not values:
            patterns.pop(pattern, None)
        if not patterns:
            self._by_first.pop(pattern.first, None)

    def matching(self, name: str) -> list[T]:
        """Return each value behind a pattern that means `name`, once."""
        found: dict[T, None] = {}
        first = name.split(CANONICAL.separator, 1)[0]
        for key in (first, None):
            for pattern, values in self._by_first.get(key, {}).items():
                if pattern.matches(name):
                    found.update(values)
        return list(found)
