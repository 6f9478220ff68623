"""`covey check`: one question, one exit code, for health checks of machines.

0 it works; 1 it does not; 3 nobody answers; 4 the login is refused.
"""

from __future__ import annotations

from typing import Annotated

import typer

from covey.cli.options import LOCAL, AsJson, Broker, managed
from covey.cli.output import say, show_one
from covey.client.errors import AnswerError


def check(
    queue: Annotated[str, typer.Option(metavar="NAME", help="this queue must be there")] = "",
    backlog_max: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="its messages may not be more")
    ] = None,
    consumers_min: Annotated[
        int, typer.Option(min=0, metavar="N", help="it must have so many consumers")
    ] = 0,
    broker: Broker = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Check that a broker answers, and a queue if one is named."""
    if not queue and (backlog_max is not None or consumers_min):
        raise typer.BadParameter("--backlog-max and --consumers-min need --queue")
    with managed(broker) as client:
        (found,) = client.query("broker")
        row = client.read("queue", queue) if queue else {}
    if backlog_max is not None and row["messages"] > backlog_max:
        raise AnswerError(
            f"queue {queue} holds {row['messages']} messages, more than {backlog_max}"
        )
    if row and row["consumers"] < consumers_min:
        raise AnswerError(f"queue {queue} has {row['consumers']} consumers, not {consumers_min}")
    if as_json:
        show_one(found, as_json=True)
    else:
        alarm = f"; but producers wait: {found['alarm']}" if found["alarm"] else ""
        say(f"ok: {found['connections']} connections, {found['messages']} messages{alarm}")
