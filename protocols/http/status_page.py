"""Status page: what an operator sees first in a browser, at `/`.

It shows what producers wait for, if they do. It has a table for each of these:

    queues           what is ready and what is held
    groups           the owner, since when, and why one waits
    consumers        their share of the work
    connections      what blocks them
    durable subscriptions, topics

The name of a queue leads to the page of that queue, an owner to its connection. A link leads to
another row of the page, or to the page of another thing. What is put into a link is quoted.

The page is plain HTML that loads itself anew. It has no script, so nothing that a client is called
can become one. Every text goes through `cell`, which escapes it. There is no inline style either: a
bar is a `<meter>`, which a browser draws by its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from html import escape
from typing import Final
from urllib.parse import quote, urlencode

from covey.core.dispatch.lane import Lane
from covey.core.management import describe
from covey.core.management.catalogue import described, waiting_groups
from covey.core.management.describe import Attributes, Plain
from covey.core.queue.queue import Queue
from covey.core.session import Session
from covey.protocols.http.ask import Ask

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
SIZE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, the attribute below it, and how that is written."""

    heading: str
    attribute: str
    kind: str = ""  # "bar": with its share of the largest; "age"; "size"; "prose": may wrap
    link: str = ""  # where it leads; the value of `link_to`, or its own, is put behind
    link_to: str = ""


def table(
    heading: str,
    columns: Sequence[Column],
    rows: Sequence[Attributes],
    total: int,
    anchor: str = "",
) -> str:
    """Write a table, and how many rows it leaves out; links find a row by anchor and first cell."""
    title = f"<h2>{escape(heading)}</h2>"
    if not rows:
        return f'{title}<p class="soft">none</p>'
    largest = {
        column.attribute: max([_number(row[column.attribute]) for row in rows])
        for column in columns
        if column.kind == "bar"
    }
    head = "".join(
        f"<th{_class_of(column, rows[0])}>{escape(column.heading)}</th>" for column in columns
    )
    body = "\n".join(
        f"<tr{_id_of(anchor, row[columns[0].attribute])}>"
        + "".join(_column(column, row, largest) for column in columns)
        + "</tr>"
        for row in rows
    )
    more = "" if len(rows) == total else f'<p class="soft">{len(rows)} of {total} are shown</p>'
    return f'{title}<div class="wide"><table><tr>{head}</tr>\n{body}\n</table></div>{more}'


def tiles(figures: Sequence[tuple[Plain, str]]) -> str:
    """Write a few large numbers with what they count."""
    items = "".join(f"<li><b>{cell(value)}</b> {cell(name)}</li>" for value, name in figures)
    return f"<ul>{items}</ul>"


def link(address: str, text: str) -> str:
    """Write a link whose address is in order."""
    return f'<a href="{escape(address)}">{escape(text)}</a>'


def cell(value: Plain) -> str:
    """Write a value so that it is text whatever it holds."""
    if isinstance(value, list | tuple):
        return ", ".join(cell(each) for each in value)
    return escape(f"{value:.1f}" if isinstance(value, float) else str(value))


def age(seconds: float) -> str:
    """Write a time that has passed, in the two units that matter."""
    if seconds < MINUTE:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < HOUR:
        return f"{whole // MINUTE} m {whole % MINUTE} s"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE} m"
    return f"{whole // DAY} d {whole % DAY // HOUR} h"


def size(count: float) -> str:
    """Write a number of bytes."""
    unit = 0
    while count >= KIB and unit < len(SIZE_UNITS) - 1:
        count /= KIB
        unit += 1
    return f"{count:.0f} {SIZE_UNITS[unit]}" if unit == 0 else f"{count:.1f} {SIZE_UNITS[unit]}"


def _column(column: Column, row: Attributes, largest: dict[str, float]) -> str:
    value = row[column.attribute]
    text = cell(value)
    if column.kind == "age":
        text = age(_number(value)) if value else ""
    elif column.kind == "size":
        text = size(_number(value))
    elif column.kind == "bar":
        top = largest[column.attribute] or 1
        text += f' <meter min="0" max="{top}" value="{_number(value)}"></meter>'
    elif column.link and value:
        text = link(column.link + _quoted(row[column.link_to or column.attribute]), str(value))
    return f"<td{_class_of(column, row)}>{text}</td>"


def _id_of(anchor: str, value: Plain) -> str:
    return f' id="{anchor}-{_quoted(value)}"' if anchor else ""


def _quoted(value: Plain) -> str:
    return quote(str(value), safe="", errors="replace")


def _class_of(column: Column, row: Attributes) -> str:
    if column.kind == "prose":
        return ' class="prose"'
    value = row[column.attribute]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return ' class="number"' if is_number else ""


