"""`covey policy`: list, set, remove. Settings of queues by pattern, while the broker runs.

A policy says of queues what a `[[queue]]` entry of the configuration file says. What is set here is
kept by the broker and comes before the file's entries: exact names first, then narrow patterns. An
entry of the same pattern replaces the file's.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from covey.cli.completion import policy_names
from covey.cli.options import EXAMPLE, LOCAL, AsJson, Broker, DoneAsJson, Noun, Watch, managed
from covey.cli.output import done, repeat, show

COLUMNS = ("name", "origin", "settings")

Pattern = Annotated[
    str,
    typer.Argument(
        metavar="PATTERN", help="a queue's name, or a pattern", autocompletion=policy_names
    ),
]

app = Noun(help="Settings of queues by pattern, while the broker runs.")


@app.command("list", epilog=EXAMPLE.format("covey policy list"))
def list_policies(broker: Broker = LOCAL, as_json: AsJson = False, watch: Watch = 0) -> None:
    """List policies in no order of precedence: `queue stat` shows what holds for one."""
    with managed(broker) as client:
        repeat(lambda: show(client.query("policy"), COLUMNS, as_json=as_json), watch)


@app.command("set", epilog=EXAMPLE.format("covey policy set orders.** quota_messages=1000"))
def set_policy(
    pattern: Pattern,
    settings: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE...", help="as in a queue's table of the file")
    ],
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Set some settings of a policy; they hold at once, and over restarts."""
    wanted: dict[str, Any] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{text}: KEY=VALUE is needed", param_hint="KEY=VALUE")
        *tables, last = key.split(".")
        place = wanted
        for table in tables:
            place = place.setdefault(table, {})
        place[last] = _value(value)
    with managed(broker) as client:
        known = {row["name"]: row for row in client.query("policy")}
        operation = "UPDATE" if pattern in known else "CREATE"
        made = client.ask(operation, "policy", pattern, {"arguments": wanted})
    done(f"policy {pattern} holds", made, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey policy remove orders.**"))
def remove(pattern: Pattern, broker: Broker = LOCAL, as_json: DoneAsJson = False) -> None:
    """Remove a policy that was set at run time; the file's of that pattern holds again."""
    with managed(broker) as client:
        client.ask("DELETE", "policy", pattern)
    done(f"policy {pattern} removed", {"policy": pattern, "removed": True}, as_json=as_json)


def _value(text: str) -> object:
    """Read a value as TOML would: a number, a truth value, else a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
