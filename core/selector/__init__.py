"""Message selectors: SQL-92 conditions on a message's properties, as JMS defines them.

`compile_selector` turns a text into a `Selector` once per subscription. `Selector.matches` tests a
message, and asks `lookup` only for the properties that the test needs. A message matches when the
condition is true. It does not match when the condition is false or unknown (a missing property, a
text where a number is needed). The page docs/selectors.md says what may be written.
"""

from __future__ import annotations

from collections.abc import Callable

from covey.core.errors import RefusedError
from covey.core.selector.closures import Condition
from covey.core.selector.compile import Compiler
from covey.core.selector.parser import parse
from covey.core.selector.values import Value

__all__ = ["Selector", "Value", "compile_selector"]


class Selector:
    """A compiled selector: its text, the names of the properties it reads, and the test."""

    __slots__ = ("_condition", "names", "text")

    def __init__(self, text: str, names: frozenset[str], condition: Condition) -> None:
        self.text = text
        self.names = names
        self._condition = condition

    def matches(self, lookup: Callable[[str], Value]) -> bool:
        """Return True if a message matches, given how to look up its properties by name."""
        return self._condition(lookup) is True


def compile_selector(text: str, *, length_max: int = 4096, depth_max: int = 64) -> Selector:
    """Compile a selector, or refuse it and name the column and what was expected there.

    The limits bound what one subscription can cost for every message of a queue: `length_max` in
    characters, `depth_max` in nested parentheses, NOTs and signs.
    """
    if len(text) > length_max:
        raise RefusedError(f"selector: {len(text)} characters, at most {length_max}", "limit")
    compiler = Compiler(depth_max)
    condition = compiler.condition(parse(text))
    return Selector(text, frozenset(compiler.names), condition)
