"""`covey user`: list, add, password, remove, permissions, allow, disallow, hash.

A password is typed unseen or piped in, never an argument; what leaves this machine is a SCRAM
record of it.

A broker that runs keeps what these commands set, from then on and over restarts. It lies over the
users and permissions of the configuration file, which the broker never writes. `add --config` is
for the file: it appends a user, in one step or not at all, and only if the result loads.
"""

from __future__ import annotations

import os
import stat
import sys
import tomllib
from pathlib import Path
from typing import Annotated

import typer

from covey.cli.completion import permission_names, user_names
from covey.cli.options import (
    EXAMPLE,
    LOCAL,
    AsJson,
    Broker,
    DoneAsJson,
    Noun,
    Watch,
    managed,
)
from covey.cli.output import complain, done, repeat, show
from covey.client.errors import AnswerError
from covey.config.load import load
from covey.config.settings import Settings
from covey.config.toml_writer import to_toml
from covey.core.security.passwords import make_record

ADMIN = "admin"
PRIVATE = 0o600  # a record is enough to try passwords against

USER_COLUMNS = ("name", "roles", "origin")
PERMISSION_COLUMNS = ("name", "who", "may", "on", "origin")

NewName = Annotated[str, typer.Argument(metavar="NAME", help="the login")]
UserName = Annotated[
    str, typer.Argument(metavar="NAME", help="the login", autocompletion=user_names)
]
Roles = Annotated[list[str] | None, typer.Option("--role", metavar="ROLE", help="repeatable")]

app = Noun(help="Who may log in, and do what.")


@app.command("hash", epilog=EXAMPLE.format("covey user hash < password.txt"))
def hash_password(as_json: DoneAsJson = False) -> None:
    """Turn a password into a SCRAM record, for a user of a configuration file."""
    record = make_record(_password()).text()
    done(record, {"record": record}, as_json=as_json)


@app.command("list", epilog=EXAMPLE.format("covey user list"))
def list_users(broker: Broker = LOCAL, as_json: AsJson = False, watch: Watch = 0) -> None:
    """List who may log in, and whether the file or the broker says so."""
    with managed(broker) as client:
        repeat(lambda: show(client.query("user"), USER_COLUMNS, as_json=as_json), watch)


@app.command(epilog=EXAMPLE.format("covey user add ann --role admin"))
def add(
    name: NewName,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="add it to this TOML file instead")
    ] = None,
    role: Roles = None,
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Add a user to a broker that runs, or to a configuration file."""
    if config is not None:
        _add_to_file(name, config, role or [], as_json=as_json)
        return
    fields = {"password": make_record(_password()).text(), "roles": role or []}
    with managed(broker) as client:
        made = client.ask("CREATE", "user", name, {"arguments": fields})
    done(f"{name} may log in", made, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey user password ann"))
def password(name: UserName, broker: Broker = LOCAL, as_json: DoneAsJson = False) -> None:
    """Give a user another password; open connections have to log in again."""
    record = make_record(_password()).text()
    with managed(broker) as client:
        made = client.change_user("UPDATE", name, {"password": record})
    done(f"{name} has another password", made, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey user roles ann --role admin --role sales"))
def roles(
    name: UserName, role: Roles = None, broker: Broker = LOCAL, as_json: DoneAsJson = False
) -> None:
    """Give a user these roles, and no others."""
    with managed(broker) as client:
        made = client.change_user("UPDATE", name, {"roles": role or []})
    done(f"{name} has {len(role or [])} roles", made, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey user remove ann"))
def remove(name: UserName, broker: Broker = LOCAL, as_json: DoneAsJson = False) -> None:
    """Remove a user that was added at run time; the file's of that name holds again."""
    with managed(broker) as client:
        client.change_user("DELETE", name)
    done(f"{name} removed", {"user": name, "removed": True}, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey user permissions ann"))
def permissions(
    who: Annotated[
        str,
        typer.Argument(
            metavar="WHO", help="a user, or role:NAME; all if none", autocompletion=user_names
        ),
    ] = "",
    broker: Broker = LOCAL,
    as_json: AsJson = False,
    watch: Watch = 0,
) -> None:
    """List who may do what."""
    with managed(broker) as client:

        def look() -> None:
            rows = [row for row in client.query("permission") if not who or who in row["who"]]
            show(rows, PERMISSION_COLUMNS, as_json=as_json)

        repeat(look, watch)


@app.command(epilog=EXAMPLE.format("covey user allow shop send,consume orders.** --name shop-1"))
def allow(
    who: Annotated[
        str,
        typer.Argument(metavar="WHO", help="a user, role:NAME, or *", autocompletion=user_names),
    ],
    may: Annotated[str, typer.Argument(metavar="VERBS", help="with commas between them")],
    on: Annotated[str, typer.Argument(metavar="PATTERN", help="queue:NAME, topic:NAME or NAME")],
    name: Annotated[str, typer.Option(metavar="NAME", help="what it is called in the list")] = "",
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Allow somebody something. Once there is a permission, all else is denied."""
    name = name or f"{who} {may} {on}"
    fields = {"who": who.split(","), "may": may.split(","), "on": on}
    with managed(broker) as client:
        made = client.ask("CREATE", "permission", name, {"arguments": fields})
    done(f"{who} may {may} on {on}", made, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey user disallow shop-1"))
def disallow(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="as `covey user permissions` shows",
            autocompletion=permission_names,
        ),
    ],
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Take a permission back that was given at run time."""
    with managed(broker) as client:
        client.ask("DELETE", "permission", name)
    done(f"{name} taken back", {"permission": name, "removed": True}, as_json=as_json)


def _add_to_file(name: str, config: Path, role: list[str], *, as_json: bool) -> None:
    text = ""
    if config.exists():
        load(config, {}, {})  # says what is wrong with it as it is
        text = config.read_text("utf-8-sig")
        if any(user["name"] == name for user in tomllib.loads(text).get("user", [])):
            raise AnswerError(f"{config}: user {name} exists already")
    user = {"name": name, "password": make_record(_password()).text(), "roles": role}
    after = _replace(config, f"{text}{_gap(text)}{to_toml({'user': [user]})}")
    if not any(ADMIN in user.roles for user in after.users):
        complain("warning: no user has the role admin; nobody can manage the broker")
    done("", {"user": name, "roles": role, "config": str(config)}, as_json=as_json)


def _replace(config: Path, text: str) -> Settings:
    """Write the file anew if it loads, beside the old one first, for the same readers as that."""
    beside = config.with_name(f".{config.name}.new")
    try:
        _write(beside, text, config)
        settings = load(beside, {}, {}).settings
        os.replace(beside, config.resolve())  # a link stays one
    finally:
        beside.unlink(missing_ok=True)
    return settings


def _write(beside: Path, text: str, config: Path) -> None:
    """Write a file that nobody else ever reads who may not read the old one."""
    beside.unlink(missing_ok=True)
    with open(
        os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "w", -1, "utf-8"
    ) as new:
        new.write(text)
        if config.exists():
            old = config.stat()
            os.fchown(new.fileno(), old.st_uid, old.st_gid)
            os.fchmod(new.fileno(), stat.S_IMODE(old.st_mode))
        new.flush()
        os.fsync(new.fileno())


def _gap(text: str) -> str:
    if not text:
        return ""
    return "\n" if text.endswith("\n") else "\n\n"


def _password() -> str:
    if sys.stdin.isatty():
        typed: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        return typed
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise typer.BadParameter("no password on standard input")
    return password
