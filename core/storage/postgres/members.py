"""Members: the brokers of a cluster as rows of PostgreSQL, and what each sees of the others.

A broker writes its row once a second over a connection of its own (`beat`), and then reads all
rows. Whether it may write a virtual host is not decided here, but by the lease
(`core.storage.postgres.lease`). A broker whose row was not written for the time of a lease counts
as dead.

Only one broker may have a name. A broker that starts and finds its name alive waits for the time of
a lease. After a kill the row is the dead process's, and nobody writes it again. If somebody does
write it, the start is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import psycopg

from covey.config.settings import Settings
from covey.core.errors import StoreBusyError, StoreError
from covey.core.storage.cluster import ClusterView, NodeRow, SpaceLoad, SpaceRow
from covey.core.storage.postgres.idle import IdleLeases
from covey.core.storage.postgres.lease import connect, is_passing, one_line, pause
from covey.core.storage.postgres.store import INCARNATION, connected, decoded

ENTER: Final = """
    insert into covey_nodes (node, incarnation, address, version, digest, load)
    values (%(node)s, %(incarnation)s, %(address)s, %(version)s, %(digest)s, %(load)s)
    on conflict (node) do update set incarnation = excluded.incarnation,
        address = excluded.address, version = excluded.version, digest = excluded.digest,
        load = excluded.load, draining = false, started = clock_timestamp(),
        seen = clock_timestamp()
    where covey_nodes.incarnation = %(incarnation)s
        or covey_nodes.seen < clock_timestamp() - make_interval(secs => %(lease_s)s)
"""
BEAT: Final = """
    update covey_nodes set seen = clock_timestamp(), load = %(load)s, digest = %(digest)s,
        address = %(address)s
    where node = %(node)s and incarnation = %(incarnation)s
"""
FORGET: Final = "delete from covey_nodes where seen < clock_timestamp() - interval '1 day'"
LOOK: Final = """
    select n.node, n.address, n.version, n.digest, n.draining, n.load,
        extract(epoch from clock_timestamp() - n.started)::float8, n.incarnation
    from covey_nodes n where n.seen >= clock_timestamp() - make_interval(secs => %s)
    order by n.node
"""
SPACES: Final = """
    select id, case when expires >= clock_timestamp() then owner end, epoch,
        extract(epoch from since)::float8,
        case when expires >= clock_timestamp()
            then extract(epoch from expires - clock_timestamp())::float8 else 0 end,
        wish, is_pinned, records
    from covey_spaces order by id
"""
RECORDS: Final = """
    select s.id, r.kind, r.key, r.value from covey_records r join covey_spaces s
    on s.number = r.space and s.id = r.host where r.kind = any(%s)
