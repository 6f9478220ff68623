"""`covey definitions`: everything that was declared, out, compared, and in again."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from covey.cli.options import (
    EXAMPLE,
    LOCAL,
    AsJson,
    Broker,
    DoneAsJson,
    Noun,
    managed,
    place_of,
)
from covey.cli.output import done, say, show
from covey.client.errors import ClientError
from covey.client.management import LOGIN_ENDED, PORT

COLUMNS = ("action", "kind", "name", "before", "after")

File = Annotated[str, typer.Argument(metavar="FILE", help="what export wrote; - is standard input")]

app = Noun(help="Write down all that was declared, compare it, bring it in.")


@app.command("export", epilog=EXAMPLE.format("covey definitions export --out covey.json"))
def export_definitions(
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write it there, for its owner alone")
    ] = None,
    passwords: Annotated[
        bool, typer.Option("--passwords", help="with the records of passwords; for admins")
    ] = False,
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Write policies, queues, durable subscriptions, permissions and users as JSON."""
    with managed(broker) as client:
        text = str(client.ask("EXPORT", "broker", passwords=passwords)["document"])
    shown = json.dumps(json.loads(text), indent=2)
    if out is None:
        say(shown)
        return
    with open(out, "w", opener=_for_its_owner) as file:
        os.fchmod(file.fileno(), 0o600)  # a file that was there before may be open to others
        file.write(shown + "\n")
    done(f"written to {out}", {"file": str(out)}, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey definitions diff covey.json"))
def diff(file: File, broker: Broker = LOCAL, as_json: AsJson = False) -> None:
    """Tell what an import would change, and change nothing."""
    _tell(_bring_in(file, broker, is_dry=True), "would change", as_json=as_json)


@app.command("import", epilog=EXAMPLE.format("covey definitions import covey.json --dry-run"))
def import_definitions(
    file: File,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only tell what would change")] = False,
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Make and change what the document says; nothing is deleted."""
    found = _bring_in(file, broker, is_dry=dry_run)
    _tell(found, "would change" if dry_run else "changed", as_json=as_json)


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _bring_in(file: str, broker: str, *, is_dry: bool) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except UnicodeDecodeError as error:
        raise ClientError(f"{file} is not text: {error}") from error
    if is_dry:
        return _imported(text, broker, is_dry=True)
    rest, own = _parted(text, place_of(broker, PORT).user)
    found = _imported(rest, broker)
    if own:
        ours = _imported_own(own, broker)
        for name in ("changed", "steps"):
            found[name] += ours[name]
        for name in ("same", "users_left_alone"):
            found[name] += ours[name]
    return found


def _imported(text: str, broker: str, *, is_dry: bool = False) -> dict[str, Any]:
    with managed(broker) as client:
        answer = client.ask("IMPORT", "broker", body={"document": text}, dry_run=is_dry)
    found: dict[str, Any] = json.loads(str(answer["result"]))
    return found


def _parted(text: str, user: str) -> tuple[str, str]:
    """Part a document from its entry of one user; without such an entry the second one is empty."""
    try:
        document = json.loads(text)
        users = document["users"]
        own = [entry for entry in users if entry["name"] == user]
    except (ValueError, TypeError, KeyError):
        return text, ""  # the broker says what is wrong, or there are no users
    if not own:
        return text, ""
    rest = [entry for entry in users if entry not in own]
    others = {name: part for name, part in document.items() if not isinstance(part, list)}
    return json.dumps(document | {"users": rest}), json.dumps(others | {"users": own})


def _imported_own(text: str, broker: str) -> dict[str, Any]:
    """Import the user as whom we are logged in: whoever changes has to log in again."""
    found = _imported(text, broker, is_dry=True)
    try:
        return _imported(text, broker)
    except ClientError as error:
        if LOGIN_ENDED not in str(error):
            raise
    found["changed"] = [f"{step['kind']} {step['name']}" for step in found["steps"]]
    return found


def _tell(found: dict[str, Any], verb: str, *, as_json: bool) -> None:
    if as_json:
        done("", found, as_json=True)
        return
    for step in found["steps"]:
        step.setdefault("before", "")
        step["after"] = step.get("after", step.get("why", ""))
    if found["steps"]:
        show(found["steps"], COLUMNS, as_json=False, spare=("before",))
    changed = [step for step in found["steps"] if step["action"] in ("new", "change")]
    say(f"{len(changed)} {verb}, {found['same']} are so already")
