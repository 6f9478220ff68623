"""`covey trace`: what happens on one queue, an event a line, as it happens.

The broker keeps a queue's latest events while somebody asks for them; this asks again and again.
What it could not fetch in time is told on standard error.
"""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Annotated, Final

import typer

from covey.cli.options import LOCAL, AsJson, Broker, QueueName, managed
from covey.cli.output import complain, printable, say
from covey.client.management import Management, Row

POLL_S: Final = 0.25  # short for a person; the broker's ring holds far more
LINE: Final = "{:<12}  {:<16}  {:>8}  {:>8}  {}"  # a stream is aligned before all of it is known
COLUMNS: Final = ("time", "event", "seq", "consumer", "group")


def trace(
    queue: QueueName,
    count: Annotated[int, typer.Option(min=0, help="how many events; 0 = until Ctrl-C")] = 0,
    broker: Broker = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Watch what happens on a queue: every message, group and consumer, but no bodies."""
    with managed(broker) as client:
        if not as_json:
            say(LINE.format(*COLUMNS))
        last = shown = 0
        while True:
            events, last = _ask(client, queue, last)
            for event in events:
                say(json.dumps(event) if as_json else _line(event))
                shown += 1
                if shown == count:
                    return
            if not events:
                time.sleep(POLL_S)


def _ask(client: Management, queue: str, last: int) -> tuple[list[Row], int]:
    """Return the events behind number `last`, and the number of the last one."""
    answer = client.ask("TRACE", "queue", queue, after=last)
    if answer["missed"]:
        complain(f"covey: {answer['missed']} events came too fast and are not shown")
    return answer["events"], answer["last"]


def _line(event: Row) -> str:
    at = datetime.fromtimestamp(event["time_ms"] / 1000)
    cells = (event["event"], event["seq"] or "", event["consumer"] or "", printable(event["group"]))
    return LINE.format(at.strftime("%H:%M:%S.%f")[:12], *cells).rstrip()
