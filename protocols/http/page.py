"""Page: what an operator sees first in a browser, at `/`.

Queues with what is ready and what is held, groups with their owner, since when, and why one waits,
consumers with their share of the work, connections with what blocks them. Plain HTML that loads
itself anew: no script, so nothing that a client is called can become one.
"""

from __future__ import annotations

from heapq import nlargest
from typing import Final

from covey.core import describe
from covey.core.describe import Attributes
from covey.core.lane import Lane
from covey.core.queue import Queue
from covey.protocols.http.ask import Ask
from covey.protocols.http.table import Column, cell, size, table, tiles

REFRESH_S: Final = 5
ROWS_MAX: Final = 200  # of one table; the API has the rest, in pages

QUEUES: Final = (
    Column("Queue", "name"),
    Column("Messages", "messages", "bar"),
    Column("Held by consumers", "unsettled"),
    Column("Size", "bytes", "size"),
    Column("Consumers", "consumers"),
    Column("Groups", "groups"),
    Column("Strategy", "strategy"),
    Column("In", "enqueued"),
    Column("Done", "acknowledged"),
    Column("Dead", "dead"),
)
GROUPS: Final = (
    Column("Queue", "queue"),
    Column("Group", "group"),
    Column("Messages", "messages", "bar"),
    Column("Held", "unsettled"),
    Column("Owner", "owner_name"),
    Column("For", "owned_s", "age"),
    Column("State", "state"),
    Column("Oldest", "oldest_s", "age"),
    Column("Blocked for", "blocked_s", "age"),
    Column("Why it waits", "why", "prose"),
)
CONSUMERS: Final = (
    Column("Consumer", "id"),
    Column("Name", "link"),
    Column("Reads", "source"),
    Column("Delivered", "delivered", "bar"),
    Column("Holds", "unsettled"),
    Column("Groups", "groups"),
    Column("Credit", "credit"),
    Column("Connection", "connection"),
)
CONNECTIONS: Final = (
    Column("Connection", "name"),
    Column("User", "user"),
    Column("Protocol", "protocol"),
    Column("From", "remote"),
    Column("Client", "client_id"),
    Column("For", "age_s", "age"),
    Column("Sent", "sent"),
    Column("Consumers", "consumers"),
    Column("Blocked on", "blocked_on", "prose"),
)

STYLE: Final = """\
:root { color-scheme: light dark; --line: #8884; --soft: #888; --mark: #2b6cb0; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; padding: 0 1.5em; max-width: 90em; }
h1 { font-size: 1.5em; margin: 0 0 .6em; }
h2 { font-size: 1.1em; margin: 2em 0 .5em; }
ul { display: flex; flex-wrap: wrap; gap: .8em; margin: 0; padding: 0; list-style: none; }
li { border: 1px solid var(--line); border-radius: .5em; padding: .5em 1em; color: var(--soft); }
li b { display: block; font-size: 1.6em; color: CanvasText; font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; }
th { font-weight: 600; color: var(--soft); }
th, td { padding: .3em .8em; text-align: left; border-bottom: 1px solid var(--line); }
th, td { white-space: nowrap; vertical-align: baseline; }
.prose { white-space: normal; min-width: 14em; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
meter { width: 6em; margin-left: .5em; vertical-align: middle; }
meter::-webkit-meter-optimum-value { background: var(--mark); }
.empty { color: var(--soft); }
"""


def page(ask: Ask, version: str) -> str:
    """Write the page as it is now."""
    admin = ask.admin
    now = ask.now
    broker = admin.entities("broker", now)[0]
    queues = nlargest(ROWS_MAX, admin.entities("queue", now), key=_message_count)
    groups = [describe.group(queue, lane, now) for queue, lane in _groups(ask)]
    consumers = admin.entities("consumer", now)
    connections = admin.entities("connection", now)
    title = cell(f"covey {version}: {broker['name']}")
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        f'<meta http-equiv="refresh" content="{REFRESH_S}">',
        '<meta name="viewport" content="width=device-width">',
        '<link rel="stylesheet" href="/status.css"></head><body>',
        f"<h1>{title}</h1>",
        _totals(ask, broker, len(consumers)),
        table("Queues", QUEUES, queues, len(ask.host.queues)),
        table("Groups, those that wait first", GROUPS, groups, _group_count(ask)),
        table("Consumers", CONSUMERS, consumers[:ROWS_MAX], len(consumers)),
        table("Connections", CONNECTIONS, connections[:ROWS_MAX], len(connections)),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _totals(ask: Ask, broker: Attributes, consumers: int) -> str:
    return tiles(
        [
            (broker["messages"], "Messages"),
            (size(sum(queue.size for queue in ask.host.queues.values())), "Size"),
            (broker["queues"], "Queues"),
            (_group_count(ask), "Groups with messages"),
            (consumers, "Consumers"),
            (broker["connections"], "Connections"),
            (broker["host"], "Virtual host"),
        ]
    )


def _groups(ask: Ask) -> list[tuple[Queue, Lane]]:
    """Return the groups to show: the longest wait first, then the largest."""
    found = [(queue, lane) for queue in _holding(ask) for lane in queue.board.lanes.values()]
    return nlargest(ROWS_MAX, found, key=lambda row: _urgency(row[1], ask.now))


def _urgency(lane: Lane, now: float) -> tuple[float, int]:
    return now - lane.blocked_since if lane.blocked_since else 0.0, lane.count


def _group_count(ask: Ask) -> int:
    return sum(len(queue.board.lanes) for queue in _holding(ask))


def _holding(ask: Ask) -> list[Queue]:
    durables = [durable.queue for durable in ask.host.durables.values()]
    return [*ask.host.queues.values(), *durables]


def _message_count(entity: Attributes) -> int:
    count = entity["messages"]
    return count if isinstance(count, int) else 0
