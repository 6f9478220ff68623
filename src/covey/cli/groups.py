"""`covey group`: look at groups, and take one in hand.

list, show, peek                    who owns what, and what is in it
park, unpark, close, rebalance      who may have it
move, purge, dead-letter, retry     where its messages go
"""

from __future__ import annotations

from typing import Annotated

import typer

from covey.cli.options import (
    EXAMPLE,
    LOCAL,
    LONG_S,
    AsJson,
    Broker,
    DoneAsJson,
    GroupName,
    Held,
    Noun,
    QueueName,
    Reason,
    Watch,
    Wide,
    managed,
)
from covey.cli.output import (
    GROUP_COLUMNS,
    GROUP_SPARE,
    SHOWN,
    done,
    moment,
    repeat,
    show,
    show_one,
    shown_message,
    told,
)

STEP_COLUMNS = ("group", "messages", "unsettled", "from", "to")
PARKED_COLUMNS = ("group", "messages", "unsettled", "parked_by", "parked_at", "why")

app = Noun(help="See who owns which group, and change it.")


@app.command("list", epilog=EXAMPLE.format("covey group list orders --watch 2"))
def list_groups(
    queue: QueueName,
    broker: Broker = LOCAL,
    as_json: AsJson = False,
    watch: Watch = 0,
    wide: Wide = False,
    parked: Annotated[bool, typer.Option("--parked", help="only those that are parked")] = False,
) -> None:
    """List a queue's groups: owner, state, and why one waits."""
    with managed(broker) as client:

        def look() -> None:
            rows = client.groups(queue, parked=parked)
            columns = PARKED_COLUMNS if parked else GROUP_COLUMNS
            if parked and not as_json:
                rows = [{**row, "parked_at": moment(row["parked_at_ms"])} for row in rows]
            show(rows, columns, as_json=as_json, spare=GROUP_SPARE, is_wide=wide)

        repeat(look, watch)


@app.command(epilog=EXAMPLE.format("covey group close orders order-17"))
def close(
    queue: QueueName, group: GroupName, broker: Broker = LOCAL, as_json: DoneAsJson = False
) -> None:
    """Take a group from its owner once its messages are settled."""
    with managed(broker) as client:
        closed = client.ask("CLOSE-GROUP", "queue", queue, group=group)["closed"]
    line = "closed" if closed else "closed; the group has no messages"
    done(line, {"queue": queue, "group": group, "closed": closed}, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey group rebalance orders --dry-run"))
def rebalance(
    queue: QueueName,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only tell what would move")] = False,
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Share out a queue's groups anew, each as it drains; no more move than needed."""
    with managed(broker) as client:
        answer = client.ask("REBALANCE", "queue", queue, dry_run=dry_run)
    if not dry_run:
        record = {"queue": queue, "rebalanced": True, **answer}
        done(f"{answer['moved']} groups move", record, as_json=as_json)
    elif as_json:
        done("", {"queue": queue, "rebalanced": False, **answer}, as_json=True)
    else:
        show(answer["steps"], STEP_COLUMNS, as_json=False)
        done(f"{answer['would_move']} groups would move", {}, as_json=False)


@app.command(epilog=EXAMPLE.format("covey group park orders order-17 --reason 'ask Ann'"))
def park(
    queue: QueueName,
    group: GroupName,
    reason: Reason = "",
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Set one group aside, also over a restart: none of its messages is delivered."""
    with managed(broker) as client:
        client.ask("PARK", "queue", queue, group=group, reason=reason)
    done("", {"queue": queue, "group": group, "parked": True}, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey group unpark orders order-17"))
def unpark(
    queue: QueueName, group: GroupName, broker: Broker = LOCAL, as_json: DoneAsJson = False
) -> None:
    """Let a parked group go on."""
    with managed(broker) as client:
        client.ask("UNPARK", "queue", queue, group=group)
    done("", {"queue": queue, "group": group, "parked": False}, as_json=as_json)


@app.command("show", epilog=EXAMPLE.format("covey group show orders order-17"))
def show_group(
    queue: QueueName, group: GroupName, broker: Broker = LOCAL, as_json: AsJson = False
) -> None:
    """Show one group: owner, state, why it waits, who parked it."""
    with managed(broker) as client:
        show_one(client.group(queue, group), as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey group peek orders order-17 --count 5"))
def peek(
    queue: QueueName,
    group: GroupName,
    count: Annotated[int, typer.Option(min=1, max=1000, help="how many")] = 20,
    broker: Broker = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Show the first messages of a group, held ones too, without taking them."""
    with managed(broker) as client:
        found = client.ask("PEEK-GROUP", "queue", queue, group=group, count=count)["items"]
    show(found if as_json else [shown_message(each) for each in found], SHOWN, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey group move orders order-17 --to hospital"))
def move(
    queue: QueueName,
    group: GroupName,
    to: Annotated[str, typer.Option(metavar="QUEUE", help="where its messages go")],
    held: Held = "leave",
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Move a group's messages to another queue, in order."""
    _take(broker, "MOVE-GROUP", queue, group, as_json=as_json, to=to, held=_held(held))


@app.command(epilog=EXAMPLE.format("covey group purge orders order-17"))
def purge(
    queue: QueueName,
    group: GroupName,
    held: Held = "leave",
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Drop a group's messages."""
    _take(broker, "PURGE-GROUP", queue, group, as_json=as_json, held=_held(held))


@app.command("dead-letter", epilog=EXAMPLE.format("covey group dead-letter orders order-17"))
def dead_letter(
    queue: QueueName,
    group: GroupName,
    reason: Reason = "",
    held: Held = "leave",
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Send a group's messages to the queue's dead-letter queue, in order."""
    options: dict[str, object] = {"reason": reason, "held": _held(held)}
    _take(broker, "DEAD-LETTER-GROUP", queue, group, as_json=as_json, **options)


@app.command(epilog=EXAMPLE.format("covey group retry dead.orders order-17"))
def retry(
    queue: QueueName, group: GroupName, broker: Broker = LOCAL, as_json: DoneAsJson = False
) -> None:
    """Send a group's dead letters back to the queue they came from, in order."""
    _take(broker, "RETRY", queue, group, as_json=as_json)


def _take(
    broker: str, operation: str, queue: str, group: str, *, as_json: bool, **options: object
) -> None:
    with managed(broker, LONG_S) as client:
        answer = client.ask(operation, "queue", queue, None, group=group, **options)
    done(told(answer), {"queue": queue, "group": group, **answer}, as_json=as_json)


def _held(word: str) -> str:
    if word not in ("leave", "wait"):
        raise typer.BadParameter(f"{word}: leave or wait", param_hint="--held")
    return word
