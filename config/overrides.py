"""Single values from outside the files: the environment and the command line.

    broker.id                  COVEY_BROKER__ID                    a key of a plain table
    connector.stomp.bind       COVEY_CONNECTOR__STOMP__BIND        of the connector with that id
    user.admin.password        COVEY_USER__ADMIN__PASSWORD         of the user with that name
    stomp.max_headers          COVEY_STOMP__MAX_HEADERS            of every connector speaking it
    stomp.bind                 COVEY_STOMP__BIND                   of the first connector of the
                                                                   protocol, made where none is

Queues and topics are set in files only: their ids are patterns, which no variable's name can
hold. No override is ignored: an unknown name is a problem, reported with the nearest valid name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from covey.config.connectors import SPOKEN
from covey.config.errors import Problem
from covey.config.record import plain_name
from covey.config.tree import KeyPath, Place, Tree

PREFIX = "COVEY_"

# Variables that are no settings: the command reads COVEY_CONFIG, setup.py and scripts/serve read
# the build switches.
NOT_SETTINGS = frozenset({"COVEY_BUILD", "COVEY_CONFIG", "COVEY_COMPILE", "COVEY_PLAIN"})

# Lists whose entries have a name that can stand in a key, and the field that holds it.
_ENTRY_NAMES = {"virtual_host": "id", "connector": "id", "user": "name"}
_FILES_ONLY = ("queue", "topic")


@dataclass(frozen=True, slots=True)
class Override:
    """One value, the key parts it is for, and where it was given."""

    parts: tuple[str, ...]
    value: object
    place: Place


def from_environment(environ: Mapping[str, str]) -> list[Override]:
    """Return the overrides that COVEY_ variables ask for, in the order of their names."""
    found: list[Override] = []
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in NOT_SETTINGS:
            parts = tuple(name.removeprefix(PREFIX).lower().split("__"))
            place = Place(f"env {name}", 0, ".".join(parts))
            found.append(Override(parts, _from_text(environ[name]), place))
    return found


def from_arguments(arguments: Mapping[str, object]) -> list[Override]:
    """Return the overrides of the command line; None means that an option was not given."""
    return [
        Override(tuple(key.split(".")), value, Place("argument", 0, key))
        for key, value in arguments.items()
        if value is not None
    ]


def apply(tree: Tree, overrides: list[Override]) -> None:
    """Put the overrides into the tree; those with unknown names become its problems."""
    for override in overrides:
        for path in _targets(tree, override):
            tree.put(path, override.value, override.place)


def _from_text(text: str) -> object:
    """Read `[...]` and `{...}` as TOML; leave every other text for the field itself to read."""
    if text.lstrip().startswith(("[", "{")):
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            return text
    return text


def _targets(tree: Tree, override: Override) -> list[KeyPath]:
    first, *rest = (plain_name(part) for part in override.parts)
    if first in SPOKEN:
        return _protocol_targets(tree, override, first, rest)
    if first in _FILES_ONLY:
        _refuse(tree, override, f"{first} entries are set in files only")
        return []
    if first in _ENTRY_NAMES and rest:
        return _entry_targets(tree, override, rest)
    return [(first, *rest)]


def _protocol_targets(
    tree: Tree, override: Override, protocol: str, rest: list[str]
) -> list[KeyPath]:
    if not rest:
        _refuse(tree, override, f"names the protocol {protocol} but none of its options")
        return []
    connectors = _entries(tree, "connector")
    if rest == ["bind"]:
        for index, connector in enumerate(connectors):
            if connector.get("protocol") == protocol:
                return [("connector", index, "bind")]
        connectors.append({"id": protocol, "protocol": protocol})
        return [("connector", len(connectors) - 1, "bind")]
    speaking: list[KeyPath] = [
        ("connector", index, protocol, *rest)
        for index, connector in enumerate(connectors)
        if protocol in SPOKEN.get(str(connector.get("protocol")), ())
    ]
    if not speaking:
        _refuse(tree, override, f"no connector speaks {protocol}")
    return speaking


def _entry_targets(tree: Tree, override: Override, rest: list[str]) -> list[KeyPath]:
    """Find a list's entry by its name; ignore case and hyphens, which variables cannot have."""
    name = plain_name(override.parts[0])
    ids = [str(entry.get(_ENTRY_NAMES[name], "")) for entry in _entries(tree, name)]
    wanted = _folded(override.parts[1])
    for index, entry_id in enumerate(ids):
        if _folded(entry_id) != wanted:
            continue
        if not rest[1:]:
            _refuse(tree, override, f"names a {name} but none of its keys")
            return []
        return [(name, index, *rest[1:])]
    nearest = get_close_matches(override.parts[1], ids, 1)
    hint = f"{name}.{nearest[0]}" if nearest else ""
    _refuse(tree, override, f"there is no {name} named {override.parts[1]}", hint)
    return []


def _folded(name: str) -> str:
    return name.replace("-", "_").lower()


def _entries(tree: Tree, name: str) -> list[dict[str, object]]:
    """Return a list's entries; a list of the wrong shape gives none and is refused later."""
    entries = tree.root.get(name)
    if isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries):
        return entries
    return []


def _refuse(tree: Tree, override: Override, text: str, hint: str = "") -> None:
    place = override.place
    tree.problems.append(Problem(place.file, place.line, place.key, text, hint))
