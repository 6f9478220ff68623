"""`covey consumer`: list, drain."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from covey.cli.completion import consumer_names, queue_names
from covey.cli.options import EXAMPLE, LOCAL, AsJson, Broker, DoneAsJson, Noun, Watch, Wide, managed
from covey.cli.output import TEMPORARY, done, progress, repeat, show
from covey.client.errors import AnswerError
from covey.client.management import Management, Row

COLUMNS = (
    "name", "link", "client", "connection", "credit", "unsettled", "delivered", "groups",
    "retiring",
)  # fmt: skip
SPARE = ("connection", "delivered", "link", "retiring", "client")
POLL_S = 0.2  # how soon a drained consumer is noticed

app = Noun(help="See who reads what, and empty a consumer in peace.")


@app.command("list", epilog=EXAMPLE.format("covey consumer list orders"))
def list_consumers(
    queue: Annotated[
        str,
        typer.Argument(metavar="QUEUE", help="of this queue only", autocompletion=queue_names),
    ] = "",
    broker: Broker = LOCAL,
    as_json: AsJson = False,
    watch: Watch = 0,
    wide: Wide = False,
) -> None:
    """List consumers with what they hold."""
    with managed(broker) as client:

        def look() -> None:
            rows = _consumers(client, queue)
            show(rows, COLUMNS, as_json=as_json, spare=SPARE, is_wide=wide)

        repeat(look, watch)


@app.command(epilog=EXAMPLE.format("covey consumer drain orders/1 --wait 60"))
def drain(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="queue/number, as in the list", autocompletion=consumer_names
        ),
    ],
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="wait so long until it is empty")
    ] = 0,
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Give a consumer no new groups, so that its program can be stopped without a break."""
    if not name.rpartition("/")[2].isdigit():
        raise typer.BadParameter(f"{name}: QUEUE/NUMBER is needed, as `covey consumer list` shows")
    with managed(broker) as client:
        client.ask("RETIRE", "consumer", name)
        is_empty = any(progress(_empty(client, name, wait), f"draining {name}", None))
    if wait and not is_empty:
        raise AnswerError(f"consumer {name} still has work after {wait:g} s")
    line = f"{name} gets no new groups" + ("; it has no work left" if is_empty else "")
    done(line, {"consumer": name, "retiring": True, "empty": is_empty}, as_json=as_json)


def _consumers(client: Management, queue: str) -> list[Row]:
    """Return the readers of one queue, or of all that are not temporary.

    The reply queue of whoever asks is temporary.
    """
    if queue:
        return client.query("consumer", queue=queue)
    rows = client.query("consumer")
    return [row for row in rows if not row["source"].startswith(TEMPORARY)]


def _empty(client: Management, name: str, wait_s: float) -> Iterator[bool]:
    """Tell again and again whether a consumer holds nothing; one that has gone holds nothing."""
    deadline = time.monotonic() + wait_s
    queue = name.rpartition("/")[0]
    while True:
        try:
            rows = [row for row in _consumers(client, queue) if row["name"] == name]
        except AnswerError:  # its queue has gone, too
            rows = []
        yield not any(row["unsettled"] or row["groups"] for row in rows)
        if time.monotonic() + POLL_S > deadline:
            return
        time.sleep(POLL_S)
