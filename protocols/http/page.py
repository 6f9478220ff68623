"""Page: what an operator sees first in a browser, at `/`.

Queues with what is ready and what is held, groups that wait with their owner and the reason,
connections with what blocks them. Plain HTML that loads itself anew: no script, so nothing that a
client is called can become one. Every text goes through `_cell`, which escapes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest
from html import escape
from typing import Final

from covey.core import describe
from covey.core.describe import Attributes, Plain
from covey.core.lane import Lane
from covey.core.queue import Queue
from covey.protocols.http.ask import Ask

REFRESH_S: Final = 5
ROWS_MAX: Final = 200  # of one table; the API has the rest, in pages

# Heading and attribute of each column.
QUEUE_COLUMNS: Final = (
    ("Queue", "name"),
    ("Messages", "messages"),
    ("Held by consumers", "unsettled"),
    ("Bytes", "bytes"),
    ("Consumers", "consumers"),
    ("Groups", "groups"),
    ("Strategy", "strategy"),
    ("In", "enqueued"),
    ("Done", "acknowledged"),
    ("Dead", "dead"),
)
GROUP_COLUMNS: Final = (
    ("Queue", "queue"),
    ("Group", "group"),
    ("Messages", "messages"),
    ("Held", "unsettled"),
    ("Owner", "owner_name"),
    ("State", "state"),
    ("Why it waits", "why"),
    ("Waits for s", "blocked_s"),
)
CONNECTION_COLUMNS: Final = (
    ("Connection", "name"),
    ("User", "user"),
    ("Protocol", "protocol"),
    ("From", "remote"),
    ("Client", "client_id"),
    ("Age s", "age_s"),
    ("Sent", "sent"),
    ("Consumers", "consumers"),
    ("Blocked on", "blocked_on"),
)

STYLE: Final = """\
body { font: 15px/1.4 system-ui, sans-serif; margin: 2em; color: #222; background: #fff; }
table { border-collapse: collapse; margin: 0 0 2em; }
th, td { padding: .25em .8em; text-align: left; border-bottom: 1px solid #ddd; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
p.empty { color: #666; }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #1b1b1b; } }
"""


def page(ask: Ask, version: str) -> str:
    """Write the page as it is now."""
    admin = ask.admin
    now = ask.now
    broker = admin.entities("broker", now)[0]
    queues = nlargest(ROWS_MAX, admin.entities("queue", now), key=_message_count)
    groups = [describe.group(queue, lane, now) for queue, lane in _groups(ask)]
    connections = admin.entities("connection", now)
    title = f"covey {version}: {broker['name']}"
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        f'<meta http-equiv="refresh" content="{REFRESH_S}">',
        '<meta name="viewport" content="width=device-width">',
        '<link rel="stylesheet" href="/status.css"></head><body>',
        f"<h1>{escape(title)}</h1>",
        f"<p>{_cell(broker['messages'])} messages in {_cell(broker['queues'])} queues,"
        f" {_cell(broker['connections'])} connections, virtual host {_cell(broker['host'])}</p>",
        _table("Queues", QUEUE_COLUMNS, queues, len(ask.host.queues)),
        _table("Groups, those that wait first", GROUP_COLUMNS, groups, _group_count(ask)),
        _table("Connections", CONNECTION_COLUMNS, connections[:ROWS_MAX], len(connections)),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _groups(ask: Ask) -> list[tuple[Queue, Lane]]:
    """Return the groups to show: the longest wait first, then the largest."""
    found = [
        (queue, lane) for queue in ask.host.queues.values() for lane in queue.board.lanes.values()
    ]
    return nlargest(ROWS_MAX, found, key=lambda row: _urgency(row[1], ask.now))


def _urgency(lane: Lane, now: float) -> tuple[float, int]:
    return now - lane.blocked_since if lane.blocked_since else 0.0, lane.count


def _group_count(ask: Ask) -> int:
    return sum(len(queue.board.lanes) for queue in ask.host.queues.values())


def _message_count(entity: Attributes) -> int:
    count = entity["messages"]
    return count if isinstance(count, int) else 0


def _table(
    heading: str, columns: Sequence[tuple[str, str]], rows: Iterable[Attributes], total: int
) -> str:
    written = [
        "<tr>" + "".join(_column(row[attribute]) for _, attribute in columns) + "</tr>"
        for row in rows
    ]
    title = f"<h2>{escape(heading)}</h2>"
    if not written:
        return f'{title}<p class="empty">none</p>'
    head = "".join(f"<th>{escape(name)}</th>" for name, _ in columns)
    more = "" if len(written) == total else f"<p>{len(written)} of {total} are shown</p>"
    body = "\n".join(written)
    return f"{title}<table><tr>{head}</tr>\n{body}\n</table>{more}"


def _column(value: Plain) -> str:
    kind = ' class="number"' if isinstance(value, int | float) else ""
    return f"<td{kind}>{_cell(value)}</td>"


def _cell(value: Plain) -> str:
    """Write a value so that it is text whatever it holds."""
    return escape(f"{value:.1f}" if isinstance(value, float) else str(value))