"""
ALIVE_EVERY_S: Final = 0.2  # the pause before a name that is alive is tried again

Say = Callable[[str], None]
Records = dict[str, dict[str, dict[str, str]]]
Query = tuple[str, tuple[object, ...]]


class Members:
    """This broker's row, and a view of all the others; every call waits for the database."""

    def __init__(
        self, settings: Settings, version: str, digest: str, say: Say, clock: Callable[[], float]
    ) -> None:
        """Connect, check that the server can be trusted, and make the tables if need be.

        Waits for a server that does not answer yet. Raises StoreError if waiting cannot help.
        """
        self.node = settings.cluster.name
        self.reconnects = 0
        self.digest = digest
        self.address = settings.cluster.forward
        self._settings = settings
        self._version = version
        self._connection = connected(settings.store, settings.cluster, say)
        self.idle = IdleLeases(settings.store.dsn, settings.cluster.lease_s, clock)

    @property
    def key(self) -> str:
        """Return what other brokers must say to be believed by this one: they read it here."""
        return INCARNATION

    def enter(self, spaces: Iterable[str], say: Say) -> None:
        """Take the name; raises StoreError if another broker has it and stays alive."""
        try:
            self._execute(FORGET, {})
            is_told = False
            for _ in range(2 + int(self._settings.cluster.lease_s / ALIVE_EVERY_S)):
                if self._execute(ENTER, self._row(spaces, {})).rowcount:
                    self.make(spaces)
                    return
                if not is_told:
                    say(f"a broker called {self.node} was here a moment ago: waiting for its lease")
                is_told = True
                pause(ALIVE_EVERY_S)
        except psycopg.Error as error:
            raise StoreError(f"PostgreSQL: {one_line(error)}") from error
        raise StoreError(
            f"another broker is called {self.node}, and it is alive{self._whereabouts()}:"
            " give this one another name (node in [cluster])"
        )

    def make(self, spaces: Iterable[str]) -> None:
        """Make a row for each virtual host that has none."""
        for space in spaces:
            self._execute(
                "insert into covey_spaces (id) values (%(space)s) on conflict do nothing",
                {"space": space},
            )

    def beat(
        self, spaces: Iterable[str], loads: Mapping[str, SpaceLoad], asked: Iterable[Query]
    ) -> ClusterView:
        """Write that this broker is alive, carry out the queries `asked`, and read all rows.

        Raises StoreBusyError while the database cannot be reached, StoreError if another broker has
        taken the name.
        """
        try:
            self._have_connection()
            if not self._execute(BEAT, self._row(spaces, loads)).rowcount:
                self._enter_again(spaces, loads)
            for query, values in asked:
                self._connection.execute(query, values)
            return self._look()
        except psycopg.Error as error:
            if self._connection.closed or self._connection.broken or is_passing(error):
                raise StoreBusyError(f"the database does not answer: {one_line(error)}") from error
            raise StoreBusyError(one_line(error)) from error

    def records(self, kinds: Sequence[str]) -> Records:
        """Read what all virtual hosts keep of these kinds: values by space, kind and key.

        Raises StoreBusyError while the database cannot be reached.
        """
        found: Records = {}
        try:
            self._have_connection()
            for space, kind, key, value in self._connection.execute(RECORDS, (list(kinds),)):
                found.setdefault(space, {}).setdefault(kind, {})[decoded(key)] = decoded(value)
        except psycopg.Error as error:
            raise StoreBusyError(f"the database does not answer: {one_line(error)}") from error
        return found

    def leave(self) -> None:
        """Give up the name."""
        try:
            if not self._connection.closed:
                self._execute(
                    "delete from covey_nodes where node = %(node)s and incarnation = %(mine)s",
                    {"node": self.node, "mine": INCARNATION},
                )
        except psycopg.Error:
            return  # the row will expire: nobody writes it any more
        finally:
            self._connection.close()
            self.idle.close()

    def _enter_again(self, spaces: Iterable[str], loads: Mapping[str, SpaceLoad]) -> None:
        """Write the row again after somebody has deleted it, unless another broker has the name."""
        if not self._execute(ENTER, self._row(spaces, loads)).rowcount:
            raise StoreError(
                f"another broker is called {self.node} now{self._whereabouts()}: this one was away"
                " for longer than its lease, and ends"
            )

    def _look(self) -> ClusterView:
        lease_s = self._settings.cluster.lease_s
        nodes = self._connection.execute(LOOK, (lease_s,)).fetchall()
        spaces = self._connection.execute(SPACES).fetchall()
        wall = self._connection.execute(
            "select extract(epoch from clock_timestamp())::float8"
        ).fetchone()
        assert wall is not None
        return ClusterView(
            tuple([_node(*row) for row in nodes]),
            tuple([SpaceRow(*row) for row in spaces]),
            wall[0],
        )

    def _have_connection(self) -> None:
        if self._connection.closed or self._connection.broken:
            self._connection.close()
            self._connection = connect(self._settings.store.dsn, self._settings.cluster.lease_s)
            self.reconnects += 1

    def _row(self, spaces: Iterable[str], loads: Mapping[str, SpaceLoad]) -> dict[str, object]:
        load = {"serves": sorted(spaces), "loads": {name: list(one) for name, one in loads.items()}}
        return {
            "node": self.node,
            "incarnation": INCARNATION,
            "address": self.address,
            "version": self._version,
            "digest": self.digest,
            "load": json.dumps(load),
            "lease_s": self._settings.cluster.lease_s,
        }

    def _execute(self, query: str, values: Mapping[str, object]) -> psycopg.Cursor[Any]:
        return self._connection.execute(query, values)

    def _whereabouts(self) -> str:
        row = self._execute(
            "select address from covey_nodes where node = %(node)s", {"node": self.node}
        ).fetchone()
        return f" at {row[0]}" if row and row[0] else ""


def _node(
    node: str,
    address: str,
    version: str,
    digest: str,
    draining: bool,
    load: str,
    up_s: float,
    incarnation: str,
) -> NodeRow:
    said = json.loads(load)
    loads = {name: SpaceLoad(*counts) for name, counts in said["loads"].items()}
    serves = frozenset(said["serves"])
    return NodeRow(node, address, version, digest, draining, up_s, serves, loads, incarnation)
