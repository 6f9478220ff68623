"""The configuration as it was given, merged from its layers, with the place of every value.

Layers are put in from the weakest to the strongest: files in order, then the default lists where
no file gave any, then environment, then arguments. Tables are merged key by key, and the later
value wins. Arrays of tables are appended, so that a file in conf.d adds queues and does not lose
those of the main file. Only mistakes that merging would hide are checked here. The records check
everything else.

The place of a value is the line of the TOML text on which its key stands, found by a scanner here:
`{("queue", 1, "groups", "header"): 14, ...}`. Neither tomllib nor tomlkit tells lines, and an error
without a line sends an operator searching.
The text must already have passed tomllib: this scanner only has to find statements, not mistakes.
A table's own path maps to the line of its header, a list's path to the line of its first entry.
Keys inside an inline table or array have no line of their own: the line of the key that holds them
is near enough.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from covey.config.errors import Problem
from covey.config.record import plain_name

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


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value was written, and its key as it was written there."""

    file: str
    line: int
    key: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Tree:
    """Raw values by our own key names, and where each came from."""

    __slots__ = ("_tables", "_values", "problems", "root")

    def __init__(self) -> None:
        """Begin empty."""
        self.root: dict[str, object] = {}
        self.problems: list[Problem] = []
        self._values: dict[KeyPath, Place] = {}
        self._tables: dict[KeyPath, Place] = {}

    def add_file(self, file: str, data: Mapping[str, object], lines: dict[KeyPath, int]) -> None:
        """Merge what tomllib read from one file."""
        _FileMerge(self, file, lines).table(self.root, data, (), ())

    def seed(self, name: str, entries: list[dict[str, object]]) -> None:
        """Put in a default list where no file gave one."""
        self.root.setdefault(name, entries)

    def put(self, path: KeyPath, value: object, place: Place) -> None:
        """Set one value, making the tables on the way."""
        node: object = self.root
        for depth, (part, following) in enumerate(pairwise(path), 1):
            self._tables.setdefault(path[:depth], place)
            if isinstance(node, dict):
                node = node.setdefault(str(part), {})
            elif isinstance(node, list) and isinstance(part, int):
                node = node[part]
            if not isinstance(node, dict | list):
                text = f"{part} is a single value and has no {following}"
                self.problems.append(Problem(place.file, place.line, place.key, text))
                return
        if isinstance(node, dict):
            node[str(path[-1])] = value
            self._values[path] = place

    def mark(self, path: KeyPath, place: Place, *, is_table: bool) -> None:
        """Remember where a value or a table was written."""
        (self._tables if is_table else self._values)[path] = place

    def origin(self, path: KeyPath) -> str:
        """Say where the value in force at `path` was written."""
        for length in range(len(path), 0, -1):
            place = self._values.get(path[:length])
            if place is not None:
                return str(place)
        return "default"

    def place(self, path: KeyPath) -> Place:
        """Return the place nearest to `path`: its own, or that of the table around it."""
        for length in range(len(path), 0, -1):
            place = self._values.get(path[:length]) or self._tables.get(path[:length])
            if place is not None:
                is_own = length == len(path)
                return place if is_own else Place(place.file, place.line, dotted(path))
        return Place("default", 0, dotted(path))


class _FileMerge:
    """One file on its way into the tree: `path` is ours, `raw` the file's own spelling."""

    __slots__ = ("_file", "_lines", "_tree")

    def __init__(self, tree: Tree, file: str, lines: dict[KeyPath, int]) -> None:
        self._tree = tree
        self._file = file
        self._lines = lines

    def table(
        self, target: dict[str, object], given: Mapping[str, object], path: KeyPath, raw: KeyPath
    ) -> None:
        seen: set[str] = set()
        for key, value in given.items():
            name = plain_name(key)
            here, there = (*path, name), (*raw, key)
            place = self._place(there)
            if name in seen:
                text = f"{name} is given twice in this table, under different spellings"
                self._tree.problems.append(Problem(place.file, place.line, place.key, text))
            seen.add(name)
            self._value(target, name, value, (here, there))

    def _value(
        self, target: dict[str, object], name: str, value: object, paths: tuple[KeyPath, KeyPath]
    ) -> None:
        here, there = paths
        is_table = isinstance(value, dict) or _is_table_array(value)
        self._tree.mark(here, self._place(there), is_table=is_table)
        if isinstance(value, dict):
            below = target.get(name)
            merged: dict[str, object] = below if isinstance(below, dict) else {}
            target[name] = merged
            self.table(merged, value, here, there)
        elif isinstance(value, list) and is_table:
            before = target.get(name)
            entries: list[object] = before if isinstance(before, list) else []
            target[name] = entries
            self._append(entries, value, here, there)
        else:
            target[name] = value

    def _append(
        self, entries: list[object], given: list[dict[str, object]], path: KeyPath, raw: KeyPath
    ) -> None:
        for index, table in enumerate(given):
            here, there = (*path, len(entries)), (*raw, index)
            entry: dict[str, object] = {}
            entries.append(entry)
            self._tree.mark(here, self._place(there), is_table=True)
            self.table(entry, table, here, there)

    def _place(self, raw: KeyPath) -> Place:
        for length in range(len(raw), 0, -1):
            if raw[:length] in self._lines:
                return Place(self._file, self._lines[raw[:length]], dotted(raw))
        return Place(self._file, 0, dotted(raw))


def dotted(path: KeyPath) -> str:
    """Write a path for people: `queue[0].groups.strategy`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _is_table_array(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)
