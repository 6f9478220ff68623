"""Imported: our configuration as plain data, with notes for what had no place in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from xml.etree.ElementTree import Element

from pydantic import ValidationError

from covey.cli.toml_writer import to_toml
from covey.config.settings import Settings

NEEDS_CERTIFICATE: Final = "TLS needs certificate and key of [connector.tls], PEM"


class ImportRefused(Exception):
    """A foreign configuration cannot be read; the text says why."""


class Imported:
    """What a foreign configuration means here, as far as it does."""

    def __init__(self) -> None:
        self.broker: dict[str, Any] = {}
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self.notes: list[str] = []

    def add(self, table: str, entry: dict[str, Any]) -> None:
        """Add an entry of a list of tables."""
        self.tables.setdefault(table, []).append(entry)

    def text(self) -> str:
        """Return the TOML, notes first; raises ImportRefused if we would not load it."""
        data: dict[str, Any] = {**({"broker": self.broker} if self.broker else {}), **self.tables}
        try:
            Settings.model_validate(data)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise ImportRefused(f"{place}: {first['msg']}") from error
        self._look_for_management()
        notes = "".join(f"# Note: {note}\n" for note in dict.fromkeys(self.notes))
        return f"{notes}\n{to_toml(data)}".lstrip("\n")

    def _look_for_management(self) -> None:
        """Note which ports are missing: a list of connectors replaces the default one."""
        spoken = [entry["protocol"] for entry in self.tables.get("connector", [])]
        for protocol, needed_by in (("amqp", "the commands"), ("http", "metrics and the page")):
            if spoken and protocol not in spoken:
                self.notes.append(f"no connector speaks {protocol}, which {needed_by} need")


def local_name(element: Element) -> str:
    """Return an element's name without its namespace."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def value_of(text: str) -> bool | int | str:
    """Read an attribute: a truth value, a number, or a text."""
    plain = text.strip()
    if plain in ("true", "false"):
        return plain == "true"
    return int(plain) if plain.isascii() and plain.isdigit() else plain


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
