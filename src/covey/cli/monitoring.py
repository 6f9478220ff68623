"""Watching a broker: `covey top`, `covey trace` and `covey check`.

`covey top` is a live view of the busiest queues, the groups that have waited longest, the
producers that are blocked, and long work that is under way. Rates come from the
difference of two looks, so the first look has none. In a pipe it prints one block of plain text for
each look.

`covey trace` shows what happens on one queue, an event a line, as it happens. The broker keeps a
queue's latest events while somebody asks for them, and this command asks again and again. Events
that it could not fetch in time are counted on standard error.

`covey check` is one question with one exit code, for health checks of machines:

    0 it works          1 it does not, or takes no messages now
    3 nobody answers    4 the login is refused

What the store has lost is told, and is no failure: what is left works.
"""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from covey.cli.options import LOCAL, AsJson, Broker, QueueName, managed
from covey.cli.output import TEMPORARY, complain, plain_lines, printable, say, separate, show_one
from covey.client.errors import AnswerError
from covey.client.management import Management, Row

INTERVAL_S = 2.0
QUEUES_SHOWN = 15
GROUPS_SHOWN = 10
BLOCKED_SHOWN = 5
QUEUE_COLUMNS = ("queue", "messages", "unsettled", "consumers", "groups", "in/s", "out/s")
BLOCKED_COLUMNS = ("connection", "user", "client", "blocked_on")
JOBS_SHOWN = 5
JOB_COLUMNS = ("job", "verb", "target", "percent", "done", "total", "user")
GROUP_COLUMNS = ("group", "queue", "messages", "owner", "state", "oldest_s", "why")


def top(
    interval: Annotated[
        float, typer.Option(min=0.01, metavar="SECONDS", help="between two looks")
    ] = INTERVAL_S,
    count: Annotated[int, typer.Option(min=0, help="how many looks; 0 = until Ctrl-C")] = 0,
    broker: Broker = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Watch the busiest queues, the groups that wait longest, blocked producers, and jobs."""
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

        self.jobs = [
            row | {"job": row["name"], "percent": 100 * row["done"] // max(1, row["total"])}
            for row in client.query("job", JOBS_SHOWN)
        ]

    def show(self, *, as_json: bool) -> None:
        """Print the view, or a line of JSON with everything that was seen."""
        seen = {
            "broker": self.broker,
            "queues": self.queues,
            "groups": self.groups,
            "blocked": self.blocked,
            "jobs": self.jobs,
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
        if self.jobs:
            lines += ["", *_table(JOB_COLUMNS, self.jobs)]
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


SETTLED_BUILDS: Final = ("", "compiled", "plain Python")  # nothing is going on about these
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
    if found["alarm"]:
        raise AnswerError(f"messages cannot be taken: {found['alarm']}")
    if not as_json:
        say(f"ok: {found['connections']} connections, {found['messages']} messages")
        if found.get("build", "") not in SETTLED_BUILDS:
            say(f"build: {found['build']}")
        for damage in found["damages"]:
            say(f"the store is damaged: {damage}")
