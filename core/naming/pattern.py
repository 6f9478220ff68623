"""Destination patterns: which names a wildcard subscription matches.

    *        any text within one part (`I*` begins with I; alone: any one part)
    **       one or more whole parts; zero too if the syntax says so
    {regex}  a regular expression that takes part in matching one whole part

A pattern is matched by walking the name once and keeping the set of pattern positions that can
be reached (dynamic programming). That takes at most levels x parts steps, whatever `**`s follow
each other. Inside one part RE2 does the work. So no pattern and no name can make matching slow.

Names are in canonical form. Literal parts are compared in canonical form, other parts against the
decoded text (`{é+}` matches `%C3%A9`). Patterns are tested when a destination is made, not for each
message, and only some of them need a test (`core.naming.pattern_index`).

Every regular expression of a client is compiled by `Regex`: destination wildcards (`{regex}`) and a
selector's LIKE. Python's own `re` backtracks, so one hostile pattern could block the broker for
minutes. RE2 takes time linear in the text, and refuses what would need more (look-around,
back-references). Nothing here searches: a pattern matches a whole text or does not match.
"""

from __future__ import annotations

import re2

from covey.core.errors import RefusedError, quoted
from covey.core.naming.destination import Destination
from covey.core.naming.path import CANONICAL, Atom, AtomKind, atoms, cut, decode

# RE2 refuses to build a larger program, and drops cached states beyond this size. With RE2's own
# default, 8 MiB, a thousand subscriptions could take 8 GiB.
MEMORY_BYTES_MAX = 1024 * 1024


def _options() -> re2.Options:
    """Return RE2's options: no logging (the error has the reason), `.` matches a line end, too."""
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True
    options.never_capture = True
    options.max_mem = MEMORY_BYTES_MAX
    return options


class Regex:
    """One compiled expression; it matches whole texts only."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        """Compile `text` or refuse it with RE2's reason."""
        self.text = text
        try:
            # "surrogatepass" never raises, so half a surrogate pair cannot cause an exception.
            self._compiled = re2.compile(text.encode("utf-8", "surrogatepass"), _options())
        except re2.error as error:
            reason = error.args[0]
            if isinstance(reason, bytes):
                reason = reason.decode("utf-8", "replace")
            raise RefusedError(f"regular expression {quoted(text)}: {reason}", "invalid") from error

    def matches(self, text: str) -> bool:
        """Return True if the expression matches the whole of `text`."""
        return self._compiled.fullmatch(text.encode("utf-8", "surrogatepass")) is not None


def quote(text: str) -> str:
    """Escape `text` so that an expression matches it literally."""
    return str(re2.escape(text))


ANY_TEXT = ".*"


class Pattern:
    """A compiled pattern; two are equal if they were compiled from the same text and rule."""

    __slots__ = ("matches_zero", "name", "parts")

    def __init__(self, destination: Destination, *, descendant_matches_zero: bool = False) -> None:
        """Compile a destination's pattern; a bad regular expression is refused."""
        self.name = destination.name
        self.matches_zero = descendant_matches_zero
        self.parts = [Part(part) for part in cut(self.name, CANONICAL.separator, CANONICAL)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pattern):
            return NotImplemented
        return self.name == other.name and self.matches_zero == other.matches_zero

    def __hash__(self) -> int:
        return hash(self.name)

    def matches(self, name: str) -> bool:
        """Return True if the pattern matches this canonical name."""
        if len(self.parts) == 1 and self.parts[0].is_descendant:
            return True  # `**`, which most policies are for
        reached = [False] * (len(self.parts) + 1)
        reached[0] = True
        self._skip_descendants(reached)
        for level in name.split(CANONICAL.separator):
            reached = self._step(reached, level)
        return reached[-1]

    def _step(self, reached: list[bool], level: str) -> list[bool]:
        """Return the positions that can be reached by taking one more level of the name."""
        following = [False] * len(reached)
        for position, part in enumerate(self.parts):
            if reached[position] and part.accepts(level):
                following[position + 1] = True
                if part.is_descendant:
                    following[position] = True
        self._skip_descendants(following)
        return following

    def _skip_descendants(self, reached: list[bool]) -> None:
        if not self.matches_zero:
            return
        for position, part in enumerate(self.parts):
            if reached[position] and part.is_descendant:
                reached[position + 1] = True


class Part:
    """One part of a pattern: literal text, a regular expression, or anything at all."""

    __slots__ = ("_regex", "is_descendant", "literal", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        pieces = atoms(text, CANONICAL)
        kinds = [atom.kind for atom in pieces]
        self.is_descendant = kinds == [AtomKind.ANY_DESCENDANT]
        self.literal: str | None = text if kinds == [AtomKind.TEXT] else None
        self._regex: Regex | None = None
        is_anything = self.is_descendant or kinds == [AtomKind.ANY_CHILD]
        if self.literal is None and not is_anything:
            self._regex = Regex("".join(_expression(atom) for atom in pieces))

    def accepts(self, level: str) -> bool:
        """Return True if the part matches one level of a name."""
        if self.literal is not None:
            return level == self.literal
        return self._regex is None or self._regex.matches(decode(level))


def _expression(atom: Atom) -> str:
    """Return the regular expression for one atom of a mixed part."""
    if atom.kind is AtomKind.TEXT:
        return quote(decode(atom.text))
    if atom.kind is AtomKind.ANY_CHILD:
        return ANY_TEXT
    Regex(atom.text)  # compile it alone first: `a)(b` would only be valid inside our parentheses
    return f"(?:{atom.text})"
