"""Watching a broker: `covey top`, `covey trace` and `covey check`.

`covey top` is a live view of the busiest queues, the groups that have waited longest, the
producers that are blocked, and long work that is under way. Rates come from the
difference of two looks, so the first look has none. In a pipe it prints one block of plain text for
each look. All virtual hosts are watched, whichever process or machine serves them, unless the place
names one.

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
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Final

import typer

from covey.cli.options import LOCAL, AsJson, Broker, QueueName, managed
from covey.cli.output import TEMPORARY, complain, plain_lines, printable, say, separate, show_one
from covey.client.base import Closing
from covey.client.errors import AnswerError, ClientError
from covey.client.management import Management, Row

INTERVAL_S = 2.0
HOSTS_MAX = 50  # virtual hosts that `covey top` watches: it has a connection to each
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
    with Hosts(managed(broker)) as hosts:
        look = Look(hosts, None)
        look.show(as_json=as_json)
        looks = 1
        while looks != count:
            time.sleep(interval)
            look = Look(hosts, look)
            if not as_json:
                separate()
            look.show(as_json=as_json)
            looks += 1


class Hosts(Closing):
    """A connection to each virtual host; whichever process serves it, the broker passes it on.

    If the place names a virtual host, that one alone is watched.
    """

    def __init__(self, client: Management) -> None:
        """Ask the broker that this client is connected to for its virtual hosts."""
        (own,) = client.query("broker")
        names = dict(zip(own["hosts"], own.get("host_names", ()), strict=False))
        places = {
            space: replace(client.place, virtual_host=name)
            for space, name in list(names.items())[:HOSTS_MAX]
            if name and not client.place.virtual_host
        }
        self.absent: dict[str, str] = {}  # virtual hosts that could not be asked, and why
        self._places = {own["host"]: client.place, **places} | {own["host"]: client.place}
        self._clients = {own["host"]: client}

    def close(self) -> None:
        """Let all of them go."""
        for client in self._clients.values():
            client.close()

    def seen(self) -> list[Seen]:
        """Look at one after the other; one that cannot be asked now is tried again next time.

        Raises ClientError if none can be asked.
        """
        found: list[Seen] = []
        self.absent = {}
        for space, place in self._places.items():
            try:
                if space not in self._clients:
                    self._clients[space] = Management(place)
                found.append(Seen(self._clients[space]))
            except ClientError as error:
                self.absent[space] = str(error)
                if (lost := self._clients.pop(space, None)) is not None:
                    lost.close()
                if len(self.absent) == len(self._places):
                    raise
        return found


class Seen:
    """What one virtual host has at the moment."""

    def __init__(self, client: Management) -> None:
        (self.broker,) = client.query("broker")
        self.queues = self._rows(client.query("queue"))
        self.groups = self._rows(client.query("group", GROUPS_SHOWN, waiting=True))
        self.blocked = self._rows(client.query("connection", BLOCKED_SHOWN, waiting=True))
        self.jobs = self._rows(client.query("job", JOBS_SHOWN))

    def _rows(self, rows: list[Row]) -> list[Row]:
        return [row | {"host": self.broker["host"]} for row in rows]


class Look:
    """What one look saw, with the rates since the look before it."""

    def __init__(self, hosts: Hosts, before: Look | None) -> None:
        self.at = time.monotonic()
        seen = hosts.seen()
        self.absent = hosts.absent
        self.brokers = [each.broker for each in seen]
        self.counts: dict[tuple[str, str], tuple[int, int]] = {}
        rows = [row for each in seen for row in each.queues]
        self.queues = [
            self._queue(row, before) for row in rows if not row["name"].startswith(TEMPORARY)
        ]
        self.queues.sort(key=lambda row: (-row["in/s"] - row["out/s"], -row["messages"]))
        groups = [_group(row) for each in seen for row in each.groups]
        if len(seen) > 1:  # each one has them in order
            groups.sort(key=lambda row: -row["oldest_s"])
        self.groups = groups[:GROUPS_SHOWN]
        self.blocked = [
            row | {"connection": row["name"], "client": row["client_id"] or row["remote"]}
            for each in seen
            for row in each.blocked
        ][:BLOCKED_SHOWN]
        self.jobs = [
            row | {"job": row["name"], "percent": 100 * row["done"] // max(1, row["total"])}
            for each in seen
            for row in each.jobs
        ][:JOBS_SHOWN]

    def show(self, *, as_json: bool) -> None:
        """Print the view, or a line of JSON with everything that was seen."""
        seen = {
            "broker": self.brokers[0],
            "hosts": self.brokers,
            "absent": self.absent,
            "queues": self.queues,
            "groups": self.groups,
            "blocked": self.blocked,
            "jobs": self.jobs,
        }
        say(json.dumps(seen, default=str) if as_json else "\n".join(self.lines()))

    def lines(self) -> list[str]:
        """Return the view as plain lines."""
        lines = [
            f"broker {broker['name']}  host {broker['host']}  connections {broker['connections']}"
            f"  queues {broker['queues']}  messages {broker['messages']}"
            for broker in self.brokers
        ]
        lines += [f"host {space}: {printable(why)}" for space, why in self.absent.items()]
        waits = {broker["alarm"]: None for broker in self.brokers if broker["alarm"]}
        lines += [f"producers wait: {printable(alarm)}" for alarm in waits]
        lines += ["", *self._table(QUEUE_COLUMNS, self.queues[:QUEUES_SHOWN])]
        if self.groups:
            lines += ["", *self._table(GROUP_COLUMNS, self.groups)]
        if self.blocked:
            lines += ["", *self._table(BLOCKED_COLUMNS, self.blocked)]
        if self.jobs:
            lines += ["", *self._table(JOB_COLUMNS, self.jobs)]
        return lines

    def _table(self, columns: tuple[str, ...], rows: list[Row]) -> list[str]:
        shown = columns if len(self.brokers) == 1 else (*columns, "host")
        return plain_lines(shown, [[printable(row[name]) for name in shown] for row in rows])

    def _queue(self, row: Row, before: Look | None) -> Row:
        name = (row["host"], row["name"])
        now = (int(row["enqueued"]), int(row["acknowledged"]))
        self.counts[name] = now
        then = before.counts.get(name, now) if before is not None else now
        elapsed_s = self.at - before.at if before is not None else 1.0
        rates = [(new - old) / elapsed_s for new, old in zip(now, then, strict=True)]
        return row | {"queue": row["name"], "in/s": rates[0], "out/s": rates[1]}


def _group(row: Row) -> Row:
    owner = f"{row['owner']} {row['owner_client']}" if row["owner"] else ""
    return row | {"owner": owner.rstrip()}


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
