"""`covey job`: list, stop."""

from __future__ import annotations

from typing import Annotated

import typer

from covey.cli.completion import job_names
from covey.cli.options import EXAMPLE, LOCAL, AsJson, Broker, DoneAsJson, Noun, Watch, Wide, managed
from covey.cli.output import done, repeat, show

COLUMNS = ("name", "verb", "target", "done", "total", "user", "connection", "age_s")
SPARE = ("connection", "age_s", "user")

app = Noun(help="See long work that is under way, and stop it.")


@app.command("list", epilog=EXAMPLE.format("covey job list --watch 1"))
def list_jobs(
    broker: Broker = LOCAL,
    as_json: AsJson = False,
    watch: Watch = 0,
    wide: Wide = False,
) -> None:
    """List purges, wide subscriptions and other long work, with how far each is."""
    with managed(broker) as client:

        def look() -> None:
            show(client.query("job"), COLUMNS, as_json=as_json, spare=SPARE, is_wide=wide)

        repeat(look, watch)


@app.command(epilog=EXAMPLE.format("covey job stop 3"))
def stop(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="its name in the list", autocompletion=job_names),
    ],
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Stop work that an operator began; what is done stays done."""
    with managed(broker) as client:
        client.ask("DELETE", "job", name)
    done(f"job {name} stopped", {"job": name, "stopped": True}, as_json=as_json)
