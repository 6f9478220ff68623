"""`covey cluster`: list, move, drain.

Any broker of a cluster can be asked, whichever virtual hosts it serves: it answers from what it
last saw in the database, also while another one does not answer. `move` and `drain` ask for
something that the brokers then do. They wait for it, and say how far it came if it takes long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Final

import typer

from covey.cli.completion import node_names, space_names
from covey.cli.options import EXAMPLE, LOCAL, AsJson, Broker, DoneAsJson, Noun, Watch, place_of
from covey.cli.output import done, repeat, say, show, show_one
from covey.client import management
from covey.client.errors import AnswerError
from covey.client.management import CLUSTER_HOST, Management, Row

SPACES: Final = ("space", "owner", "epoch", "since", "lease_left_s", "messages", "connections")
NODES: Final = ("node", "address", "version", "draining", "load", "config_digest")
TIMEOUT_S: Final = 10.0
LOOK_EVERY_S: Final = 0.2

Wait = Annotated[
    float, typer.Option("--wait", min=0, metavar="SECONDS", help="how long to wait until it is so")
]
NodeName = Annotated[
    str,
    typer.Argument(metavar="NODE", help="a broker's name in the list", autocompletion=node_names),
]

app = Noun(help="See which broker of a cluster serves what, and change it.")


@app.command("list", epilog=EXAMPLE.format("covey cluster list --json"))
def list_cluster(broker: Broker = LOCAL, as_json: AsJson = False, watch: Watch = 0) -> None:
    """List virtual hosts with who serves them, and the brokers that are there."""
    with _managed(broker) as client:

        def look() -> None:
            spaces, nodes = _rows(client, "space", SPACES), _rows(client, "node", NODES)
            if as_json:
                show_one({"spaces": spaces, "nodes": nodes}, as_json=True)
                return
            show(spaces, SPACES, as_json=False, spare=("since", "lease_left_s"))
            say()
            for node in nodes:
                node["load"] = ", ".join(
                    [f"{count} {what}" for what, count in node["load"].items()]
                )
            show(nodes, NODES, as_json=False, spare=("config_digest", "version"))

        repeat(look, watch)


@app.command(epilog=EXAMPLE.format("covey cluster move orders b"))
def move(
    space: Annotated[
        str,
        typer.Argument(metavar="SPACE", help="a virtual host's id", autocompletion=space_names),
    ],
    node: NodeName,
    wait: Wait = 30,
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Have another broker serve a virtual host; its clients are told to connect again."""
    with _managed(broker) as client:
        client.ask("UPDATE", "space", space, {"owner": node})

        def owner() -> object:
            return client.read("space", space)["owner"]

        is_there = _until(lambda: owner() == node, wait)
    record: Row = {"space": space, "node": node, "moved": is_there}
    line = f"{space} is served by {node}" if is_there else f"{space} is on its way to {node}"
    done(line, record, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey cluster drain a"))
def drain(
    node: NodeName,
    undo: Annotated[bool, typer.Option("--undo", help="let it serve again")] = False,
    wait: Wait = 60,
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Have a broker give all it serves to others, so that it can be stopped."""
    with _managed(broker) as client:
        client.ask("UPDATE", "node", node, {"draining": not undo})

        def left() -> list[str]:
            return [row["space"] for row in client.query("space") if row["owner"] == node]

        is_empty = undo or _until(lambda: not left(), wait)
        rest = [] if is_empty else left()
    record: Row = {"node": node, "draining": not undo, "left": rest}
    if undo:
        line = f"{node} takes virtual hosts again"
    else:
        line = f"{node} serves {', '.join(rest)} yet" if rest else f"{node} serves nothing"
    done(line, record, as_json=as_json)


def _managed(broker: str) -> Management:
    """Connect to what a broker tells of its cluster."""
    place = replace(place_of(broker, management.PORT), virtual_host=CLUSTER_HOST)
    try:
        return Management(place, TIMEOUT_S)
    except AnswerError as error:
        if CLUSTER_HOST not in str(error):
            raise
        raise AnswerError(
            f"the broker at {place.address} is not one of a cluster: its store.kind is not postgres"
        ) from error


def _rows(client: Management, type_name: str, names: tuple[str, ...]) -> list[Row]:
    return [{name: row.get(name) for name in names} for row in client.query(type_name)]


def _until(is_so: Callable[[], bool], wait_s: float) -> bool:
    """Wait until something is so; False if it is not in time."""
    deadline = time.monotonic() + wait_s
    while not is_so():
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_EVERY_S)
    return True
