"""`covey connection`: list, kill."""

from __future__ import annotations

from typing import Annotated

import typer

from covey.cli.completion import connection_names
from covey.cli.options import EXAMPLE, LOCAL, AsJson, Broker, DoneAsJson, Noun, Watch, Wide, managed
from covey.cli.output import done, repeat, show

COLUMNS = ("name", "user", "protocol", "remote", "client_id", "age_s", "consumers", "blocked_on")
SPARE = ("age_s", "consumers", "protocol", "client_id", "user")

app = Noun(help="See who is connected, and end it.")


@app.command("list", epilog=EXAMPLE.format("covey connection list --json"))
def list_connections(
    blocked: Annotated[
        bool, typer.Option("--blocked", help="only those whose producer has to wait")
    ] = False,
    broker: Broker = LOCAL,
    as_json: AsJson = False,
    watch: Watch = 0,
    wide: Wide = False,
) -> None:
    """List connections; this command's own is among them."""
    with managed(broker) as client:

        def look() -> None:
            rows = client.query("connection", waiting=blocked)
            show(rows, COLUMNS, as_json=as_json, spare=SPARE, is_wide=wide)

        repeat(look, watch)


@app.command(epilog=EXAMPLE.format("covey connection kill 17"))
def kill(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="its name in the list", autocompletion=connection_names
        ),
    ],
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Close a connection; what it has not acknowledged goes to others."""
    with managed(broker) as client:
        client.ask("DELETE", "connection", name)
    done(f"{name} closed", {"connection": name, "killed": True}, as_json=as_json)
