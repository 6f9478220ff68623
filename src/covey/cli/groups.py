"""`covey group`: list, close, rebalance, park, unpark."""

from __future__ import annotations

import typer

from covey.cli.options import LOCAL, AsJson, Broker, GroupName, QueueName, Watch, managed
from covey.cli.output import GROUP_COLUMNS, repeat, say, show

app = typer.Typer(help="See who owns which group, and change it.", no_args_is_help=True)


@app.command("list")
def list_groups(
    queue: QueueName, broker: Broker = LOCAL, as_json: AsJson = False, watch: Watch = 0
) -> None:
    """List a queue's groups: owner, state, and why one waits."""
    with managed(broker) as client:
        repeat(lambda: show(client.groups(queue), GROUP_COLUMNS, as_json=as_json), watch)


@app.command()
def close(queue: QueueName, group: GroupName, broker: Broker = LOCAL) -> None:
    """Take a group from its owner once its messages are settled."""
    with managed(broker) as client:
        closed = client.ask("CLOSE-GROUP", "queue", queue, group=group)["closed"]
    say("closed" if closed else "the group had no owner")


@app.command()
def rebalance(queue: QueueName, broker: Broker = LOCAL) -> None:
    """Share out a queue's groups anew, each as it drains."""
    with managed(broker) as client:
        client.ask("REBALANCE", "queue", queue)


@app.command()
def park(queue: QueueName, group: GroupName, broker: Broker = LOCAL) -> None:
    """Set one group aside: none of its messages is delivered."""
    with managed(broker) as client:
        client.ask("PARK", "queue", queue, group=group)


@app.command()
def unpark(queue: QueueName, group: GroupName, broker: Broker = LOCAL) -> None:
    """Let a parked group go on."""
    with managed(broker) as client:
        client.ask("UNPARK", "queue", queue, group=group)
