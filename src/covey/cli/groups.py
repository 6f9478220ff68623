"""`covey group`: list, close, rebalance, park, unpark."""

from __future__ import annotations

import typer

from covey.cli.options import (
    EXAMPLE,
    LOCAL,
    AsJson,
    Broker,
    DoneAsJson,
    GroupName,
    QueueName,
    Watch,
    managed,
)
from covey.cli.output import GROUP_COLUMNS, done, repeat, show

app = typer.Typer(help="See who owns which group, and change it.", no_args_is_help=True)


@app.command("list", epilog=EXAMPLE.format("covey group list orders --watch 2"))
def list_groups(
    queue: QueueName, broker: Broker = LOCAL, as_json: AsJson = False, watch: Watch = 0
) -> None:
    """List a queue's groups: owner, state, and why one waits."""
    with managed(broker) as client:
        repeat(lambda: show(client.groups(queue), GROUP_COLUMNS, as_json=as_json), watch)


@app.command(epilog=EXAMPLE.format("covey group close orders order-17"))
def close(
    queue: QueueName, group: GroupName, broker: Broker = LOCAL, as_json: DoneAsJson = False
) -> None:
    """Take a group from its owner once its messages are settled."""
    with managed(broker) as client:
        closed = client.ask("CLOSE-GROUP", "queue", queue, group=group)["closed"]
    line = "closed" if closed else "closed; the group has no messages"
    done(line, {"queue": queue, "group": group, "closed": closed}, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey group rebalance orders"))
def rebalance(queue: QueueName, broker: Broker = LOCAL, as_json: DoneAsJson = False) -> None:
    """Share out a queue's groups anew, each as it drains."""
    with managed(broker) as client:
        client.ask("REBALANCE", "queue", queue)
    done("", {"queue": queue, "rebalanced": True}, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey group park orders order-17"))
def park(
    queue: QueueName, group: GroupName, broker: Broker = LOCAL, as_json: DoneAsJson = False
) -> None:
    """Set one group aside: none of its messages is delivered."""
    with managed(broker) as client:
        client.ask("PARK", "queue", queue, group=group)
    done("", {"queue": queue, "group": group, "parked": True}, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey group unpark orders order-17"))
def unpark(
    queue: QueueName, group: GroupName, broker: Broker = LOCAL, as_json: DoneAsJson = False
) -> None:
    """Let a parked group go on."""
    with managed(broker) as client:
        client.ask("UNPARK", "queue", queue, group=group)
    done("", {"queue": queue, "group": group, "parked": False}, as_json=as_json)
