"""Hosts: all virtual hosts at a glance, wherever they are served.

One that this process serves is described from its history. The other workers of the machine are
asked for theirs. Of one that another broker of the cluster serves, the tables tell what it holds;
how fast it moves is not known here, and is null. So is everything of a virtual host whose worker
does not answer.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Final

from starlette.responses import Response

from covey.core.host.virtual_host import VirtualHost
from covey.core.management.describe import Attributes, Plain
from covey.protocols.http.answer import json_answer
from covey.protocols.http.ask import Ask

SAMPLED: Final = ("messages", "unsettled", "enqueued", "delivered")
NUMBERS: Final = (*SAMPLED, "queues", "connections")
LATEST_S: Final = 3.0


async def list_hosts(ask: Ask) -> Response:
    """Show every virtual host: who serves it, what it holds, how it moves."""
    connections = Counter(session.host.id for session in ask.directory.shared.sessions.values())
    served = {host.id: _served(ask, host, connections[host.id]) for host in ask.directory.hosts}
    for place, answer in (await ask.others()).items():
        if answer is not None and answer[0] == 200:
            told = json.loads(answer[1])["items"]
            served |= {
                row["id"]: row | {"served_by": place} for row in told if row["queues"] is not None
            }
    items: list[Plain] = []
    for entry in ask.directory.virtual_hosts:
        row = served.get(entry.id) or _elsewhere(ask, entry.id)
        items.append({"id": entry.id, "name": min(entry.host_names, default=""), **row})
    return json_answer({"items": items, "total": len(items)})


def _served(ask: Ask, host: VirtualHost, connections: int) -> Attributes:
    """Describe a virtual host that this process serves."""
    row: Attributes = {
        "served_by": "" if ask.owners is None else ask.owners.here,
        "queues": len(host.queues),
        "connections": connections,
    }
    read = ask.console.history.host(host).read(LATEST_S)
    for name in SAMPLED:
        values = read[name]
        row[name] = values[-1] if isinstance(values, list) and values else 0
    return row


def _elsewhere(ask: Ask, space: str) -> Attributes:
    """Describe a virtual host that others serve, or nobody, as far as that is known."""
    row: Attributes = {"served_by": None, **dict.fromkeys(NUMBERS)}
    cluster = ask.directory.shared.cluster
    if cluster is None:
        row["served_by"] = (ask.owners and ask.owners.place_of(space)) or None
        return row
    owner = cluster.owner(space, ask.now)
    if owner is not None:
        row["served_by"] = owner.node
        load = owner.loads.get(space)
        if load is not None:
            row |= {"messages": load.messages, "connections": load.connections}
    return row
