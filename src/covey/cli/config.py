"""`covey config`: check, show, schema, import. Nothing here speaks to a broker."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import SecretStr

from covey.cli.options import EXAMPLE, AsJson, Noun
from covey.cli.output import complain, done, plain_lines, say
from covey.config.connectors import SPOKEN
from covey.config.errors import ConfigError
from covey.config.load import Loaded, load
from covey.config.settings import schema as settings_schema
from covey.config.toml_writer import to_toml
from covey.core.management.settings_check import flaws

SECRET = "**********"

File = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", envvar="COVEY_CONFIG", help="a TOML file; none: defaults"),
]

app = Noun(help="Check and show configurations.")


@app.command(epilog=EXAMPLE.format("covey config check covey.toml"))
def check(file: File = None, as_json: AsJson = False) -> None:
    """Say everything that is wrong with a configuration."""
    try:
        loaded = _load(file)
    except ConfigError as error:
        if not as_json:
            raise
        say(json.dumps({"ok": False, "errors": str(error).splitlines()}, indent=2))
        raise typer.Exit(1) from error
    settings = loaded.settings
    found = {"connectors": settings.connectors, "queues": settings.queues, "users": settings.users}
    counts: dict[str, object] = {name: len(entries) for name, entries in found.items()}
    line = "ok: {connectors} connectors, {queues} queue policies, {users} users".format(**counts)
    counts |= {"ok": True, "warnings": list(loaded.warnings)}
    done(line, counts, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey config show covey.toml --origin"))
def show(
    file: File = None,
    origin: Annotated[bool, typer.Option("--origin", help="say where each value is from")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the configuration in force: arguments over environment over files over defaults."""
    loaded = _load(file)
    values = _plain(loaded.settings.model_dump(by_alias=True))
    for connector in values["connector"]:
        for protocol in SPOKEN:
            if protocol not in SPOKEN[connector["protocol"]]:
                del connector[protocol]  # another protocol's options would be refused
    if as_json:
        say(json.dumps({"settings": values, "origins": loaded.origins}, indent=2))
    elif origin:
        rows = [
            (key, json.dumps(value, ensure_ascii=False), loaded.origins[key])
            for key, value in _leaves(values, "")
        ]
        say("\n".join(plain_lines(("key", "value", "origin"), rows)))
    else:
        say(to_toml(values).rstrip("\n"))


@app.command(epilog=EXAMPLE.format("covey config schema > covey.schema.json"))
def schema() -> None:
    """Print the JSON schema of a configuration file."""
    say(json.dumps(settings_schema(), indent=2))


@app.command("import", epilog=EXAMPLE.format("covey config import activemq.xml > covey.toml"))
def import_file(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="apollo.xml, activemq.xml, broker.xml of Artemis, definitions.json of RabbitMQ,"
            " or what qpid-config queues prints",
        ),
    ],
    properties: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="values for ${...}, users or roles, by its name; repeatable"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print another broker's configuration as ours; exit code 1 if it would be more open."""
    from covey.cli.importers.imported import ImportRefused
    from covey.cli.importers.importer import import_text
    from covey.cli.importers.properties import read_beside

    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file}: {error}") from error
    try:
        found = import_text(text, read_beside(properties or []))
        data = found.data()
        told = {"settings": data, "notes": found.short_notes(), "more_open": found.opens}
        say(json.dumps(told, indent=2) if as_json else found.text().rstrip("\n"))
    except ImportRefused as error:
        complain(f"covey: {file}: {error}")
        raise typer.Exit(1) from error
    for reason in found.opens:
        complain(f"covey: {file}: more open than before: {reason}")
    if found.opens:
        raise typer.Exit(1)


def _load(file: Path | None) -> Loaded:
    loaded = load(file, os.environ, {}, flaws)
    for warning in loaded.warnings:
        complain(f"warning: {warning}")
    return loaded


def _plain(value: Any) -> Any:
    """Return settings as plain data, passwords covered."""
    if isinstance(value, SecretStr):
        return SECRET
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _leaves(node: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Give each value under its key, written like `queue[0].groups.strategy`."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from _leaves(value, f"{key}.{name}" if key else name)
    elif isinstance(node, list) and node and isinstance(node[0], dict):
        for place, value in enumerate(node):
            yield from _leaves(value, f"{key}[{place}]")
    else:
        yield key, node
