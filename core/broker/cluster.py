"""Cluster: what a broker that shares a database with others knows of them, and can ask of them.

Whoever shows the cluster or steers it comes through here: `$management`, HTTP, the doorman. The
class is abstract; the server has the implementation. Nothing here waits. What is known is at most
some seconds old. What is asked for is done soon, by the broker that has to do it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter

from covey.core.errors import RefusedError
from covey.core.storage.cluster import ClusterView, NodeRow, SpaceRow

STALE_S = 5.0  # what was read from the database longer ago is too old to act upon


class Cluster(ABC):
    """The brokers that share a database, as one of them sees them."""

    def __init__(self, node: str) -> None:
        """Begin without knowing the others; `node` is this broker's name."""
        self.node = node
        self.takeovers: Counter[str] = Counter()  # virtual hosts taken over, by what was before
        self.fenced = 0  # virtual hosts that another broker has taken from this one
        self.forwarded = 0  # connections that are passed on to other brokers now
        self.reconnects = 0  # to the database

    @abstractmethod
    def view(self, now: float) -> ClusterView:
        """Return what is known, with leases as they are at that time."""

    @abstractmethod
    def age_s(self, now: float) -> float:
        """Return how old the knowledge of the cluster is."""

    @abstractmethod
    def ask_move(self, space: str, node: str) -> None:
        """Ask for a virtual host to be moved soon."""

    @abstractmethod
    def ask_drain(self, node: str, *, is_draining: bool) -> None:
        """Ask a broker to give away all its virtual hosts, or allow it to have some again."""

    def lost(self, space: str, *, is_fenced: bool) -> None:
        """Called when a virtual host has ended here: another broker has it, or its store failed."""
        self.fenced += is_fenced

    def move(self, space: str, node: str, now: float) -> SpaceRow:
        """Have a broker serve a virtual host; raises RefusedError if that broker could not."""
        view = self._fresh(now)
        row = view.space(space)
        if row is None:
            raise RefusedError(f"there is no virtual host {space}", "not-found")
        taker = _alive(view, node)
        if taker.is_draining:
            raise RefusedError(f"node {node} drains: it takes nothing", "conflict")
        if space not in taker.serves:
            raise RefusedError(
                f"node {node} has no virtual host {space} in its configuration", "conflict"
            )
        self.ask_move(space, node)
        return row

    def drain(self, node: str, now: float, *, is_draining: bool) -> NodeRow:
        """Start or end the draining of a broker; raises RefusedError if no other can take over."""
        view = self._fresh(now)
        row = _alive(view, node)
        others = [one.node for one in view.nodes if one.node != node and not one.is_draining]
        if is_draining and not others:
            raise RefusedError(
                f"no other node could serve what {node} has: none is there, or all drain",
                "conflict",
            )
        self.ask_drain(node, is_draining=is_draining)
        return row

    def whereabouts(self, space: str, now: float) -> str:
        """Return a sentence on who serves a virtual host, for a client that asked this broker."""
        row = self.view(now).space(space)
        if row is None or row.owner is None:
            return f"virtual host {space} is served by nobody now"
        if row.owner == self.node:
            return f"virtual host {space} is about to be served here: its messages are being read"
        owner = self.view(now).node(row.owner)
        address = f" ({owner.address})" if owner is not None and owner.address else ""
        return f"virtual host {space} is served by node {row.owner}{address}"

    def owner(self, space: str, now: float) -> NodeRow | None:
        """Return the other broker that serves a virtual host; None if nobody does."""
        view = self.view(now)
        row = view.space(space)
        if row is None or row.owner is None or row.owner == self.node:
            return None
        return view.node(row.owner)

    def _fresh(self, now: float) -> ClusterView:
        if self.age_s(now) > STALE_S:
            raise RefusedError(
                f"the database has not answered for {self.age_s(now):.0f} s", "unavailable"
            )
        return self.view(now)


def _alive(view: ClusterView, node: str) -> NodeRow:
    row = view.node(node)
    if row is None:
        names = ", ".join([each.node for each in view.nodes])
        raise RefusedError(f"there is no node {node} now; there are {names}", "not-found")
    return row
