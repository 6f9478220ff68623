"""`covey user`: hash, add. A password is typed unseen or piped in, never an argument.

Users are part of the configuration: `add` appends one to a file, which the broker reads at its
next start or SIGHUP. The file changes in one step or not at all, and only if the result loads.
"""

from __future__ import annotations

import os
import stat
import sys
import tomllib
from pathlib import Path
from typing import Annotated

import typer

from covey.cli.options import EXAMPLE, DoneAsJson
from covey.cli.output import complain, done
from covey.cli.toml_writer import to_toml
from covey.client.errors import AnswerError
from covey.config.load import load
from covey.config.settings import Settings
from covey.core.security.passwords import make_record

ADMIN = "admin"
PRIVATE = 0o600  # a record is enough to try passwords against

app = typer.Typer(help="Passwords and logins.", no_args_is_help=True)


@app.command("hash", epilog=EXAMPLE.format("covey user hash < password.txt"))
def hash_password(as_json: DoneAsJson = False) -> None:
    """Turn a password into a SCRAM record, for a user of a configuration file."""
    record = make_record(_password()).text()
    done(record, {"record": record}, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey user add ann --role admin --config covey.toml"))
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="the login")],
    config: Annotated[Path, typer.Option(metavar="FILE", help="the TOML file that gets it")],
    role: Annotated[list[str] | None, typer.Option(metavar="ROLE", help="repeatable")] = None,
    as_json: DoneAsJson = False,
) -> None:
    """Add a user to a configuration file."""
    text = ""
    if config.exists():
        load(config, {}, {})  # says what is wrong with it as it is
        text = config.read_text("utf-8-sig")
        if any(user["name"] == name for user in tomllib.loads(text).get("user", [])):
            raise AnswerError(f"{config}: user {name} exists already")
    user = {"name": name, "password": make_record(_password()).text(), "roles": role or []}
    after = _replace(config, f"{text}{_gap(text)}{to_toml({'user': [user]})}")
    if not any(ADMIN in user.roles for user in after.users):
        complain("warning: no user has the role admin; nobody can manage the broker")
    done("", {"user": name, "roles": role or [], "config": str(config)}, as_json=as_json)


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
