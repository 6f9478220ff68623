"""PatternIndex: the values whose patterns match a name, found without testing every pattern.

The patterns form a tree of their parts. A name walks down the tree level by level, keeping the set
of all nodes that it has reached. So a name costs its levels times the reached nodes, however many
other patterns there are: ten thousand patterns that differ in a literal part cost one look-up. Only
the wildcard parts below one node are tried one after the other.

    a.*.b  and  a.**       root -- a --+-- * -- b (values)
                                       +-- ** (values; takes any further level, too)

Patterns whose `**` may match no part at all have a tree of their own.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from typing import Generic, TypeVar

from covey.core.naming.path import CANONICAL
from covey.core.naming.pattern import Part, Pattern

T = TypeVar("T")


class Node(Generic[T]):
    """One part in the tree: the patterns below it are equal up to this part."""

    __slots__ = ("literals", "part", "values", "wildcards")

    def __init__(self, part: Part | None) -> None:
        self.part = part  # None: the root
        self.literals: dict[str, Node[T]] = {}
        self.wildcards: dict[str, Node[T]] = {}
        self.values: dict[T, int] = {}  # with the number by which results are sorted

    @property
    def is_empty(self) -> bool:
        """Return True if there is no value at this node or below it."""
        return not (self.values or self.literals or self.wildcards)

    def below(self, part: Part) -> dict[str, Node[T]]:
        """Return the table in which the node of a part is kept."""
        return self.wildcards if part.literal is None else self.literals

    def after(self, level: str) -> list[Node[T]]:
        """Return the nodes that are reached by one more level of a name."""
        reached = [
            node
            for node in self.wildcards.values()
            if node.part is not None and node.part.accepts(level)
        ]
        literal = self.literals.get(level)
        if literal is not None:
            reached.append(literal)
        if self.part is not None and self.part.is_descendant:
            reached.append(self)
        return reached


class PatternIndex(Generic[T]):
    """Values behind patterns; one index for each kind of destination."""

    __slots__ = ("_root", "_root_of_zero", "last")

    def __init__(self) -> None:
        self.last = 0  # the number of the last value that was added
        self._root: Node[T] = Node(None)
        self._root_of_zero: Node[T] = Node(None)

    def add(self, pattern: Pattern, value: T) -> None:
        """Add a value under a pattern; adding it twice changes nothing."""
        node = self._root_of(pattern)
        for part in pattern.parts:
            node = node.below(part).setdefault(part.text, Node(part))
        self.last += 1
        node.values.setdefault(value, self.last)

    def discard(self, pattern: Pattern, value: T) -> None:
        """Remove a value; it is no error if it is not there."""
        path = [self._root_of(pattern)]
        for part in pattern.parts:
            node = path[-1].below(part).get(part.text)
            if node is None:
                return
            path.append(node)
        path[-1].values.pop(value, None)
        for part, parent, node in zip(
            reversed(pattern.parts), reversed(path[:-1]), reversed(path[1:]), strict=True
        ):
            if not node.is_empty:
                return
            del parent.below(part)[part.text]

    def matching(self, name: str) -> list[T]:
        """Return each value with a pattern that matches `name`, once, in the order of adding."""
        found: dict[T, int] = {}
        for node in self._ends(name):
            for value, number in node.values.items():
                found[value] = min(number, found.get(value, number))
        return sorted(found, key=found.__getitem__)

    def newer(self, name: str, than: int) -> list[T]:
        """Return the values that `matching` would and whose number is above `than`, in any order.

        A value with several patterns may come more than once. Nothing is done for each older value,
        of which there may be very many.
        """
        found: list[T] = []
        for node in self._ends(name):
            values = node.values
            if not values or next(reversed(values.values())) <= than:
                continue
            first = bisect_right(list(values.values()), than) if than else 0
            found += islice(values, first, None)  # numbers ascend: it is in the order of adding
        return found

    def _ends(self, name: str) -> list[Node[T]]:
        """Return the nodes whose patterns match a name."""
        levels = name.split(CANONICAL.separator)
        ends = _walk([self._root], levels)
        return ends + _walk(_with_descendants([self._root_of_zero]), levels, matches_zero=True)

    def _root_of(self, pattern: Pattern) -> Node[T]:
        return self._root_of_zero if pattern.matches_zero else self._root


def _walk(
    reached: list[Node[T]], levels: list[str], *, matches_zero: bool = False
) -> list[Node[T]]:
    """Return the nodes that all levels of a name lead to."""
    for level in levels:
        following = [after for node in reached for after in node.after(level)]
        # Two ways may lead to one node, which must be kept once.
        reached = list({id(node): node for node in following}.values())
        if matches_zero:
            reached = _with_descendants(reached)
    return reached


def _with_descendants(reached: list[Node[T]]) -> list[Node[T]]:
    """Add the nodes that are reached if `**` matches no level."""
    found = {id(node): node for node in reached}
    for node in reached:  # `reached` grows meanwhile
        for child in node.wildcards.values():
            if child.part is not None and child.part.is_descendant and id(child) not in found:
                found[id(child)] = child
                reached.append(child)
    return reached
