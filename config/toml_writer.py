"""Writes plain data as TOML in the shape of `config/default.toml`: lists of tables as `[[...]]`.

It writes texts, numbers, truth values, lists of those, tables, and lists of tables. None is left
out. The TOML reads back as the same data, whatever characters are in it (a test checks this).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

Table = Mapping[str, Any]


def to_toml(data: Table) -> str:
    """Return a TOML document."""
    return "\n".join(_table(data, "")).lstrip("\n") + "\n"


def _table(table: Table, path: str) -> Iterator[str]:
    """Yield the lines of a table, plain values first: after a subtable they would belong to it."""
    for key, value in table.items():
        if value is not None and not isinstance(value, Mapping) and not _is_tables(value):
            yield f"{_key(key)} = {_value(value)}"
    for key, value in table.items():
        name = f"{path}.{_key(key)}" if path else _key(key)
        if isinstance(value, Mapping):
            yield from ("", f"[{name}]")
            yield from _table(value, name)
        elif _is_tables(value):
            for entry in value:
                yield from ("", f"[[{name}]]")
                yield from _table(entry, name)


def _is_tables(value: object) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value)


def _key(key: str) -> str:
    is_bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if is_bare else _text(key)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(each) for each in value)}]"
    return repr(value) if isinstance(value, int | float) else _text(str(value))


def _text(text: str) -> str:
    # JSON's escapes are valid in TOML. In addition TOML wants DEL escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
