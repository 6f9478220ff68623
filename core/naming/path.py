# Compiled by mypyc: see setup.py.
"""The text of a destination's path: cutting it into parts, and one normal form for each part.

A path is parts with a separator between them. A part is atoms: literal text and, in a pattern, `*`,
a whole `**`, or `{regex}`. The marks for these can be configured, so every function here takes
`Marks`. Inside the broker there is one spelling only, `CANONICAL`.

Rules:
- Literal text has one form (the name rules of the Apollo STOMP manual). The bytes of
  `a-z A-Z 0-9 _ - ~ : ( )` and space stand for themselves. Every other byte of the UTF-8 text is
  `%XX` with capital hex digits. So `stock/IBM` and `stock%2fIBM` are the same name.
- A regular expression is kept as written. Separators inside its braces do not cut. A brace inside
  it must be balanced (`{[0-9]{2}}`) or follow a backslash.
- One pass from left to right, no backtracking.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from covey.core.errors import RefusedError, percent, quoted

PLAIN_CHARACTERS = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-~: ()"
)
# Characters that need no `%XX` by the manual. Where one is a mark, it is cut out before.
LISTED_CHARACTERS = PLAIN_CHARACTERS | frozenset(".,*")
PLAIN_TEXT = re.compile(r"[A-Za-z0-9_\-~: ()]+")
ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


class Marks(NamedTuple):
    """How a path is punctuated."""

    separator: str = "."
    any_child: str = "*"
    any_descendant: str = "**"
    regex_start: str = "{"
    regex_end: str = "}"


CANONICAL = Marks()


class AtomKind(Enum):
    """What one atom of a part stands for."""

    TEXT = "text"
    ANY_CHILD = "any child"
    ANY_DESCENDANT = "any descendant"
    REGEX = "regex"


class Atom(NamedTuple):
    """A piece of one part: literal text, a wildcard, or the text of a regular expression."""

    kind: AtomKind
    text: str = ""


def cut(text: str, separator: str, marks: Marks) -> list[str]:
    """Cut `text` at each `separator` that is outside a regular expression."""
    if marks.regex_start not in text:
        return text.split(separator)
    pieces: list[str] = []
    begin = index = 0
    while index < len(text):
        if text.startswith(marks.regex_start, index):
            index = regex_close(text, index, marks) + len(marks.regex_end)
        elif text.startswith(separator, index):
            pieces.append(text[begin:index])
            begin = index = index + len(separator)
        else:
            index += 1
    pieces.append(text[begin:])
    return pieces


def regex_close(text: str, at: int, marks: Marks) -> int:
    """Return where the regular expression that starts at `at` has its closing brace."""
    depth = 0
    index = at
    while index < len(text):
        if text.startswith("\\", index) and depth:
            index += 2
        elif text.startswith(marks.regex_end, index):
            depth -= 1
            if depth == 0:
                return index
            index += len(marks.regex_end)
        elif text.startswith(marks.regex_start, index):
            depth += 1
            index += len(marks.regex_start)
        else:
            index += 1
    cause = f"{quoted(marks.regex_start)} at position {at + 1} has no {quoted(marks.regex_end)}"
    raise RefusedError(f"destination {quoted(text)}: {cause}", "invalid")


def atoms(part: str, marks: Marks) -> list[Atom]:
    """Take one part of a path to pieces; literal text is left in its own spelling."""
    if part == marks.any_descendant:
        return [Atom(AtomKind.ANY_DESCENDANT)]
    found: list[Atom] = []
    begin = index = 0
    while index < len(part):
        atom, end = _wildcard_at(part, index, marks)
        if atom is None:
            index += 1
            continue
        if begin < index:
            found.append(Atom(AtomKind.TEXT, part[begin:index]))
        found.append(atom)
        begin = index = end
    if begin < len(part):
        found.append(Atom(AtomKind.TEXT, part[begin:]))
    return found


def _wildcard_at(part: str, index: int, marks: Marks) -> tuple[Atom | None, int]:
    """Return the wildcard that begins at `index` and where it ends, or None for literal text."""
    if part.startswith(marks.regex_start, index):
        close = regex_close(part, index, marks)
        text = part[index + len(marks.regex_start) : close]
        return Atom(AtomKind.REGEX, text), close + len(marks.regex_end)
    if part.startswith(marks.any_descendant, index):
        cause = f"{quoted(marks.any_descendant)} must be a whole part of the path"
        raise RefusedError(f"destination part {quoted(part)}: {cause}", "invalid")
    if part.startswith(marks.any_child, index):
        return Atom(AtomKind.ANY_CHILD), index + len(marks.any_child)
    return None, index


def write(atom: Atom, marks: Marks) -> str:
    """Spell an atom with `marks`; literal text stays as it is."""
    if atom.kind is AtomKind.TEXT:
        return atom.text
    if atom.kind is AtomKind.ANY_CHILD:
        return marks.any_child
    if atom.kind is AtomKind.ANY_DESCENDANT:
        return marks.any_descendant
    text = marks.regex_start + atom.text + marks.regex_end
    # With other marks the same expression may be unbalanced and could not be read back.
    if regex_close(text, 0, marks) + len(marks.regex_end) != len(text):
        cause = "its braces must be balanced or follow a backslash"
        raise RefusedError(f"regular expression {quoted(atom.text)}: {cause}", "invalid")
    return text


def encode(text: str, *, listed: frozenset[str] | None = None, keep: str = "") -> str:
    """Return the one form of literal text; `keep` names characters that also stay as they are.

    `%XX` in the text is read as the byte it names. A character that is not `listed` is refused,
    because it should have been written as `%XX`. Without a list every character is allowed.
    """
    if PLAIN_TEXT.fullmatch(text):
        return text
    if listed is not None:
        _refuse_raw_characters(text, listed)
    raw = ESCAPE.sub(_escaped_byte, text.encode("utf-8", "surrogatepass"))
    if listed is not None:
        _refuse_other_bytes(text, raw)
    return "".join(_encode_byte(byte, keep) for byte in raw)


def decode(text: str) -> str:
    """Return what encoded text means; bytes that are not UTF-8 become U+FFFD."""
    if "%" not in text:
        return text
    return ESCAPE.sub(_escaped_byte, text.encode("utf-8")).decode("utf-8", "replace")


def escape(text: str, reserved: str) -> str:
    """Hide the `reserved` characters of encoded text behind `%XX`."""
    return "".join(f"%{ord(char):02X}" if char in reserved else char for char in text)


def _escaped_byte(found: re.Match[bytes]) -> bytes:
    return bytes((int(found.group(1), 16),))


def _encode_byte(byte: int, keep: str) -> str:
    char = chr(byte)
    return char if char in PLAIN_CHARACTERS or char in keep else f"%{byte:02X}"


def _refuse_raw_characters(text: str, listed: frozenset[str]) -> None:
    for index, char in enumerate(text):
        if char == "%" and ESCAPE.match(text[index : index + 3].encode("utf-8", "replace")):
            continue
        if char not in listed:
            cause = f"{quoted(char)} at position {index + 1} must be written as {percent(char)}"
            raise RefusedError(f"destination part {quoted(text)}: {cause}", "invalid")


def _refuse_other_bytes(text: str, raw: bytes) -> None:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        cause = f"%{raw[error.start]:02X} does not stand for UTF-8"
        raise RefusedError(f"destination part {quoted(text)}: {cause}", "invalid") from error
