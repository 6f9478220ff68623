"""Java properties files beside a configuration: values for `${...}`, users, and who is in a group.

A file's name tells what is in it, as in the distributions of ActiveMQ and Artemis:

    users.properties, artemis-users.properties     name = password
    roles.properties, groups.properties,
    artemis-roles.properties                       role = name, name
    any other                                      name = value, for `${name}`
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from covey.cli.importers.imported import Imported, ImportRefused

USERS: Final = "users.properties"
ROLES: Final = ("roles.properties", "groups.properties")
# A name or a value of a properties file: the first unescaped `=`, `:` or blank is between them.
NAME: Final = re.compile(r"(?:\\.|[^\\=:\s])*")
SEPARATOR: Final = re.compile(r"\s*[=:]?\s*")
ESCAPED: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(slots=True)
class Beside:
    """What the files beside a configuration say."""

    values: dict[str, str] = field(default_factory=dict)
    passwords: dict[str, str] = field(default_factory=dict)
    roles: dict[str, list[str]] = field(default_factory=dict)

    def add_users(self, found: Imported) -> None:
        """Add the users with their roles; a password that is hashed cannot be taken over."""
        for name, password in self.passwords.items():
            roles = [role for role, names in self.roles.items() if name in names]
            found.add_user(name, password, roles)


def read_beside(files: Iterable[Path]) -> Beside:
    """Read all of them; a later one wins."""
    beside = Beside()
    for file in files:
        entries = _entries(file)
        if file.name.endswith(USERS):
            beside.passwords |= entries
        elif file.name.endswith(ROLES):
            for role, names in entries.items():
                beside.roles[role] = [name.strip() for name in names.split(",") if name.strip()]
        else:
            beside.values |= entries
    return beside


def _entries(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ImportRefused(f"{file}: {error}") from error
    entries = {}
    for line in _logical(lines):
        name = NAME.match(line)
        between = SEPARATOR.match(line, name.end() if name else 0)
        if name is not None and between is not None:
            entries[_plain(name[0])] = _plain(line[between.end() :].rstrip())
    return entries


def _logical(lines: Iterable[str]) -> Iterator[str]:
    """Join lines that end with a backslash to the next ones; leave out comments."""
    whole = ""
    for line in lines:
        text = line.lstrip()
        if not whole and (not text or text.startswith(("#", "!"))):
            continue
        whole += text
        if (len(whole) - len(whole.rstrip("\\"))) % 2:
            whole = whole[:-1]
            continue
        yield whole
        whole = ""
    if whole:
        yield whole


def _plain(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else CONTROLS.get(code, code)

    return ESCAPED.sub(character, text)
