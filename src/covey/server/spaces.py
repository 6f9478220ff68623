"""Spaces: the virtual hosts that this process serves, each with its broker and its store.

A process without workers serves all virtual hosts of the configuration. A worker serves those that
it was dealt.

All of them are opened at the start. If one cannot be opened, the start fails. A reload may add
some. When a store fails, its virtual host ends: the broker confirms nothing for it any more, and
tells and ends its connections. The other virtual hosts go on. The process ends only when none is
left, so that its supervisor restarts it.

In a cluster no virtual host is opened at the start. `cluster_node` decides which ones to serve
here, and brings the store of each (`serve`). A virtual host that is given away, or that another
broker has taken, ends here without the others. The process goes on even with none at all.
"""

from __future__ import annotations

import asyncio
import gc
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

import anyio
import anyio.lowlevel
import structlog

from covey.config.settings import CLUSTER_HOST, Settings
from covey.core.broker.broker import Broker
from covey.core.broker.directory import Directory
from covey.core.broker.recovery import uncollected
from covey.core.broker.shared import Shared
from covey.core.errors import RefusedError, StoreError
from covey.core.events.event import EventSink
from covey.core.events.event_log import EventLog
from covey.core.management.overlay import KINDS, take_over
from covey.core.storage import open_store, prepare_stores
from covey.core.storage.cluster import FENCED
from covey.core.storage.memory import MemoryStore
from covey.core.storage.store import MessageStore
from covey.core.storage.writer import Notify
from covey.protocols.engine import Engine
from covey.protocols.process import memory_bytes, resident_bytes
from covey.protocols.registry import decoders
from covey.server.dealing import Seat
from covey.server.log_audit import LogAudit
from covey.server.spans import Follower, Spans

LOOK_EVERY_S = 0.02  # while it waits for connections to end
PIECES_READ = 10  # pieces of a backlog that a thread reads at a time

Call = Callable[[], None]
Log = structlog.typing.FilteringBoundLogger


