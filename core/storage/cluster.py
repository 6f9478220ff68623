"""Cluster: which broker is to serve which virtual host, as one of them sees it.

Brokers that share a database look at the same two tables once a second: which brokers are alive,
and who has which virtual host (`ClusterView`). There is no leader. Each broker works out by `plan`
which virtual hosts it takes and which it gives away. Two brokers that come to different answers do
no harm: the lease decides who has a virtual host.

- A virtual host that nobody has goes to the broker that was named for it (`wish`), else to the
  broker that has the fewest; a hash decides among equals. If that broker does not take it, the next
  one does, a little later.
- A virtual host stays where it is. It moves when an operator says so, when its broker drains, and
  when its broker has at least two more than another. In the last case one virtual host moves at a
  time: at once if nobody is connected to it, else when nothing has moved for `balance_s`. A virtual
  host that an operator has put somewhere (`is_pinned`) is not moved for balance.
- A broker that drains takes nothing, unless no other broker is left. A broker whose configuration
  lacks a virtual host cannot have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

FENCED: Final = "another has it"  # what an owner's store says after another broker has taken it
PATIENCE_S: Final = 2.0  # how long each broker in the order waits for the one before it


class SpaceLoad(NamedTuple):
    """What a virtual host has, as its owner last said."""

    messages: int
    connections: int


class NodeRow(NamedTuple):
    """A broker that is alive."""

    node: str
    address: str  # where other brokers pass connections on to; "": nowhere
    version: str
    digest: str  # of its configuration, without the settings that differ between brokers
    is_draining: bool
    up_s: float
    serves: frozenset[str]  # the virtual hosts of its configuration
    loads: Mapping[str, SpaceLoad]  # of the virtual hosts that it has
    key: str = ""  # who connects to `address` must say it; nobody but brokers is told


class SpaceRow(NamedTuple):
    """A virtual host."""

    space: str
    owner: str | None  # None: nobody, or one whose lease is over
    epoch: int
    since: float | None  # when the owner took it, in seconds since 1970
    lease_left_s: float
    wish: str | None = None
    is_pinned: bool = False
    records: int = 0  # how many commits have changed its named records


class ClusterView(NamedTuple):
    """What the tables say; `nodes` are the brokers that are alive."""

    nodes: tuple[NodeRow, ...] = ()
    spaces: tuple[SpaceRow, ...] = ()
    wall_s: float = 0.0  # the database's clock

    def node(self, name: str | None) -> NodeRow | None:
        """Return a broker by its name; None if it is not alive."""
        return next((each for each in self.nodes if each.node == name), None)

    def space(self, name: str) -> SpaceRow | None:
        """Return a virtual host by its name."""
        return next((each for each in self.spaces if each.space == name), None)


class Plan(NamedTuple):
    """Which virtual hosts a broker takes and gives away now."""

    take: list[str]
    give: dict[str, str]  # the broker that gets it, by virtual host


def plan(
    view: ClusterView, me: str, mine: Collection[str], waited: Mapping[str, float], balance_s: float
) -> Plan:
    """Work out what to take and what to give.

    `mine` are the virtual hosts that are served here. `waited` says for how long each virtual host
    has been without an owner.
    """
    counts = Counter({node.node: 0 for node in view.nodes})
    counts.update([space.owner for space in view.spaces if space.owner and space.owner in counts])
    take: list[str] = []
    has_free = False
    for space in sorted(view.spaces):
        if space.owner is not None:
            continue
        order = _order(view, space, counts)
        has_free = has_free or bool(order)
        if order:
            counts[order[0]] += 1
        if me in order and waited.get(space.space, 0.0) >= order.index(me) * PATIENCE_S:
            take.append(space.space)
    give = _asked_for(view, me, mine, counts)
    if not give and not has_free and balance_s:
        give = _balance(view, me, mine, counts, balance_s)
    return Plan(take, give)


def _order(view: ClusterView, space: SpaceRow, counts: Mapping[str, int]) -> list[str]:
    """Return the brokers that could have a virtual host, the first choice first."""
    able = [node for node in view.nodes if space.space in node.serves]
    willing = [node.node for node in able if not node.is_draining] or [node.node for node in able]
    return sorted(
        willing,
        key=lambda node: (node != space.wish, counts[node], _weight(space.space, node)),
    )


def _asked_for(
    view: ClusterView, me: str, mine: Collection[str], counts: Counter[str]
) -> dict[str, str]:
    """Return the virtual hosts that an operator wants elsewhere, or all if this broker drains."""
    own = view.node(me)
    give: dict[str, str] = {}
    for space in view.spaces:
        if space.space not in mine or space.owner != me:
            continue
        others = [node for node in _order(view, space, counts) if node != me]
        if space.wish is not None and space.wish in others:
            give[space.space] = space.wish
        elif own is not None and own.is_draining and others:
            is_last_resort = all(node.is_draining for node in view.nodes)
            if not is_last_resort:
                give[space.space] = others[0]
                counts[others[0]] += 1
    return give


def _balance(
    view: ClusterView, me: str, mine: Collection[str], counts: Counter[str], balance_s: float
) -> dict[str, str]:
    """Return one virtual host for the broker that has the fewest, if it has too few."""
    own = view.node(me)
    others = [node for node in view.nodes if node.node != me and not node.is_draining]
    if own is None or own.is_draining or not others:
        return {}
    if max(counts.items(), key=lambda each: (each[1], each[0]))[0] != me:
        return {}  # another broker has more, or as many and a later name
    movable = [
        space
        for space in view.spaces
        if space.owner == me and space.space in mine and not space.is_pinned
    ]
    movable.sort(key=lambda space: (_connections(own, space.space), space.space))
    latest = max([space.since or 0.0 for space in view.spaces], default=0.0)
    for space in movable:
        order = [name for name in _order(view, space, counts) if name != me]
        if not order or counts[me] < counts[order[0]] + 2:
            continue
        taker = view.node(order[0])
        is_new = taker is None or taker.up_s < balance_s
        is_calm = not is_new and view.wall_s >= latest + balance_s
        if is_calm or not _connections(own, space.space):
            return {space.space: order[0]}
    return {}


def _connections(node: NodeRow, space: str) -> int:
    """Return how many are connected; 1 while the owner has not said: there may be many."""
    load = node.loads.get(space)
    return 1 if load is None else load.connections


def _weight(space: str, node: str) -> bytes:
    """Return what decides among equals: the same on every broker, different for each space."""
    return blake2b(f"{space}\0{node}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
