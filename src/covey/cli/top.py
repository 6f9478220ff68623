"""`covey top`: a live view of the busiest queues, the groups that have waited longest, and the
producers that are blocked.

Rates come from the difference of two looks, so the first look has none. In a pipe it prints one
block of plain text for each look.
"""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer

from covey.cli.options import LOCAL, AsJson, Broker, managed
from covey.cli.output import TEMPORARY, plain_lines, printable, say, separate
from covey.client.management import Management, Row

INTERVAL_S = 2.0
QUEUES_SHOWN = 15
GROUPS_SHOWN = 10
BLOCKED_SHOWN = 5
QUEUE_COLUMNS = ("queue", "messages", "unsettled", "consumers", "groups", "in/s", "out/s")
BLOCKED_COLUMNS = ("connection", "user", "client", "blocked_on")
GROUP_COLUMNS = ("group", "queue", "messages", "owner", "state", "oldest_s", "why")


def top(
    interval: Annotated[
        float, typer.Option(min=0.01, metavar="SECONDS", help="between two looks")
    ] = INTERVAL_S,
    count: Annotated[int, typer.Option(min=0, help="how many looks; 0 = until Ctrl-C")] = 0,
    broker: Broker = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Watch the busiest queues, the groups that wait longest, and blocked producers."""
    with managed(broker) as client:
        look = Look(client, None)
        look.show(as_json=as_json)
        looks = 1
        while looks != count:
            time.sleep(interval)
            look = Look(client, look)
            if not as_json:
                separate()
            look.show(as_json=as_json)
            looks += 1


class Look:
    """What one look saw, with the rates since the look before it."""

    def __init__(self, client: Management, before: Look | None) -> None:
        self.at = time.monotonic()
        (self.broker,) = client.query("broker")
        self.counts: dict[str, tuple[int, int]] = {}
        rows = [row for row in client.query("queue") if not row["name"].startswith(TEMPORARY)]
        self.queues = [self._queue(row, before) for row in rows]
        self.queues.sort(key=lambda row: (-row["in/s"] - row["out/s"], -row["messages"]))
        self.groups = [_group(row) for row in client.query("group", GROUPS_SHOWN, waiting=True)]
        self.blocked = [
            row | {"connection": row["name"], "client": row["client_id"] or row["remote"]}
            for row in client.query("connection", BLOCKED_SHOWN, waiting=True)
        ]

    def show(self, *, as_json: bool) -> None:
        """Print the view, or a line of JSON with everything that was seen."""
        seen = {
            "broker": self.broker,
            "queues": self.queues,
            "groups": self.groups,
            "blocked": self.blocked,
        }
        say(json.dumps(seen, default=str) if as_json else "\n".join(self.lines()))

    def lines(self) -> list[str]:
        """Return the view as plain lines."""
        broker = self.broker
        lines = [
            f"broker {broker['name']}  host {broker['host']}  connections {broker['connections']}"
            f"  queues {broker['queues']}  messages {broker['messages']}",
            *([f"producers wait: {printable(broker['alarm'])}"] if broker["alarm"] else []),
            "",
            *_table(QUEUE_COLUMNS, self.queues[:QUEUES_SHOWN]),
        ]
        if self.groups:
            lines += ["", *_table(GROUP_COLUMNS, self.groups)]
        if self.blocked:
            lines += ["", *_table(BLOCKED_COLUMNS, self.blocked)]
        return lines

    def _queue(self, row: Row, before: Look | None) -> Row:
        name = row["name"]
        now = (int(row["enqueued"]), int(row["acknowledged"]))
        self.counts[name] = now
        then = before.counts.get(name, now) if before is not None else now
        elapsed_s = self.at - before.at if before is not None else 1.0
        rates = [(new - old) / elapsed_s for new, old in zip(now, then, strict=True)]
        return row | {"queue": name, "in/s": rates[0], "out/s": rates[1]}


def _group(row: Row) -> Row:
    owner = f"{row['owner']} {row['owner_client']}" if row["owner"] else ""
    return row | {"owner": owner.rstrip()}


def _table(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> list[str]:
    return plain_lines(columns, [[printable(row[name]) for name in columns] for row in rows])