class Spaces:
    """The brokers of one process."""

    def __init__(
        self,
        settings: Settings,
        log: Log,
        loop: asyncio.AbstractEventLoop,
        seat: Seat | None = None,
    ) -> None:
        """Open all virtual hosts of this process; raises StoreError if one cannot be served."""
        self.log = log
        self.seat = seat
        self.shared = Shared(settings, LogAudit(log), time.perf_counter)
        self.shared.memory = memory_bytes() // (1 if seat is None else settings.broker.workers)
        self._set_clock(time.monotonic())  # now: what a start tells its event log has a date, too
        self.directory = Directory(settings, self.shared)
        self.failed: dict[str, str] = {}  # virtual hosts whose store failed, and why
        self.all_failed = anyio.Event()
        self.events: EventSink | None = None
        self.follower: Follower | None = None  # follows messages for spans, if that is wanted
        self._loop = loop
        self._run_mark = secrets.token_hex(4)
        self._is_woken = False
        self.sooner = asyncio.Event()  # something is due before the next tick
        self._coming: list[Broker] = []  # brokers whose backlog is being read
        self._ending: list[Broker] = []  # brokers that have ended, but still have connections
        self._damages: set[str] = set()  # damaged places that were logged
        self.notify: Notify = partial(_tell, loop, self._heard)
        if settings.store.kind == "postgres":
            self.directory.is_sole = False
            self.directory.lobby = self._broker(settings, MemoryStore(), CLUSTER_HOST.id)
            return
        if seat is None:
            self._prepare(settings)
        self.add(settings, [entry.id for entry in settings.virtual_hosts])
        for note in take_over(self.brokers, settings, time.monotonic()):
            log.warning("run_time_settings", note=note)

    def _prepare(self, settings: Settings) -> None:
        """Prepare the data directory; a worker's parent has done so already."""
        moved, exposed = prepare_stores(settings.store, settings.virtual_hosts[0].id)
        for note in moved:
            self.log.warning("data_moved", note=note)
        if exposed:
            self.log.warning("data_is_open", places=exposed)

    @property
    def brokers(self) -> list[Broker]:
        """Return the brokers that serve."""
        return list(self.directory.brokers.values())

    @property
    def all_brokers(self) -> list[Broker]:
        """Return the brokers that serve, and the lobby of a cluster."""
        lobby = self.directory.lobby
        return self.brokers if lobby is None else [*self.brokers, lobby]

    @property
    def instance(self) -> str:
        """Return the text that tells this run apart from others."""
        return f"{self.directory.settings.broker.id}-{self._run_mark}"

    def add(self, settings: Settings, spaces: Iterable[str]) -> list[Broker]:
        """Open virtual hosts, or none of them if one cannot be opened; return the brokers.

        A worker opens only those that it was dealt.
        """
        seat = self.seat
        opened: list[Broker] = []
        try:
            for space in [one for one in spaces if seat is None or seat.is_ours(one)]:
                broker = self._open(settings, space)
                opened.append(broker)
        except Exception:
            self.close(opened)
            raise
        for broker in opened:
            self._begin(broker)
        return opened

    async def serve(self, store: MessageStore, space: str, is_wanted: Callable[[], bool]) -> None:
        """Serve a virtual host of a cluster, whose store was just opened.

        The backlog is read by a thread and placed in pieces, so that the other virtual hosts go on
        and keep their leases. Raises StoreError if the store fails, or is no longer wanted.
        """
        lobby = self.directory.lobby
        assert lobby is not None
        settings = lobby.settings
        broker = self._broker(settings, store, space, is_recovered=False)
        self._coming.append(broker)
        try:
            await self._recover(broker, is_wanted)
        except BaseException:
            self.shared.part_with(broker)
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(store.close)
            raise
        finally:
            self._coming.remove(broker)
        self._begin(broker)
        store.rest()
        has_own = any(broker.commits.ledger.records_of(space, kind) for kind in KINDS)
        if has_own or lobby.settings is not settings:
            take_over(self.all_brokers, self.shared.file_settings, time.monotonic())

    async def _recover(self, broker: Broker, is_wanted: Callable[[], bool]) -> None:
        pieces = broker.recovery().pieces()
        with uncollected():
            while some := await anyio.to_thread.run_sync(_take_some, pieces):
                for place in some:
                    place()
                    await anyio.lowlevel.checkpoint()  # others come first
                    _check_wanted(broker, is_wanted)
            _check_wanted(broker, is_wanted)
            gc.freeze()  # as after a start (`collector`): no collection is to walk the backlog

    def _begin(self, broker: Broker) -> None:
        self.directory.brokers[broker.host.id] = broker
        if self.events is not None:
            broker.listen(self.events)
        self.tell_damages()  # at once: the next start may not see the damage any more

    def _open(self, settings: Settings, space: str) -> Broker:
        store = open_store(settings, space, self.notify, self._say, time.monotonic)
        if store.exposed:
            self.log.warning("data_is_open", places=store.exposed)
        return self._broker(settings, store, space)

    def _broker(
        self, settings: Settings, store: MessageStore, space: str, *, is_recovered: bool = True
    ) -> Broker:
        """Make the broker of a store; close the store if that fails."""
        try:
            broker = Broker(
                settings,
                store,
                decoders(),
                wake=self.wake,
                shared=self.shared,
                space=space,
                is_recovered=is_recovered,
            )
        except Exception:
            store.close()
            raise
        broker.run_mark = self._run_mark
        broker.instance = self.instance
        broker.look_sooner = self._look_sooner
        return broker

    def _look_sooner(self) -> None:
        self.sooner.set()

    def _say(self, line: str) -> None:
        self.log.info("store", note=line)

    def close(self, brokers: Iterable[Broker]) -> None:
        """Close brokers that nobody uses yet."""
        for broker in brokers:
            self.directory.brokers.pop(broker.host.id, None)
            self.shared.part_with(broker)
            broker.commits.store.close()

    async def give(self, space: str, reason: str) -> None:
        """Stop serving a virtual host: tell its clients, write what is left, close its store."""
        broker = self.directory.brokers.pop(space)
        self._ending.append(broker)
        self._dismiss(broker, RefusedError(reason, "moved"))
        with anyio.move_on_after(self.directory.settings.broker.shutdown_timeout_s):
            while broker.sessions or broker.jobs.is_any:  # noqa: ASYNC110 - the core tells nobody
                await anyio.sleep(LOOK_EVERY_S)
        broker.run(time.monotonic())
        await anyio.to_thread.run_sync(broker.commits.store.close)
        if broker in self._ending:
            self._ending.remove(broker)
            self.shared.part_with(broker)

    def _dismiss(self, broker: Broker, error: RefusedError) -> None:
        """Tell all clients of a broker why it ends, and end their connections."""
        for session in list(broker.sessions.values()):
            if isinstance(session.client, Engine):
                session.client.refuse(error, time.monotonic())
            else:
                session.kick(error.text)

    def listen(self, events: EventLog | None) -> None:
        """Send the events of all queues, present and future, to an event log, and to `follower`."""
        self.events = events if self.follower is None else Spans(self.follower, events)
        for broker in self.brokers:
            broker.listen(self.events)

    # Time.

    def _set_clock(self, now: float) -> None:
        """Tell everybody the time of day, which may be set while the broker runs."""
        self.shared.clock.offset = time.time() - now
        self.shared.clock.turn(now)

    def tick(self, now: float) -> float:
        """Do what is due by time; return when to be called again."""
        self._set_clock(now)
        deadline = now + 1.0
        used = resident_bytes()
        for broker in [*self.all_brokers, *self._ending]:
            try:
                if used:
                    broker.rounds.weigh(used)
                deadline = min(deadline, broker.tick(now))
                broker.commits.store.renew()
            except Exception:  # one queue's trouble must not end the others
                self.log.exception("tick_failed")
                broker.internal_errors += 1
        for broker in self._coming:
            broker.commits.store.renew()
        self.tell_damages()
        return deadline

    def _heard(self, report: Call) -> None:
        """Handle a report of a store's thread in a turn of its own."""
        self.shared.clock.turn(time.monotonic())
        report()

    def wake(self) -> None:
        """Have the brokers go on once, after the event loop's current callbacks."""
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Go on with queues that have used up their budget of the last turn."""
        self._is_woken = False
        for broker in [*self.all_brokers, *self._ending]:
            try:
                broker.go_on(time.monotonic())
            except Exception:  # one queue's trouble must not end the others
                self.log.exception("run_failed")
                broker.internal_errors += 1
            if broker.promises.failure is not None:
                self._end(broker)

    def run(self) -> None:
        """Have all brokers do now what waits to be done."""
        for broker in self.all_brokers:
            broker.run(time.monotonic())

    # Trouble.

    def unready(self) -> str:
        """Return why the brokers cannot take messages; "" if they can."""
        for space in self.failed:
            return f"virtual host {space} is not served: its store failed"
        return "; ".join([reason for reason in self.directory.alarms.values() if reason])

    def tell_damages(self) -> None:
        """Log the damage found in the stores since the last call."""
        for broker in self.brokers:
            for place in [one for one in broker.damages if one not in self._damages]:
                self._damages.add(place)
                self.log.error("store_damaged", place=place, host=broker.host.id)

    def _end(self, broker: Broker) -> None:
        """End a virtual host whose store has failed; end the process if it was the last."""
        space = broker.host.id
        if self.directory.lobby is not None:
            self._end_of_cluster(broker)
        elif space not in self.failed:
            self.failed[space] = str(broker.promises.failure)
            self.log.error("store_failed", host=space, reason=self.failed[space])
            if len(self.directory.brokers) == 1:
                self.all_failed.set()
                return
            del self.directory.brokers[space]
            self._ending.append(broker)
            for session in list(broker.sessions.values()):
                session.kick(f"the store of virtual host {space} failed")
        elif broker in self._ending and not broker.sessions:
            self._ending.remove(broker)
            self.shared.part_with(broker)

    def _end_of_cluster(self, broker: Broker) -> None:
        """End a virtual host here; another broker of the cluster has it or will take it."""
        space = broker.host.id
        if self.directory.brokers.get(space) is broker:
            reason = str(broker.promises.failure)
            is_fenced = FENCED in reason
            if self.shared.cluster is not None:
                self.shared.cluster.lost(space, is_fenced=is_fenced)
            self.log.error("space_lost" if is_fenced else "store_failed", host=space, reason=reason)
            del self.directory.brokers[space]
            self._ending.append(broker)
            self._loop.run_in_executor(None, broker.commits.store.close)
            self._dismiss(broker, RefusedError(f"virtual host {space} is lost here", "moved"))
        elif broker in self._ending and not broker.sessions:
            self._ending.remove(broker)
            self.shared.part_with(broker)

    async def fail_without_stores(self) -> None:
        """Raise, and so end the process, once no store is left."""
        await self.all_failed.wait()
        failure = list(self.failed.values())[-1]
        raise StoreError(f"the store failed, nothing more can be promised: {failure}")


def _check_wanted(broker: Broker, is_wanted: Callable[[], bool]) -> None:
    """Raise StoreError if a backlog that is being read is of no use any more."""
    if broker.promises.failure is not None:
        raise StoreError(str(broker.promises.failure))
    if not is_wanted():
        raise StoreError("this broker stops")


def _take_some(pieces: Iterator[Call]) -> list[Call]:
    """Read some pieces of a backlog; the store may have to be waited for."""
    return list(islice(pieces, PIECES_READ))


def _tell(loop: asyncio.AbstractEventLoop, heard: Callable[[Call], None], report: Call) -> None:
    """Pass a report from the store's thread to the loop's; a loop that has ended ignores it."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(heard, report)
