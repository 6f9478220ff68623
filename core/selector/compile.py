"""From a selector's tree to one function that tests a message.

Once per subscription, each node becomes a closure (see `closures`) over the closures of its
children. Testing a message does not need the tree. There are two sorts of closures:

    a condition   lookup -> True, False or None (unknown)
    an operand    lookup -> a value, None for a missing property

Sorts may not be mixed, except that a property or TRUE can stand alone as a condition.

AND, OR, sums and products are chains, not pairs. So only parentheses, NOT and signs count as depth.
The limit on depth keeps this recursion and the closures' far from Python's own limit.
"""

from __future__ import annotations

from lark import Token, Tree

from covey.core.errors import quoted
from covey.core.selector import values
from covey.core.selector.closures import (
    Arithmetic,
    Condition,
    Operand,
    alike,
    all_of,
    any_of,
    as_condition,
    between,
    compared,
    computed,
    constant,
    constant_truth,
    equal_to_text,
    member,
    missing,
    named,
    negated,
    no_properties,
)
from covey.core.selector.literal import like, literal, unquoted
from covey.core.selector.parser import Node, column_of, refused
from covey.core.selector.values import Value

ARITHMETIC: dict[str, Arithmetic] = {
    "+": values.add,
    "-": values.subtract,
    "*": values.multiply,
    "/": values.divide,
}


class Compiler:
    """Compiles one selector and gathers the names of the properties it reads."""

    def __init__(self, depth_max: int) -> None:
        """Start with no names; nesting deeper than `depth_max` is refused."""
        self.names: set[str] = set()
        self._depth_max = depth_max

    def condition(self, node: Node, depth: int = 0) -> Condition:
        """Compile a node that must be true, false or unknown."""
        if isinstance(node, Token):
            return self._lone_condition(node)
        match node.data:
            case "either":
                return any_of([self.condition(child, depth) for child in node.children[::2]])
            case "both":
                return all_of([self.condition(child, depth) for child in node.children[::2]])
            case "negate":
                return negated(self.condition(node.children[1], self._deeper(node, depth)))
            case "group":
                return self.condition(node.children[1], self._deeper(node, depth))
            case "sum" | "product" | "sign":
                raise refused(column_of(node), "expected a condition, found a value")
        return self._predicate(node, depth)

    def operand(self, node: Node, depth: int) -> Operand:
        """Compile a node that must be a value."""
        if isinstance(node, Token):
            return self._lone_operand(node)
        match node.data:
            case "sum" | "product":
                return self._chain(node, depth)
            case "sign":
                return self._signed(node, depth)
            case "group":
                return self.operand(node.children[1], self._deeper(node, depth))
        raise refused(column_of(node), "expected a value, found a condition")

    def _deeper(self, node: Node, depth: int) -> int:
        if depth >= self._depth_max:
            raise refused(column_of(node), f"nested deeper than {self._depth_max}", "limit")
        return depth + 1

    def _lone_condition(self, token: Token) -> Condition:
        if token.type in ("TRUE", "FALSE"):
            return constant_truth(token.type == "TRUE")
        if token.type in ("NAME", "QUOTED"):
            return as_condition(self._lone_operand(token))
        raise refused(column_of(token), f"expected a condition, found {quoted(str(token))}")

    def _lone_operand(self, token: Token) -> Operand:
        if token.type not in ("NAME", "QUOTED"):
            return constant(literal(token))
        name = unquoted(token) if token.type == "QUOTED" else str(token)
        self.names.add(name)
        return named(name)

    def _predicate(self, node: Tree[Token], depth: int) -> Condition:
        tokens = [child for child in node.children[1:] if isinstance(child, Token)]
        left = self.operand(node.children[0], depth)
        test: Condition
        match node.data:
            case "compare":
                return self._comparison(str(tokens[0]), left, node.children[2], depth)
            case "between":
                low, high = self._bounds(node, depth)
                test = between(left, low, high)
            case "member":
                test = member(left, self._listed(node.children[-1]))
            case "like":
                texts = [token for token in tokens if token.type == "TEXT"]
                test = alike(left, like(texts[0], texts[1] if len(texts) > 1 else None))
            case _:
                test = missing(left)
        is_negated = any(token.type == "NOT" for token in tokens)
        return negated(test) if is_negated else test

    def _comparison(self, sign: str, left: Operand, right: Node, depth: int) -> Condition:
        if sign == "=" and isinstance(right, Token) and right.type == "TEXT":
            return equal_to_text(left, unquoted(right))
        return compared(sign, left, self.operand(right, depth))

    def _bounds(self, node: Tree[Token], depth: int) -> tuple[Operand, Operand]:
        # value [NOT] BETWEEN low AND high: count from the end, because NOT may be missing
        return self.operand(node.children[-3], depth), self.operand(node.children[-1], depth)

    def _listed(self, listed: Node) -> list[Value]:
        assert not isinstance(listed, Token), "the grammar gives IN a list"
        return [
            literal(child) if isinstance(child, Token) else self._signed(child, 0)(no_properties)
            for child in listed.children
        ]

    def _signed(self, node: Tree[Token], depth: int) -> Operand:
        """Compile `- x` as `0 - x`, at once if x is a constant; `+ x` only makes x a number."""
        sign, child = node.children
        inner = self.operand(child, self._deeper(node, depth))
        test = computed(constant(0), [(ARITHMETIC[str(sign)], inner)])
        is_constant = isinstance(child, Token) and child.type == "NUMBER"
        return constant(test(no_properties)) if is_constant else test

    def _chain(self, node: Tree[Token], depth: int) -> Operand:
        first, *rest = node.children
        steps = [
            (ARITHMETIC[str(sign)], self.operand(child, depth))
            for sign, child in zip(rest[::2], rest[1::2], strict=True)
        ]
        return computed(self.operand(first, depth), steps)
