"""The constants of a selector: numbers, quoted texts and names, LIKE patterns.

Numbers follow Java's literals, as JMS asks: 0x2A and 052 are 42, a trailing L, F or D is allowed.
A quote inside quotes is written twice: 'it''s'.
"""

from __future__ import annotations

from lark import Token

from covey.core.errors import quoted
from covey.core.naming.pattern import Regex, quote
from covey.core.selector.parser import column_of, refused
from covey.core.selector.values import WHOLE_MAX, Number, Value, bounded

# A pattern like `%a%a%a...` is slow even for RE2: with 1,300 times `%`, a text of 10 KiB takes
# 0.3 s; with 16 times it takes 0.1 ms.
LIKE_RUNS_MAX = 16


def literal(token: Token) -> Value:
    """Return the constant that a TEXT, NUMBER, TRUE or FALSE token stands for."""
    if token.type == "TEXT":
        return unquoted(token)
    if token.type == "NUMBER":
        return number(token)
    return token.type == "TRUE"


def unquoted(token: Token) -> str:
    """Return what stands between a token's quotes."""
    mark = token[0]
    return token[1:-1].replace(mark * 2, mark)


def number(token: Token) -> Number:
    """Return a number literal's value; a whole one beyond 64 bits becomes a float."""
    text = token.lower()
    if text.startswith("0x"):
        return _hexadecimal(token, text.rstrip("l"))
    digits = text.rstrip("lfd")
    is_whole = text[-1] not in "fd" and digits.isdigit()
    if not is_whole:
        if text.endswith("l"):
            raise refused(column_of(token), f"{quoted(str(token))} is not a whole number")
        return float(digits)
    if len(digits) > len(str(WHOLE_MAX)):
        return float(digits)
    if digits.startswith("0") and len(digits) > 1:
        return _octal(token, digits)
    return bounded(int(digits))


def _hexadecimal(token: Token, text: str) -> Number:
    whole = int(text, 16)
    if whole.bit_length() > 64:
        raise refused(column_of(token), f"{quoted(str(token), 20)} does not fit in 64 bits")
    return bounded(whole)


def _octal(token: Token, digits: str) -> int:
    try:
        return int(digits, 8)
    except ValueError as error:
        cause = f"{quoted(str(token))} begins with 0 and so is octal, which has no 8 or 9"
        raise refused(column_of(token), cause) from error


def like(pattern: Token, escape: Token | None) -> Regex:
    """Compile a LIKE pattern: `%` is any text, `_` any one character, both escapable."""
    mark = _escape_mark(escape)
    pieces: list[str] = []
    is_escaped = False
    for char in unquoted(pattern):
        if is_escaped or char not in ("%", "_", mark):
            pieces.append(quote(char))
            is_escaped = False
        elif char == mark:
            is_escaped = True
        elif char == "_":
            pieces.append(".")
        elif pieces[-1:] != [".*"]:  # %% means no more than %
            pieces.append(".*")
    if is_escaped:
        raise refused(
            column_of(pattern), f"the escape {quoted(mark or '')} at the end escapes nothing"
        )
    if pieces.count(".*") > LIKE_RUNS_MAX:
        cause = f"more than {LIKE_RUNS_MAX} % in one LIKE pattern"
        raise refused(column_of(pattern), cause, "limit")
    return Regex("".join(pieces))


def _escape_mark(escape: Token | None) -> str | None:
    if escape is None:
        return None
    mark = unquoted(escape)
    if len(mark) != 1:
        raise refused(column_of(escape), f"expected one escape character, found {quoted(mark)}")
    return mark