def _number(value: Plain) -> float:
    return value if isinstance(value, int | float) else 0


REFRESH_S: Final = 5
ROWS_MAX: Final = 200  # of one table; the API has the rest, in pages

CONNECTION: Final = "connection"  # what a connection's row is called
TO_CONNECTION: Final = f"#{CONNECTION}-"

GROUPS: Final = (
    Column("Queue", "queue"),
    Column("Group", "group"),
    Column("Messages", "messages", "bar"),
    Column("Held", "unsettled"),
    Column("Owner", "owner_shown", link=TO_CONNECTION, link_to="owner_connection"),
    Column("Owned for", "owned_s", "age"),
    Column("State", "state"),
    Column("Oldest", "oldest_s", "age"),
    Column("Blocked for", "blocked_s", "age"),
    Column("Why it waits", "why", "prose"),
)
SUBSCRIPTIONS: Final = (
    Column("Subscription", "name"),
    Column("Hears", "destinations"),
    Column("Messages", "messages", "bar"),
    Column("Held", "unsettled"),
    Column("Size", "bytes", "size"),
    Column("Consumers", "consumers"),
    Column("Selector", "selector"),
)
TOPICS: Final = (
    Column("Topic", "name"),
    Column("Subscribers", "subscribers"),
    Column("Published", "published"),
    Column("Delivered", "delivered"),
)
CONSUMERS: Final = (
    Column("Consumer", "id"),
    Column("Name", "link"),
    Column("Reads", "source"),
    Column("Delivered", "delivered", "bar"),
    Column("Holds", "unsettled"),
    Column("Groups", "groups"),
    Column("Credit", "credit"),
    Column("Client", "client", link=TO_CONNECTION, link_to="connection"),
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
:root { color-scheme: light dark; --line: #8884; --soft: #777; --mark: #2b6cb0; --bad: #c0392b; }
@media (prefers-color-scheme: dark) { :root { --soft: #999; --mark: #63a4e8; --bad: #ff8070; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; padding: 0 1.5em; max-width: 90em; }
h1 { font-size: 1.5em; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1em; margin: 2em 0 .5em; }
a { color: var(--mark); text-decoration: none; }
a:hover { text-decoration: underline; }
nav { margin: .3em 0 1em; }
nav a, nav b { margin-right: 1em; }
ul { display: flex; flex-wrap: wrap; gap: .8em; margin: 0; padding: 0; list-style: none; }
li { border: 1px solid var(--line); border-radius: .5em; padding: .5em 1em; color: var(--soft); }
li b { display: block; font-size: 1.6em; color: CanvasText; font-variant-numeric: tabular-nums; }
.alarm { border: 2px solid var(--bad); border-radius: .5em; padding: .5em 1em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: max-content; }
th { font-weight: 600; color: var(--soft); white-space: nowrap; }
th, td { padding: .3em .8em; text-align: left; border-bottom: 1px solid var(--line); }
td { vertical-align: baseline; max-width: 24em; overflow-wrap: break-word; }
tr:target td { background: #8882; }
.prose { max-width: 32em; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
meter { width: 6em; margin-left: .5em; vertical-align: middle; }
meter::-webkit-meter-optimum-value { background: var(--mark); }
.soft { color: var(--soft); }
@media (max-width: 40em) { body { margin: 1em auto; padding: 0 .8em; } meter { display: none; } }
"""


class View:
    """What one look shows: everything, or the queues whose names have a text in them."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.filter = ask.text("queue")
        self.catalogue = ask.admin.catalogue
        queues = [one for one in self.catalogue.queues() if self.filter in one.name]
        self.queues = [one for one in queues if ask.host.queues.get(one.name) is one]
        self.holding = queues  # those of durable subscriptions, too

    def address(self, **other: str | int) -> str:
        """Return the page's address with some fields changed."""
        fields = {**self.ask.settings, **other}
        given = {name: value for name, value in fields.items() if value not in ("", REFRESH_S)}
        return f"/?{urlencode(given)}" if given else "/"

    def groups(self) -> tuple[list[Attributes], int]:
        """Return the groups to show, those that wait first, and how many wait."""
        now = self.ask.now
        rows, waiting = waiting_groups(self.holding, now, 0, ROWS_MAX)
        known = {row["name"] for row in rows}
        lanes = [(queue, lane) for queue in self.holding for lane in queue.state.lanes.values()]
        largest = described(nlargest(ROWS_MAX, lanes, key=_group_size), now)
        rows += [row for row in largest if row["name"] not in known]
        return [row | {"owner_shown": _owner(row)} for row in rows[:ROWS_MAX]], waiting

    def consumers(self) -> tuple[list[Attributes], int]:
        """Return the consumers to show, and how many there are."""
        if not self.filter:
            return self.ask.admin.page("consumer", self.ask.now, 0, ROWS_MAX)
        rows = self.ask.admin.entities("consumer", self.ask.now)
        rows = [row for row in rows if self.filter in str(row["source"])]
        return rows[:ROWS_MAX], len(rows)

    def connections(self) -> tuple[list[Attributes], int]:
        """Return the connections to show, those that are blocked first, and how many there are."""
        sessions = sorted(self.catalogue.sessions(), key=_is_free)
        now = self.ask.now
        return [describe.connection(one, now) for one in sessions[:ROWS_MAX]], len(sessions)


def page(ask: Ask, version: str) -> str:
    """Write the page as it is now."""
    view = View(ask)
    broker = ask.admin.entities("broker", ask.now)[0]
    groups, waiting = view.groups()
    consumers, consumer_count = view.consumers()
    connections, connection_count = view.connections()
    title = cell(f"covey {version}: {broker['name']}")
    refresh_s = ask.number("refresh")
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        f'<meta http-equiv="refresh" content="{refresh_s}">' if refresh_s else "",
        '<meta name="viewport" content="width=device-width">',
        '<link rel="stylesheet" href="/status.css"></head><body>',
        f"<h1>{title}</h1>",
        _navigation(view),
        f'<p class="alarm">Producers wait: {cell(broker["alarm"])}</p>' if broker["alarm"] else "",
        _totals(view, waiting, consumer_count, connection_count),
        table("Queues", _queue_columns(view), _queues(view), len(view.queues)),
        table("Groups, those that wait first", GROUPS, groups, _group_count(view.holding)),
        _subscriptions(view),
        _topics(view),
        table("Consumers", CONSUMERS, consumers, consumer_count),
        table("Connections", CONNECTIONS, connections, connection_count, CONNECTION),
        "</body></html>\n",
    ]
    return "\n".join([part for part in parts if part])


def _navigation(view: View) -> str:
    """Write where one can go: to other virtual hosts, to all queues, and to a page that stays."""
    hosts = view.ask.broker.hosts
    links = [
        f"<b>{cell(host.id)}</b>"
        if host is view.ask.host
        else link(view.address(host=min(host.host_names), queue=""), host.id)
        for host in (hosts if len(hosts) > 1 else [])
    ]
    if view.filter:
        links.append(link(view.address(queue=""), "all queues"))
    stays = view.ask.number("refresh") == 0
    links.append(
        link(view.address(refresh=REFRESH_S), "renew every 5 s")
        if stays
        else link(view.address(refresh=0), "pause")
    )
    return f"<nav>{' '.join(links)}</nav>"


def _totals(view: View, waiting: int, consumers: int, connections: int) -> str:
    holding = view.holding
    blocked = sum(1 for one in view.catalogue.sessions() if one.is_blocked)
    return tiles(
        [
            (sum(queue.state.index.count for queue in holding), "Messages"),
            (size(sum(queue.size for queue in holding)), "Size"),
            (len(view.queues), "Queues"),
            (_group_count(holding), "Groups with messages"),
            (waiting, "Groups that wait"),
            (consumers, "Consumers"),
            (connections, "Connections"),
            (blocked, "Producers blocked"),
            (view.ask.host.id, "Virtual host"),
        ]
    )


def _queues(view: View) -> list[Attributes]:
    largest = nlargest(ROWS_MAX, view.queues, key=_queue_size)
    return [describe.queue(queue, view.ask.host) for queue in largest]


def _queue_columns(view: View) -> tuple[Column, ...]:
    address = view.address(queue="")
    joint = "&" if "?" in address else "?"
    return (
        Column("Queue", "name", link=f"{address}{joint}queue="),
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


def _subscriptions(view: View) -> str:
    if view.filter or not view.ask.host.durables:
        return ""
    rows, total = view.ask.admin.page("subscription", view.ask.now, 0, ROWS_MAX)
    return table("Durable subscriptions", SUBSCRIPTIONS, rows, total)


def _topics(view: View) -> str:
    if view.filter or not view.ask.host.topics:
        return ""
    rows, total = view.ask.admin.page("topic", view.ask.now, 0, ROWS_MAX)
    return table("Topics", TOPICS, rows, total)


def _owner(row: Attributes) -> str:
    """Name an owner so that it can be found: its number in the queue, and its client."""
    return f"{row['owner']}: {row['owner_client']}" if row["owner"] else ""


def _group_count(queues: list[Queue]) -> int:
    return sum(len(queue.state.lanes) for queue in queues)


def _group_size(place: tuple[Queue, Lane]) -> int:
    return place[1].count


def _queue_size(queue: Queue) -> int:
    return queue.state.index.count


def _is_free(session: Session) -> bool:
    return not session.is_blocked
