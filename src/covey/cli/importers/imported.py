"""Imported: our configuration as plain data, with notes for what had no place in it.

- Every part of the source that is left out has a note. The notes head the file that is printed.
- A part whose absence would let somebody do what the source forbids is in `opens` as well: the
  command fails then. Where access cannot be translated, nobody gets it: closed, not open.
- A source that asks for a login must have users here, or the default login would let somebody in.
- `${name}` is looked up in properties files. One that nobody resolves is refused by its place
  if its value would be used: a password must never be the text `${password}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from xml.etree.ElementTree import Element

from pydantic import ValidationError

from covey.config.settings import Settings
from covey.config.toml_writer import to_toml

NEEDS_CERTIFICATE: Final = "TLS needs certificate and key of [connector.tls], PEM"
CLEAR_PASSWORDS: Final = "passwords are in clear text; `covey user hash` makes records of them"
ELEMENT: Final = re.compile(r"(<[^>]+>) has no counterpart")
# `${name}`, or `${name:what else}`.
PLACEHOLDER: Final = re.compile(r"\$\{([^}:]+)(?::([^}]*))?\}")
# A record whose keys are all zeros. No password leads to it, so nobody can log in with it.
LOCKED: Final = f"SCRAM-SHA-256$4096:{'A' * 22}==${'A' * 43}=:{'A' * 43}="

SIZE: Final = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
HASHED: Final = "ENC("  # how ActiveMQ and Artemis begin a password that is not in clear text

Properties = Mapping[str, str]


class ImportRefused(Exception):
    """A foreign configuration cannot be read; the text says why."""


class Imported:
    """What a foreign configuration means here, as far as it does."""

    def __init__(self, properties: Properties | None = None) -> None:
        self.properties = properties or {}
        self.broker: dict[str, Any] = {}
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self.notes: list[str] = []
        self.opens: list[str] = []
        self.asks_for_login = False
        self._needless: list[str] = []

    def add(self, table: str, entry: dict[str, Any]) -> None:
        """Add an entry of a list of tables."""
        self.tables.setdefault(table, []).append(entry)

    def open_up(self, reason: str) -> None:
        """Note something that lets in who was kept out before."""
        if reason not in self.opens:
            self.notes.append(f"MORE OPEN than before: {reason}")
            self.opens.append(reason)

    def need_no_entry(self, kind: str, name: str) -> None:
        """Note a queue or topic that the source declares without anything of its own."""
        self._needless.append(f"{kind} {name}")

    def add_user(self, name: str, password: str, roles: list[str]) -> None:
        """Add a user with its password; one that is hashed cannot be taken over."""
        if password.startswith(HASHED):
            self.lock(name, roles)
        else:
            self.add("user", {"name": name, "password": password, "roles": roles})
            self.notes.append(CLEAR_PASSWORDS)

    def lock(self, name: str, roles: list[str]) -> None:
        """Add a user whose password cannot be taken over: nobody can log in as that user yet."""
        self.add("user", {"name": name, "password": LOCKED, "roles": roles})
        self.notes.append(
            f"user {name}: its password is a hash that cannot be taken over; nobody logs in as"
            f" {name} until `covey user hash` has made a record to put there"
        )

    def allow(self, who: list[str], may: list[str], on: str) -> None:
        """Add a permission, unless there is the same already."""
        entry = {"who": who, "may": may, "on": on}
        if who and may and entry not in self.tables.get("permission", []):
            self.add("permission", entry)

    def resolved(self, text: str) -> str:
        """Put in what the properties say; what they do not say stays, to be refused if used."""

        def value(found: re.Match[str]) -> str:
            name, otherwise = found.groups()
            return self.properties.get(name.strip(), found[0] if otherwise is None else otherwise)

        return PLACEHOLDER.sub(value, text)

    def data(self) -> dict[str, Any]:
        """Return the configuration; raises ImportRefused if we would not load it."""
        data: dict[str, Any] = {**({"broker": self.broker} if self.broker else {}), **self.tables}
        for place, value in _texts(data, ""):
            unresolved = PLACEHOLDER.search(value)
            if unresolved is not None:
                raise ImportRefused(
                    f"{place}: nothing says what {unresolved[0]} is;"
                    " name the properties file with --properties"
                )
        try:
            Settings.model_validate(data)
        except ValidationError as error:
            first = error.errors()[0]
            raise ImportRefused(f"{_named_place(data, first['loc'])}: {first['msg']}") from error
        self._look_for_management()
        is_closed = self.asks_for_login or "permission" in self.tables
        if is_closed and "user" not in self.tables:
            self.open_up(
                "no user is known, so admin may log in from this machine with the default password"
            )
        return data

    def text(self) -> str:
        """Return the TOML, notes first; raises ImportRefused if we would not load it."""
        data = self.data()
        notes = "".join(f"# Note: {note}\n" for note in self.short_notes())
        return f"{notes}\n{to_toml(data)}".strip("\n") + "\n"

    def short_notes(self) -> list[str]:
        """Return each note once, those of single elements joined to one."""
        lone = [found[1] for found in map(ELEMENT.fullmatch, self.notes) if found is not None]
        notes = [note for note in self.notes if ELEMENT.fullmatch(note) is None]
        if lone:
            names = ", ".join(dict.fromkeys(lone))
            notes.append(f"without a counterpart: {names}")
        if self._needless:
            names = ", ".join(dict.fromkeys(self._needless))
            notes.append(f"made when first used, so without an entry: {names}")
        return list(dict.fromkeys(notes))

    def _look_for_management(self) -> None:
        """Note which ports are missing: a list of connectors replaces the default one."""
        spoken = [entry["protocol"] for entry in self.tables.get("connector", [])]
        for protocol, needed_by in (("amqp", "the commands"), ("http", "metrics and the page")):
            if spoken and protocol not in spoken:
                self.notes.append(f"no connector speaks {protocol}, which {needed_by} need")


def _named_place(data: dict[str, Any], place: tuple[int | str, ...]) -> str:
    """Say where a value stands, an entry of a table by its name: `connector amqp: bind`."""
    table, *rest = place
    if not rest or not isinstance(rest[0], int):
        return ".".join(str(part) for part in place)
    entry = data[str(table)][rest[0]]
    name = entry.get("id", entry.get("name", rest[0]))
    return ": ".join([f"{table} {name}", *([".".join(map(str, rest[1:]))] if rest[1:] else [])])


def _texts(value: object, place: str) -> Iterator[tuple[str, str]]:
    """Give every text of plain data with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _texts(each, f"{place}[{number}]")


def local_name(element: Element) -> str:
    """Return an element's name without its namespace."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def value_of(text: str) -> bool | int | str:
    """Read an attribute: a truth value, a number, or a text."""
    plain = text.strip()
    if plain in ("true", "false"):
        return plain == "true"
    return int(plain) if plain.isascii() and plain.isdigit() else plain


def size_of(text: str) -> str:
    """Read `64 mb`, `10KiB` or `2048b` as our `64M`, `10K`, `2048`; what is no size stays."""
    size = SIZE.fullmatch(text.strip())
    return text if size is None else size[1] + size[2].upper().replace("K", "k")


def named(
    element: Element, names: Mapping[str, str], found: Imported, *, skipped: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the attributes that have a name here; the others become notes."""
    values: dict[str, Any] = {}
    for attribute, text in element.attrib.items():
        if attribute in names:
            values[names[attribute]] = value_of(text)
        elif attribute not in skipped:
            found.notes.append(f"<{local_name(element)} {attribute}> has no counterpart")
    return values
