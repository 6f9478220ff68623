"""On which line of a TOML text each key stands: `{("queue", 1, "groups", "header"): 14, ...}`.

Neither tomllib nor tomlkit tells lines, and an error without one sends an operator searching.
The text must already have passed tomllib: this scanner only has to find statements, not faults.
A table's own path maps to the line of its header, a list's to that of its first entry. Keys inside
an inline table or array have no entry: whoever asks goes up to the key that holds it, whose line is
near enough.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

KeyPath = tuple[str | int, ...]

# Texts come first, so that brackets, `=` and line ends inside them are not taken for syntax.
_TOKEN = re.compile(
    r"""
      \"{3} (?: \\. | [^\\] )*? \"{3,5}
    | '{3} .*? '{3,5}
    | " (?: \\. | [^"\\\n] )* "
    | ' [^'\n]* '
    | \# [^\n]*
    | [^"'\#\[\]{}=\n]+
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line (from 1) of every key and table header in a valid TOML text."""
    lines: dict[KeyPath, int] = {}
    last_index: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for line, head in _statements(text):
        if head.startswith("["):
            is_entry = head.startswith("[[")
            table = _table_path(_parts(head.strip("[] \t\r")), last_index, is_entry=is_entry)
            lines.setdefault(table, line)
            if is_entry:
                lines.setdefault(table[:-1], line)
            continue
        path = table
        for part in _parts(head):
            path = (*path, part)
            lines.setdefault(path, line)
    return lines


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, head) of each statement: `[table]`, `[[table]]`, or the key before its `=`."""
    line = 1
    start = 0
    head = ""
    depth = 0
    in_value = False
    for token in _TOKEN.findall(text.replace("\r\n", "\n")):
        if token == "\n" and depth == 0:
            if head.strip():
                yield start, head.strip()
            head, in_value = "", False
        elif token == "=" and depth == 0:
            in_value = True
        elif token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
        if not in_value and token[0] not in "#\n":
            start = start if head.strip() else line
            head += token
        line += token.count("\n")
    if head.strip():
        yield start, head.strip()


def _parts(key: str) -> list[str]:
    """Split a dotted key, quoted parts included, by letting tomllib read it."""
    parts: list[str] = []
    node: object = tomllib.loads(f"{key} = 0")
    while isinstance(node, dict):
        name, node = next(iter(node.items()))
        parts.append(name)
    return parts


def _table_path(parts: list[str], last_index: dict[KeyPath, int], *, is_entry: bool) -> KeyPath:
    """Return a header's path; an array of tables on the way means its latest entry."""
    path: KeyPath = ()
    for part in parts[:-1]:
        path = (*path, part)
        if path in last_index:
            path = (*path, last_index[path])
    path = (*path, parts[-1])
    if is_entry:
        last_index[path] = last_index.get(path, -1) + 1
        path = (*path, last_index[path])
    return path
