"""Completion: names that the shell offers, asked of the broker while somebody types.

`covey --install-completion` teaches bash, zsh and fish to ask. The broker is the one that the line
names with `-b`, else that of the environment. Whoever does not answer within a second offers
nothing: a shell must never hang at a Tab, and an error in the middle of a line helps nobody.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Final

from covey.client.errors import ClientError
from covey.client.management import CLUSTER_HOST, PORT, Management
from covey.client.place import parse_place

PATIENCE_S: Final = 1.0
OFFERED_MAX: Final = 200  # more than anybody reads; a shell asks before it lists so many


def queue_names(ctx: Any, incomplete: str) -> list[str]:
    """Offer names of queues."""
    return _names(ctx, "queue", incomplete)


def group_names(ctx: Any, incomplete: str) -> list[str]:
    """Offer the groups of the queue that stands before."""
    return _names(ctx, "group", incomplete, key="group", queue=str(ctx.params.get("queue") or ""))


def consumer_names(ctx: Any, incomplete: str) -> list[str]:
    """Offer names of consumers."""
    return _names(ctx, "consumer", incomplete)


def connection_names(ctx: Any, incomplete: str) -> list[str]:
    """Offer names of connections."""
    return _names(ctx, "connection", incomplete)


def job_names(ctx: Any, incomplete: str) -> list[str]:
    """Offer names of jobs."""
    return _names(ctx, "job", incomplete)


def user_names(ctx: Any, incomplete: str) -> list[str]:
    """Offer logins."""
    return _names(ctx, "user", incomplete)


def permission_names(ctx: Any, incomplete: str) -> list[str]:
    """Offer names of permissions that were given at run time; others cannot be taken back."""
    return _names(ctx, "permission", incomplete)


def policy_names(ctx: Any, incomplete: str) -> list[str]:
    """Offer patterns that have a policy."""
    return _names(ctx, "policy", incomplete)


def space_names(ctx: Any, incomplete: str) -> list[str]:
    """Offer virtual hosts of a cluster."""
    return _names(ctx, "space", incomplete, key="space", virtual_host=CLUSTER_HOST)


def node_names(ctx: Any, incomplete: str) -> list[str]:
    """Offer brokers of a cluster."""
    return _names(ctx, "node", incomplete, key="node", virtual_host=CLUSTER_HOST)


def _names(
    ctx: Any,
    type_name: str,
    incomplete: str,
    *,
    key: str = "name",
    queue: str = "",
    virtual_host: str = "",
) -> list[str]:
    broker = ctx.params.get("broker") or os.environ.get("COVEYCTL_BROKER", "localhost")
    try:
        place = parse_place(str(broker), PORT)
        if place.password is None:
            return []  # nobody can be asked for it here
        if virtual_host:
            place = replace(place, virtual_host=virtual_host)
        with Management(place, PATIENCE_S) as client:
            rows = client.query(type_name, queue=queue)
    except (ClientError, OSError, ValueError):
        return []
    names = sorted(str(row[key]) for row in rows if row[key])
    return [name for name in names if name.startswith(incomplete)][:OFFERED_MAX]
