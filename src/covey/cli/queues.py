"""`covey queue`: list, stat, create, pause, resume, purge, delete."""

from __future__ import annotations

from typing import Annotated

import typer

from covey.cli.completion import queue_names
from covey.cli.options import (
    EXAMPLE,
    LOCAL,
    AsJson,
    Broker,
    DoneAsJson,
    Noun,
    QueueName,
    Watch,
    Wide,
    managed,
)
from covey.cli.output import TEMPORARY, done, repeat, show, show_one
from covey.cli.qpid_config.options import parse_argument
from covey.groups import STRATEGIES

COLUMNS = ("name", "messages", "unsettled", "consumers", "groups", "strategy", "durable")
PAUSED_COLUMNS = (*COLUMNS, "paused")
SPARE = ("durable", "unsettled", "strategy", "groups")

OwnQueue = Annotated[
    str, typer.Argument(metavar="QUEUE", help="the queue's name", autocompletion=queue_names)
]

app = Noun(help="Look at queues, make them, empty them.")


@app.command("list", epilog=EXAMPLE.format("covey queue list orders --watch 2"))
def list_queues(
    filter_text: Annotated[str, typer.Argument(metavar="FILTER", help="part of a name")] = "",
    temporary: Annotated[bool, typer.Option(help="temporary queues, too")] = False,
    broker: Broker = LOCAL,
    as_json: AsJson = False,
    watch: Watch = 0,
    wide: Wide = False,
) -> None:
    """List queues with what they hold."""
    with managed(broker) as client:

        def look() -> None:
            rows = [row for row in client.query("queue") if filter_text in row["name"]]
            rows = [row for row in rows if temporary or not row["name"].startswith(TEMPORARY)]
            rows.sort(key=lambda row: str(row["name"]))
            is_paused = any(row["paused"] for row in rows)
            columns = PAUSED_COLUMNS if is_paused else COLUMNS
            show(rows, columns, as_json=as_json, spare=SPARE, is_wide=wide)

        repeat(look, watch)


@app.command(epilog=EXAMPLE.format("covey queue stat orders --json"))
def stat(
    queue: QueueName, broker: Broker = LOCAL, as_json: AsJson = False, watch: Watch = 0
) -> None:
    """Show everything about one queue."""
    with managed(broker) as client:
        repeat(lambda: show_one(client.read("queue", queue), as_json=as_json), watch)


@app.command(epilog=EXAMPLE.format("covey queue create orders --group-header CUSTOMER"))
def create(
    queue: OwnQueue,
    durable: Annotated[bool, typer.Option(help="store persistent messages")] = True,
    group_header: Annotated[
        str | None, typer.Option(metavar="NAME", help="the header that holds the group id")
    ] = None,
    group_strategy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"of {', '.join(STRATEGIES)}"),
    ] = None,
    argument: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="any declaration argument")
    ] = None,
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Declare a queue; covey-config has all options by name."""
    arguments: dict[str, object] = {"durable": durable}
    if group_header is not None:
        arguments["qpid.group_header_key"] = group_header
    if group_strategy is not None:
        arguments["covey.groups.strategy"] = group_strategy
    try:
        arguments |= dict(parse_argument(text) for text in argument or [])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--argument") from error
    with managed(broker) as client:
        made = client.ask("CREATE", "queue", queue, {"arguments": arguments})
    done(f"{queue} created", made, as_json=as_json)


In = Annotated[bool, typer.Option("--in", help="producers wait, nothing comes in")]
Out = Annotated[bool, typer.Option("--out", help="consumers wait, nothing is handed out")]
Both = Annotated[bool, typer.Option("--both", help="both, as without any of these")]


@app.command(epilog=EXAMPLE.format("covey queue pause orders --out --reason 'new release'"))
def pause(
    queue: QueueName,
    coming: In = False,
    going: Out = False,
    both: Both = False,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="why, for whoever looks")] = "",
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Stop a queue for producers, consumers or both, also over a restart."""
    way = _way(coming=coming, going=going, both=both)
    with managed(broker) as client:
        paused = client.ask("PAUSE", "queue", queue, way=way, reason=reason)["paused"]
    done(f"{queue} is paused: {paused}", {"queue": queue, "paused": paused}, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey queue resume orders"))
def resume(
    queue: QueueName,
    coming: In = False,
    going: Out = False,
    both: Both = False,
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Let a paused queue go on."""
    way = _way(coming=coming, going=going, both=both)
    with managed(broker) as client:
        paused = client.ask("RESUME", "queue", queue, way=way)["paused"]
    text = f"{queue} is still paused: {paused}" if paused else f"{queue} goes on"
    done(text, {"queue": queue, "paused": paused}, as_json=as_json)


def _way(*, coming: bool, going: bool, both: bool) -> str:
    return "both" if both or coming == going else "in" if coming else "out"


@app.command(epilog=EXAMPLE.format("covey queue purge orders"))
def purge(queue: QueueName, broker: Broker = LOCAL, as_json: DoneAsJson = False) -> None:
    """Drop every message that no consumer has acquired."""
    with managed(broker) as client:
        dropped = client.ask("PURGE", "queue", queue)["purged"]
    done(f"{dropped} messages dropped", {"queue": queue, "purged": dropped}, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey queue delete orders --force"))
def delete(
    queue: OwnQueue,
    force: Annotated[bool, typer.Option("--force", help="even with messages, consumers")] = False,
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Delete a queue; it must be empty and unused unless forced."""
    with managed(broker) as client:
        client.ask("DELETE", "queue", queue, if_empty=not force, if_unused=not force)
    done(f"{queue} deleted", {"queue": queue, "deleted": True}, as_json=as_json)
