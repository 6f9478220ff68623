"""Server: the composition root. Settings in, a running broker out.

Everything is put together here and nowhere else: the virtual hosts (`spaces`), a listener for each
connector, and the task that keeps the time. SIGTERM and SIGINT end the server in order: stop
accepting, tell the peers, finish, exit 0. SIGHUP reads the configuration and the certificates
again. If all of it is valid, all of it applies from then on. If anything is wrong, nothing changes.

A worker process (`parent`) is such a server, too. It has a `Line` to its parent and to the other
workers. It serves the virtual hosts that it was dealt, and passes on connections to others.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import ssl
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import anyio
import structlog
from anyio.abc import TaskGroup

from covey.config.diff import changes, reloadable
from covey.config.errors import ConfigError
from covey.config.load import Loaded
from covey.config.settings import Settings
from covey.core.broker.broker import Broker
from covey.core.errors import RefusedError, StoreError
from covey.core.events.audit import OperatorAction, on_record
from covey.core.management.history import History
from covey.core.management.overlay import take_over
from covey.protocols.doorman import Passed
from covey.protocols.engine import Engine
from covey.protocols.passing import Adoption, Passing, Stream
from covey.protocols.protocol import Asked, Port, Reloaded, Surroundings
from covey.protocols.registry import PROTOCOLS, engine_maker, passed_engine
from covey.protocols.roster import Strangers
from covey.protocols.tls import make_context
from covey.server.build_task import VARIABLE, build_name, compile_beside
from covey.server.cluster_node import ClusterNode
from covey.server.collector import Collector
from covey.server.dealing import Table, deal
from covey.server.event_log_task import keep_event_log, open_event_log
from covey.server.history_task import keep_history
from covey.server.neighbours import Neighbours
from covey.server.overlay_task import SharedOverlay
from covey.server.parent import Line
from covey.server.parent_task import ParentLine
from covey.server.spaces import Spaces
from covey.server.span_export import SpanExport, open_telemetry
from covey.server.systemd import Systemd

# Files that are not connections: the store's, the log, listening sockets, and some to spare.
FILES_RESERVED = 64
PARENT = "parent"  # the user, in the log, of a reload that the parent has asked for

Log = structlog.typing.FilteringBoundLogger
Load = Callable[[], Loaded]


class Server:
    """A broker with its ports."""

    def __init__(
        self,
        settings: Settings,
        log: Log,
        load: Load | None = None,
        loaded: Loaded | None = None,
        line: Line | None = None,
    ) -> None:
        """Put the parts together; `load` reads the configuration again for a reload.

        `loaded` is what `load` returned the first time. Only a worker has a `line`.
        """
        self.settings = settings
        self.load = load
        self._loaded = loaded or Loaded(settings, {}, [])
        self.log = log
        self.line = line
        seat = None if line is None else line.seat
        self.spaces = Spaces(settings, log, asyncio.get_running_loop(), seat)
        self.directory = self.spaces.directory
        self.cluster: ClusterNode | None = None
        if settings.store.kind == "postgres":
            self.cluster = ClusterNode(self.spaces, settings, log)
        self.neighbours = None if line is None else Neighbours(line.seat, log)
        self._overlay: SharedOverlay | None = None
        if self.neighbours is not None:
            self._overlay = SharedOverlay(self.spaces, self.neighbours, log)
        self._parent = None if line is None else ParentLine(line.control, line.seat, log)
        self.spaces.shared.build = build_name(os.environ)
        self.history = History(self.directory)
        self.listeners: list[Port] = []
        self.strangers = Strangers(settings.broker.logins_pending_max)
        self._span_export: SpanExport | None = None
        self._collector = Collector(self.spaces.shared.turn_lengths)
        self._is_stopping = False
        self.systemd = Systemd(os.environ if line is None else {})  # a parent talks to it itself
        self.ready: Callable[[], None] = _nothing

    async def run(self) -> None:
        """Serve until told to stop."""
        sys.setswitchinterval(self.settings.broker.switch_interval_ms / 1000)
        if self.cluster is not None:
            await self.cluster.join(self.settings)
        self._collector.begin(time.monotonic())
        self._raise_open_files()
        self._follow_messages()
        events = open_event_log(self.spaces, self.settings.event_log)
        # Signals first: one that comes right after the welcome must also end the server in order.
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async with anyio.create_task_group() as tasks:
                if self._overlay is not None:
                    await self._begin_beside_others(tasks, self._overlay)
                await self._listen(tasks)
                tasks.start_soon(self._keep_time)
                if self.cluster is not None:
                    tasks.start_soon(self.cluster.run, tasks)
                    tasks.start_soon(self.cluster.fail_without_name)
                    await self.cluster.is_begun.wait()
                tasks.start_soon(self.spaces.fail_without_stores)
                tasks.start_soon(keep_history, self.directory, self.history, self.log)
                if events is not None:
                    tasks.start_soon(keep_event_log, self.spaces, events, self.log)
                script = os.environ.get(VARIABLE)
                if script and (self.line is None or self.line.seat.number == 0):
                    tasks.start_soon(compile_beside, self.spaces.shared, script, self.log)
                if self._parent is None:
                    self.ready()
                else:
                    tasks.start_soon(self._parent.keep, self.ready, self._reload_by_parent)
                    self._parent.ready()
                self.systemd.ready()
                while (number := await anext(signals)) == signal.SIGHUP:
                    with suppress(RefusedError):
                        self.reload()
                self.log.info("stopping", signal=signal.Signals(number).name)
                await self._stop()
                tasks.cancel_scope.cancel()

    def _follow_messages(self) -> None:
        """Begin to make spans of what happens to messages, if a collector wants them."""
        spaces = self.spaces
        telemetry = open_telemetry(
            self.settings.telemetry, spaces.instance, spaces.shared.clock, os.environ, self.log
        )
        if telemetry is not None:
            spaces.follower, self._span_export = telemetry

    async def _listen(self, tasks: TaskGroup) -> None:
        neighbours = self.neighbours
        passing = None if neighbours is None else Passing(neighbours, self.directory)
        if self.cluster is not None:
            adoption = Adoption(self.listeners, self._passed_engine, self.log)
            passing = await self.cluster.open_forward(adoption, self._answer)
        around = Surroundings(
            self.directory,
            self.log,
            self.strangers,
            self._unready,
            self.history,
            self,
            passing,
            {} if self.line is None else self.line.sockets,
        )
        for connector in self.settings.connectors:
            make_engine = engine_maker(self.directory, connector, self.log)
            protocol = PROTOCOLS[connector.protocol]
            try:
                port, serve = await protocol.open_port(around, connector, make_engine)
            except OSError:
                self._close_stores()  # free at once for another process that can serve them
                if self.cluster is not None:
                    await self.cluster.leave()
                raise
            self.listeners.append(port)
            tasks.start_soon(serve)
            self.log.info("listening", protocol=protocol.name, address=port.address)
        if neighbours is not None:
            self.directory.is_sole = False
            neighbours.adoption = Adoption(self.listeners, self._passed_engine, self.log)
            neighbours.answer = self._answer
            tasks.start_soon(neighbours.serve, neighbours.bind())

    async def _begin_beside_others(self, tasks: TaskGroup, overlay: SharedOverlay) -> None:
        """Exchange run-time settings with the other workers.

        A restarted worker waits for that before it serves. When all workers start at once, they
        exchange in the background: the last one to start reaches all the others.
        """
        if self.line is not None and self.line.is_restart:
            await overlay.exchange()
        else:
            tasks.start_soon(overlay.exchange)

    async def _answer(self, connector: str, stream: Stream) -> None:
        """Answer a request that came to another process but is about virtual hosts of this one."""
        for port in self.listeners:
            if port.connector.id == connector and isinstance(port, Asked):
                await port.answer(stream)

    def _passed_engine(
        self, connector: str, passed: Passed, log: Log, accepted_at: float
    ) -> tuple[Engine, Callable[[], None]]:
        """Return the engine for a connection that another process has passed on."""
        (settings,) = [one for one in self.settings.connectors if one.id == connector]
        return passed_engine(self.directory, settings, log, passed, accepted_at)

    def _unready(self) -> str:
        """Return why the broker cannot take messages; "" if it can."""
        if self._is_stopping:
            return "the broker is shutting down"
        return self.spaces.unready()

    def reload(self, user: str = "SIGHUP", remote: str = "", protocol: str = "signal") -> Reloaded:
        """Read the configuration again and apply it; return what has changed.

        If it cannot be applied, nothing changes: the reason is logged and RefusedError raised.
        """
        if self.load is None:
            raise RefusedError("this broker was started without a configuration to read", "refused")
        asked = OperatorAction(
            user=user, remote=remote, protocol=protocol, action="reload", kind="broker", host="",
            name=self.settings.broker.id,
        )  # fmt: skip
        with on_record(self.spaces.shared.audit, asked):
            report = self._take_over(self.load)
        if self._parent is not None and protocol != PARENT:
            self._parent.reloaded()
        return report

    def _reload_by_parent(self) -> None:
        """Reload because the parent has told all workers to."""
        self.reload(protocol=PARENT)

    def loaded(self) -> Loaded:
        """Return the settings in use, with their origins as they were last read."""
        return replace(self._loaded, settings=self.settings)

    def _take_over(self, load: Load) -> Reloaded:
        """Apply another configuration; if that fails, log why and raise RefusedError."""
        try:
            loaded = load()
            wanted = loaded.settings
            taken, left = reloadable(self.settings, wanted)
            contexts = {
                connector.id: make_context(connector.tls)
                for connector in taken.connectors
                if connector.tls is not None
            }
            before = self.settings

            def tell(notes: list[str]) -> None:
                # A warning, so that it is also seen in a log that leaves out lower levels.
                found = changes(before, taken)
                self.log.warning("reloaded", changes=found, kept=notes, needs_restart=left)

            notes = self._reconfigure(taken, tell)
        except (ConfigError, OSError, RefusedError, StoreError) as error:
            causes = error.problems if isinstance(error, ConfigError) else [error]
            problems = [str(each) for each in causes]
            self.log.error("reload_refused", problems=problems)
            raise RefusedError("; ".join(problems), "invalid") from error
        report = Reloaded(changes(self.settings, taken), notes, left)
        self._adopt(taken, contexts)
        self._loaded = loaded
        return report

    def _reconfigure(self, settings: Settings, then: Callable[[list[str]], None]) -> list[str]:
        """Open the new virtual hosts, and apply the settings to those that are open."""
        known = {entry.id for entry in self.settings.virtual_hosts}
        coming = [entry.id for entry in settings.virtual_hosts if entry.id not in known]
        if self.cluster is not None:
            self.cluster.expect(coming)
            return take_over(self.spaces.all_brokers, settings, time.monotonic(), then)
        table = self._deal(coming)
        opened: list[Broker] = []
        try:
            opened = self.spaces.add(settings, coming)
            return take_over(self.spaces.brokers, settings, time.monotonic(), then)
        except Exception:
            self.spaces.close(opened)
            if self.line is not None:
                self.line.seat.table = table
            raise

    def _deal(self, spaces: list[str]) -> Table:
        """Deal new virtual hosts, if there are workers; return the table as it was before."""
        if self.line is None:
            return {}
        seat = self.line.seat
        former, seat.table = seat.table, deal(spaces, seat.table, seat.count)
        return former

    def _adopt(self, settings: Settings, contexts: dict[str, ssl.SSLContext]) -> None:
        """Give the open ports their new options and certificates."""
        self.settings = settings
        self.directory.adopt(settings)
        self.strangers.pending_max = settings.broker.logins_pending_max
        known = {connector.id: connector for connector in settings.connectors}
        for listener in self.listeners:
            connector = known[listener.connector.id]
            make_engine = engine_maker(self.directory, connector, self.log)
            listener.adopt(connector, make_engine, contexts.get(connector.id))
        self._raise_open_files()
        self.spaces.run()

    def _raise_open_files(self) -> None:
        """Raise the limit of open files to fit all connections, as far as the system allows."""
        wanted = self.settings.broker.connections_max + FILES_RESERVED
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < wanted:
            self.log.warning("open_files_limit_is_low", limit=hard, wanted=wanted)
            wanted = hard
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

    async def _keep_time(self) -> None:
        while True:
            now = time.monotonic()
            deadline = self.spaces.tick(now)
            self.systemd.alive(now)
            self._collector.look(now, self.settings.broker.collect_every_s)
            self.spaces.sooner = asyncio.Event()
            # Coarse on purpose: nothing that is due by time needs better than 10 ms.
            with anyio.move_on_after(min(1.0, max(0.01, deadline - time.monotonic()))):
                await self.spaces.sooner.wait()

    async def _stop(self) -> None:
        self._is_stopping = True
        self.systemd.stopping()
        if self.cluster is not None:
            self.cluster.stop()
        for listener in self.listeners:
            listener.shut_down("the broker is shutting down")
        with anyio.move_on_after(self.settings.broker.shutdown_timeout_s):
            for listener in self.listeners:
                await listener.until_empty()
        self.spaces.run()
        await anyio.to_thread.run_sync(self._close_stores)
        if self._span_export is not None:
            await anyio.to_thread.run_sync(self._span_export.close)
        if self.cluster is not None:
            await self.cluster.leave()

    def _close_stores(self) -> None:
        for broker in self.spaces.brokers:
            broker.commits.store.close()


def _nothing() -> None:
    """Do nothing."""


def serve(
    settings: Settings,
    log: Log,
    ready: Callable[[Server], None],
    load: Load | None = None,
    loaded: Loaded | None = None,
    line: Line | None = None,
) -> None:
    """Run a broker until it is told to stop; `ready` is called once it listens."""

    async def main() -> None:
        server = Server(settings, log, load, loaded, line)
        server.ready = lambda: ready(server)
        try:
            await server.run()
        except ExceptionGroup as group:
            # A port that is taken is one error: raise it without the exception group around it.
            raise group.exceptions[0] from None

    anyio.run(main, backend_options={"use_uvloop": sys.platform != "win32"})
