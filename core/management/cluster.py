"""Cluster: what operators see of the brokers that share a database, and how they steer them.

A virtual host is a `space`, a broker is a `node`. Any broker can describe all of them, from what it
last read in the database. So they are shown even while a virtual host has no owner or its owner
does not answer. To move a space, change its `owner`. To drain a node, change `draining`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from covey.core.broker.cluster import Cluster
from covey.core.errors import RefusedError
from covey.core.management.describe import Attributes, Plain
from covey.core.storage.cluster import ClusterView, NodeRow, SpaceRow

SPACE: Final = "space"
NODE: Final = "node"
TYPES: Final = (SPACE, NODE)
# What a list shows, in this order.
SPACE_FIELDS: Final = (
    "space", "owner", "epoch", "since", "lease_left_s", "messages", "connections", "moves_to"
)  # fmt: skip
NODE_FIELDS: Final = ("node", "address", "version", "draining", "load", "config_digest", "up_s")


def rows(cluster: Cluster | None, type_name: str, now: float) -> list[Attributes]:
    """Describe all spaces or nodes; none without a cluster."""
    if cluster is None:
        return []
    view = cluster.view(now)
    if type_name == SPACE:
        return [_space(row, view) for row in view.spaces]
    return [_node(row, view) for row in view.nodes]


def listing(cluster: Cluster | None, now: float) -> Attributes:
    """Describe the whole cluster; raises RefusedError if there is none."""
    if cluster is None:
        raise RefusedError("this broker is not one of a cluster: store.kind is not postgres")
    spaces = rows(cluster, SPACE, now)
    nodes = rows(cluster, NODE, now)
    return {
        "spaces": [{name: row[name] for name in SPACE_FIELDS} for row in spaces],
        "nodes": [{name: row[name] for name in NODE_FIELDS} for row in nodes],
    }


def change(
    cluster: Cluster | None,
    type_name: str,
    name: str,
    arguments: Mapping[str, object],
    now: float,
) -> Attributes:
    """Move a space (`owner`) or drain a node (`draining`); return it as it is now."""
    if cluster is None:
        raise RefusedError("this broker is not one of a cluster: store.kind is not postgres")
    wanted = "owner" if type_name == SPACE else "draining"
    if list(arguments) != [wanted]:
        raise RefusedError(f"of a {type_name} only {wanted} can be changed", "invalid")
    value = arguments[wanted]
    view = cluster.view(now)
    if type_name == SPACE:
        if not isinstance(value, str) or not value:
            raise RefusedError("owner is to be the name of a node", "invalid")
        return _space(cluster.move(name, value, now), view)
    if not isinstance(value, bool):
        raise RefusedError("draining is to be true or false", "invalid")
    return _node(cluster.drain(name, now, is_draining=value), view)


def _space(row: SpaceRow, view: ClusterView) -> Attributes:
    owner = view.node(row.owner)
    load = None if owner is None else owner.loads.get(row.space)
    since = None if row.since is None else datetime.fromtimestamp(row.since, UTC)
    return {
        "name": row.space,
        "type": SPACE,
        "space": row.space,
        "owner": row.owner,
        "epoch": row.epoch,
        "since": None if since is None or row.owner is None else f"{since:%Y-%m-%dT%H:%M:%SZ}",
        "lease_left_s": round(max(0.0, row.lease_left_s), 3),
        "messages": None if load is None else load.messages,
        "connections": None if load is None else load.connections,
        "moves_to": row.wish,
        "pinned": row.is_pinned,
    }


def _node(row: NodeRow, view: ClusterView) -> Attributes:
    load: dict[str, Plain] = {
        "spaces": sum(1 for space in view.spaces if space.owner == row.node),
        "messages": sum(one.messages for one in row.loads.values()),
        "connections": sum(one.connections for one in row.loads.values()),
    }
    return {
        "name": row.node,
        "type": NODE,
        "node": row.node,
        "address": row.address,
        "version": row.version,
        "draining": row.is_draining,
        "load": load,
        "config_digest": row.digest,
        "up_s": round(row.up_s, 1),
    }
