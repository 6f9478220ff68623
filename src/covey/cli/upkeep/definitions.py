"""`covey definitions`: everything that was declared, out, compared, and in again."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from covey.cli.options import EXAMPLE, LOCAL, AsJson, Broker, DoneAsJson, Noun, managed
from covey.cli.output import done, say, show
from covey.client.errors import ClientError

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
    with managed(broker) as client:
        answer = client.ask("IMPORT", "broker", body={"document": text}, dry_run=is_dry)
    found: dict[str, Any] = json.loads(str(answer["result"]))
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
