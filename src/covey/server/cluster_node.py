"""ClusterNode: this process as one of the brokers that share a database.

Once a second a node does three things:

- It tells the database that it is alive, and reads about the others
  (`core.storage.postgres.members`).
- It works out which virtual hosts to take and which to give away (`core.storage.cluster`).
- It takes and gives them, one after the other, each by its lease.

Taking one with a large backlog takes longer than a lease, and so does giving one away whose clients
stay. So a task of its own does that, and the node goes on telling that it is alive. It makes no
other plan until that task is done.

Threads do all waiting for the database. The event loop goes on meanwhile. It answers questions
about the cluster from the last view that was read.

While the database does not answer, no virtual host is taken or given away. Those that are served
suspend by themselves, because their leases end. If another broker has taken a virtual host, its
former owner ends it (`spaces`) and stands by. The process ends for one reason only: another broker
has its name.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
import structlog
from anyio.abc import TaskGroup

from covey import __version__
from covey.config.digest import digest
from covey.config.settings import Settings
from covey.core.broker.cluster import Cluster
from covey.core.errors import BrokerError, OwnedError, StoreBusyError
from covey.core.storage import open_leased, open_members
from covey.core.storage.cluster import ClusterView, Plan, SpaceLoad, SpaceRow, plan
from covey.core.storage.store import MessageStore
from covey.protocols.forward import Answer, ClusterOwners, ForwardPort
from covey.protocols.passing import Adoption, Passing
from covey.server.cluster_overlay import ClusterOverlay
from covey.server.spaces import Spaces

if TYPE_CHECKING:
    from covey.core.storage.postgres.members import Members

EVERY_S: Final = 1.0  # between two rounds; less if the lease is short
SOON_S: Final = 0.1  # between two rounds while a virtual host is on the move
SKEW_S: Final = 2.0  # a larger difference to the database's clock is logged
RETRY_S: Final = 1.0  # after a virtual host could not be served; doubles with each failure
RETRY_MAX_S: Final = 60.0  # a virtual host that was served for so long begins with RETRY_S again
LEAVE_S: Final = 3.0

MOVE: Final = "update covey_spaces set wish = %s, is_pinned = %s where id = %s"
EXPECT: Final = "insert into covey_spaces (id) values (%s) on conflict do nothing"
DRAIN: Final = "update covey_nodes set draining = %s where node = %s"

Log = structlog.typing.FilteringBoundLogger
Query = tuple[str, tuple[object, ...]]


class Postponed(NamedTuple):
    """When to try to serve a virtual host again, and after which pause."""

    at: float
    pause_s: float


class ClusterNode(Cluster):
    """One of several brokers."""

    def __init__(self, spaces: Spaces, settings: Settings, log: Log) -> None:
        super().__init__(settings.cluster.name)
        self._end: BrokerError | None = None  # why this broker cannot go on
        self._is_ended = anyio.Event()
        self._spaces = spaces
        self._log = log
        self._members: Members | None = None
        self._view = ClusterView()
        self._seen_at = 0.0  # when the database was asked for the view
        self._asked: list[Query] = []  # changes to write to the database in the next round
        self._free_since: dict[str, float] = {}
        self._postponed: dict[str, Postponed] = {}  # of virtual hosts that could not be served
        self._is_away = False  # True while the database does not answer
        self._is_leaving = False
        self._digests = ""
        self._is_skewed = False
        self.is_begun = anyio.Event()  # what this node was to serve at its start, it serves
        self._asking = anyio.Lock()  # the connection to the database has one user at a time
        self._acting: anyio.Event | None = None  # set when the plan under way is carried out
        self._owners: ClusterOwners | None = None
        self._port: ForwardPort | None = None
        self._overlay = ClusterOverlay(spaces, log)
        spaces.shared.cluster = self

    # What is known.

    def view(self, now: float) -> ClusterView:
        """Return the last view, with each lease's time left as of now."""
        gone_s = self.age_s(now)
        spaces = [row._replace(lease_left_s=row.lease_left_s - gone_s) for row in self._view.spaces]
        ended = [row if row.lease_left_s > 0 else row._replace(owner=None) for row in spaces]
        return self._view._replace(spaces=tuple(ended))

    def age_s(self, now: float) -> float:
        """Return the age of the view."""
        return max(0.0, now - self._seen_at)

    def ask_move(self, space: str, node: str) -> None:
        """Ask in the next round that a virtual host be moved to a node."""
        self._asked.append((MOVE, (node, True, space)))

    def ask_drain(self, node: str, *, is_draining: bool) -> None:
        """Tell a node in the next round that it is to drain, or no more."""
        self._asked.append((DRAIN, (is_draining, node)))

    # The process's life.

    async def join(self, settings: Settings) -> None:
        """Enter the cluster; raises StoreError if this broker cannot.

        Waits until the database answers, and until the lease of a broker with the same name ends.
        """
        spaces = [entry.id for entry in settings.virtual_hosts]

        def enter() -> Members:
            members = open_members(
                settings, __version__, digest(settings), self._say, time.monotonic
            )
            members.enter(spaces, self._say)
            return members

        self._members = await anyio.to_thread.run_sync(enter, abandon_on_cancel=True)
        self._log.info("cluster_joined", node=self.node, lease_s=settings.cluster.lease_s)
        await self._look()  # users that were added at run time may log in from the first moment

    async def open_forward(self, adoption: Adoption, answer: Answer) -> Passing:
        """Open the port for connections and requests from other brokers.

        Raises OSError if it is taken.
        """
        assert self._members is not None
        directory = self._spaces.directory
        own = directory.settings.cluster
        self._owners = ClusterOwners(self, own.tls)
        if own.forward:
            try:
                key = self._members.key
                self._port = ForwardPort(own.forward, own.tls, key, adoption, self._log, answer)
                await self._port.listen()
            except OSError:
                await self.leave()
                raise
        return Passing(self._owners, directory)

    async def run(self, tasks: TaskGroup) -> None:
        """Do one round after the other until this broker leaves."""
        while not self._is_leaving:
            is_soon = await self.round(tasks)
            if self._acting is None:
                self.is_begun.set()
            lease_s = self._spaces.directory.settings.cluster.lease_s
            with anyio.move_on_after(SOON_S if is_soon else min(EVERY_S, lease_s / 8)):
                await (anyio.Event() if self._acting is None else self._acting).wait()

    async def leave(self) -> None:
        """Tell the other brokers; all virtual hosts of this one must be closed before."""
        self._is_leaving = True
        members = self._members
        if members is not None:
            with anyio.move_on_after(LEAVE_S):
                if self._acting is not None:
                    await self._acting.wait()
                async with self._asking:
                    await anyio.to_thread.run_sync(members.leave, abandon_on_cancel=True)

    async def fail_without_name(self) -> None:
        """Raise, and so end the process, once another broker has this broker's name."""
        await self._is_ended.wait()
        assert self._end is not None
        raise self._end

    def expect(self, spaces: Iterable[str]) -> None:
        """Have rows made for virtual hosts that a reload adds, so that a broker takes them."""
        self._asked += [(EXPECT, (space,)) for space in spaces]

    def stop(self) -> None:
        """Take no virtual host and no connection any more."""
        self._is_leaving = True
        if self._port is not None:
            self._port.close()

    async def round(self, tasks: TaskGroup) -> bool:
        """Read the view once and act on it; return True if the next round should come soon."""
        if not await self._look() or self._acting is not None or self._is_leaving:
            return False
        decided = self._decide(time.monotonic())
        self._mark_wishes(decided)
        if decided.give or decided.take:
            self._acting = anyio.Event()
            tasks.start_soon(self._act, decided, self._acting)
        wished = [row for row in self._view.spaces if row.wish == self.node]
        return bool(self._asked or wished)

    # One round.

    async def _act(self, decided: Plan, done: anyio.Event) -> None:
        """Carry out a plan."""
        try:
            for space, node in decided.give.items():
                await self._give(space, node)
            for space in decided.take:
                if not self._is_leaving:
                    await self._take(space)
        finally:
            self._acting = None
            done.set()

    async def _look(self) -> bool:
        """Write this node's row and read all rows; return False if that cannot be done."""
        async with self._asking:
            return await self._ask()

    async def _ask(self) -> bool:
        members = self._members
        assert members is not None
        began = time.monotonic()
        settings = self._spaces.directory.settings
        asked, self._asked = self._asked, []
        hosts = [entry.id for entry in settings.virtual_hosts]
        members.digest = digest(settings)
        loads = self._loads()
        try:
            self._view = await anyio.to_thread.run_sync(members.beat, hosts, loads, asked)
        except StoreBusyError as error:
            if not self._is_away:
                self._log.error("database_away", reason=error.text)
            self._is_away = True
            self._asked = asked + self._asked
            return False
        except BrokerError as error:
            self._end = error
            self._is_ended.set()
            return False
        if self._is_away:
            self._log.warning("database_is_back")
        self._is_away = False
        self._seen_at = began
        self.reconnects = members.reconnects + members.idle.reconnects
        if self._owners is not None:
            self._owners.look()
            self.forwarded = self._owners.open_count
        self._tell_differences()
        await self._overlay.follow(members, self._view)
        return True

    def _decide(self, now: float) -> Plan:
        free = {row.space for row in self._view.spaces if row.owner is None}
        self._free_since = {space: self._free_since.get(space, now) for space in free}
        waited = {space: now - since for space, since in self._free_since.items()}
        mine = set(self._spaces.directory.brokers)
        balance_s = self._spaces.directory.settings.cluster.balance_s
        found = plan(self._view, self.node, mine, waited, balance_s)
        put_off = {space for space, one in self._postponed.items() if now < one.at}
        take = [space for space in found.take if space not in mine and space not in put_off]
        return found._replace(take=take)

    def _mark_wishes(self, decided: Plan) -> None:
        """Note in the next round which node is to get a virtual host, unless it is noted."""
        for space, node in decided.give.items():
            row = self._view.space(space)
            if row is not None and row.wish != node:
                self._asked.append((MOVE, (node, False, space)))

    async def _give(self, space: str, node: str) -> None:
        """Give a virtual host to another broker."""
        await self._look()  # write the wish first: the new owner must see it with the lease
        if space not in self._spaces.directory.brokers:
            return
        began = time.monotonic()
        await self._spaces.give(space, f"virtual host {space} moves to node {node}: connect again")
        took_s = round(time.monotonic() - began, 3)
        self._log.info("space_given", host=space, node=node, took_s=took_s)

    async def _take(self, space: str) -> None:
        """Serve a virtual host that has no owner."""
        began = time.monotonic()
        settings = self._spaces.directory.settings
        before = self._view.space(space)
        members = self._members
        assert members is not None

        def open_it() -> MessageStore:
            return open_leased(settings, space, self._spaces.notify, time.monotonic, members)

        try:
            store = await anyio.to_thread.run_sync(open_it)
            await self._spaces.serve(store, space, lambda: not self._is_leaving)
        except OwnedError:
            return  # another broker was faster
        except BrokerError as error:
            pause_s = self._put_off(space)
            self._log.error("space_not_taken", host=space, reason=error.text, again_in_s=pause_s)
            return
        self._free_since.pop(space, None)
        reason = _reason(before, self.node)
        self.takeovers[reason] += 1
        took_s = round(time.monotonic() - began, 3)
        self._log.info("space_taken", host=space, reason=reason, took_s=took_s)

    def lost(self, space: str, *, is_fenced: bool) -> None:
        """Called when a virtual host has ended here: another broker has it, or its store failed."""
        super().lost(space, is_fenced=is_fenced)
        if not is_fenced:
            self._put_off(space)

    def _put_off(self, space: str) -> float:
        """Take a virtual host that could not be served only after a pause; return the pause."""
        now = time.monotonic()
        last = self._postponed.get(space)
        is_again = last is not None and now < last.at + RETRY_MAX_S
        pause_s = min(RETRY_MAX_S, 2 * last.pause_s) if last is not None and is_again else RETRY_S
        self._postponed[space] = Postponed(now + pause_s, pause_s)
        return pause_s

    def _loads(self) -> dict[str, SpaceLoad]:
        """Return how many messages and sessions each virtual host has here."""
        return {
            space: SpaceLoad(
                sum([queue.state.index.count for queue in broker.host.all_queues()]),
                len(broker.sessions),
            )
            for space, broker in self._spaces.directory.brokers.items()
        }

    def _tell_differences(self) -> None:
        """Log what nodes disagree about: their configurations, their clocks."""
        digests = sorted({f"{node.node}: {node.digest}" for node in self._view.nodes})
        has_several = len({node.digest for node in self._view.nodes}) > 1
        told = "; ".join(digests) if has_several else ""
        if told and told != self._digests:
            self._log.warning("configurations_differ", digests=told)
        self._digests = told
        skew_s = time.time() - self._view.wall_s
        is_skewed = abs(skew_s) > SKEW_S
        if is_skewed and not self._is_skewed:
            self._log.warning(
                "clocks_disagree",
                seconds=round(skew_s, 1),
                note="this machine's clock less the database's; messages expire by this machine's,"
                " leases by the database's",
            )
        self._is_skewed = is_skewed

    def _say(self, line: str) -> None:
        self._log.info("store", note=line)


def _reason(before: SpaceRow | None, node: str) -> str:
    """Return why a virtual host was taken, as the metric names it."""
    if before is not None and before.epoch == 0:
        return "first"
    return "moved" if before is not None and before.wish == node else "free"
