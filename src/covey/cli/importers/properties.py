"""Java properties files beside a configuration: values for `${...}`, users, and who is in a group.

A file's name tells what is in it, as in the distributions of ActiveMQ and Artemis:

    users.properties, artemis-users.properties     name = password
    roles.properties, groups.properties,
    artemis-roles.properties                       role = name, name
    any other                                      name = value, for `${name}`
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from covey.cli.importers.imported import CLEAR_PASSWORDS, Imported, ImportRefused

USERS: Final = "users.properties"
ROLES: Final = ("roles.properties", "groups.properties")
HASHED: Final = "ENC("
# The groups that may do everything in the distributions' own examples.
ADMINS: Final = ("admins", "amq")


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
            if password.startswith(HASHED):
                found.lock(name, roles)
                continue
            found.add("user", {"name": name, "password": password, "roles": roles})
            found.notes.append(CLEAR_PASSWORDS)


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
    for line in lines:
        text = line.strip()
        if text and not text.startswith(("#", "!")):
            name, _, value = text.partition("=")
            entries[name.strip()] = value.strip()
    return entries
