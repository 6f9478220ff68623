"""From a selector's text to its tree, or to a refusal that says where and what was expected.

The grammar is in `grammar.lark`. The parser is LALR. Its time and memory are linear in the text,
and it does not recurse. So a hostile text can do no harm. The parser is built once, on first use.
"""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from covey.core.errors import RefusedError, quoted

Node: TypeAlias = Token | Tree[Token]

KEYWORDS = frozenset(
    ("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE")
)

# What a person would call the terminals of the grammar; keywords are their own names.
SPOKEN = {
    "NAME": "a value",
    "QUOTED": "a value",
    "TEXT": "a value",
    "NUMBER": "a value",
    "TRUE": "a value",
    "FALSE": "a value",
    "LEFT": "'('",
    "RIGHT": "')'",
    "COMMA": "','",
    "COMPARE": "a comparison",
    "BETWEEN": "a comparison",
    "IN": "a comparison",
    "LIKE": "a comparison",
    "IS": "a comparison",
    "PLUS": "an operator",
    "MINUS": "an operator",
    "TIMES": "an operator",
    "DIVIDE": "an operator",
    "$END": "the end",
}


def parse(text: str) -> Node:
    """Return the tree of a selector, or refuse the text."""
    try:
        return _lark().parse(text)
    except UnexpectedToken as error:
        column = _column(error.token, text)
        found = repr(str(error.token)) if error.token.type != "$END" else "the end"
        cause = f"expected {_spoken(error.accepts or error.expected)}, found {found}"
        raise refused(column, cause) from error
    except UnexpectedCharacters as error:
        at = error.pos_in_stream or 0
        char = text[at]
        is_quote = char in "'\""
        cause = "this quote is never closed" if is_quote else f"{quoted(char)} has no meaning here"
        raise refused(at + 1, cause) from error


def refused(column: int, cause: str, code: str = "invalid") -> RefusedError:
    """Return the error for a selector that cannot be used."""
    return RefusedError(f"selector, column {column}: {cause}", code)


def column_of(node: Node) -> int:
    """Return the column, counted from 1, where a node's own text begins."""
    while not isinstance(node, Token):
        node = node.children[0]
    return (node.start_pos or 0) + 1


@cache
def _lark() -> Lark:
    # A keyword is read as a name first and then renamed. The contextual lexer would read no name
    # where only a keyword may stand. The basic lexer knows all terminals at every place.
    return Lark.open(
        "grammar.lark",
        rel_to=__file__,
        parser="lalr",
        lexer="basic",
        maybe_placeholders=False,
        lexer_callbacks={"NAME": _name_or_keyword},
    )


def _name_or_keyword(token: Token) -> Token:
    word = token.upper()
    return token.update(type=word) if word in KEYWORDS else token


def _column(token: Token, text: str) -> int:
    if token.type == "$END":
        return len(text) + 1
    return column_of(token)


def _spoken(terminals: set[str]) -> str:
    """Return the expected terminals as a sentence's list: `a value, '(' or NOT`."""
    words = {SPOKEN.get(terminal, terminal) for terminal in terminals}
    if "a value" in words:
        words -= {"an operator", "'('", "NOT"}  # a sign, a bracket or NOT only begins a value
    listed = sorted(words)
    if len(listed) == 1:
        return listed[0]
    return f"{', '.join(listed[:-1])} or {listed[-1]}"
