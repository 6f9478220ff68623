"""Server: the composition root. Settings in, a running broker out.

Everything is put together here and nowhere else: the virtual hosts (`spaces`), a listener for each
connector, and the task that keeps the time. SIGTERM and SIGINT end it in order:
stop accepting, tell the peers, finish, exit 0. SIGHUP reads the configuration and the
certificates again: all of it holds from then on, or, if anything is wrong, nothing changes.
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
from covey.core.errors import RefusedError, StoreError
from covey.core.events.audit import OperatorAction, on_record
from covey.core.management.history import History
from covey.core.management.overlay import take_over
from covey.protocols.protocol import Port, Reloaded, Surroundings
from covey.protocols.registry import PROTOCOLS, engine_maker
from covey.protocols.roster import Strangers
from covey.protocols.tls import make_context
from covey.server.build_task import VARIABLE, build_name, compile_beside
from covey.server.cluster_node import ClusterNode
from covey.server.collector import Collector
from covey.server.event_log_task import keep_event_log, open_event_log
from covey.server.history_task import keep_history
from covey.server.spaces import Spaces
from covey.server.systemd import Systemd

# Files that are not connections: the store's, the log, listening sockets, and some to spare.
FILES_RESERVED = 64

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
    ) -> None:
        """Put it together; `load` reads the configuration again when somebody asks for it.

        `loaded` is what it read the first time.
        """
        self.settings = settings
        self.load = load
        self._loaded = loaded or Loaded(settings, {}, [])
        self.log = log
        self.spaces = Spaces(settings, log, asyncio.get_running_loop())
        self.directory = self.spaces.directory
        self.cluster: ClusterNode | None = None
        if settings.store.kind == "postgres":
            self.cluster = ClusterNode(self.spaces, settings, log)
        self.spaces.shared.build = build_name(os.environ)
        self.history = History(self.directory)
        self.listeners: list[Port] = []
        self.strangers = Strangers(settings.broker.logins_pending_max)
        self._is_stopping = False
        self.systemd = Systemd(os.environ)
        self.ready: Callable[[], None] = _nothing

    async def run(self) -> None:
        """Serve until told to stop."""
        sys.setswitchinterval(self.settings.broker.switch_interval_ms / 1000)
        if self.cluster is not None:
            await self.cluster.join(self.settings)
        Collector(self.spaces.shared.turn_lengths).begin()
        self._raise_open_files()
        events = open_event_log(self.spaces, self.settings.event_log)
        # Signals first: one that comes right after the welcome must end it in order, too.
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async with anyio.create_task_group() as tasks:
                await self._listen(tasks)
                tasks.start_soon(self._keep_time)
                if self.cluster is not None:
                    await self.cluster.round()
                    tasks.start_soon(self.cluster.run)
                    tasks.start_soon(self.cluster.fail_without_name)
                tasks.start_soon(self.spaces.fail_without_stores)
                tasks.start_soon(keep_history, self.directory, self.history, self.log)
                if events is not None:
                    tasks.start_soon(keep_event_log, self.spaces, events, self.log)
                if script := os.environ.get(VARIABLE):
                    tasks.start_soon(compile_beside, self.spaces.shared, script, self.log)
                self.ready()
                self.systemd.ready()
                while (number := await anext(signals)) == signal.SIGHUP:
                    with suppress(RefusedError):
                        self.reload()
                self.log.info("stopping", signal=signal.Signals(number).name)
                await self._stop()
                tasks.cancel_scope.cancel()

    async def _listen(self, tasks: TaskGroup) -> None:
        around = Surroundings(
            self.directory, self.log, self.strangers, self._unready, self.history, self
        )
        for connector in self.settings.connectors:
            make_engine = engine_maker(self.directory, connector, self.log)
            protocol = PROTOCOLS[connector.protocol]
            try:
                port, serve = await protocol.open_port(around, connector, make_engine)
            except OSError:
                self._close_stores()  # whoever can serve is to have them at once
                if self.cluster is not None:
                    await self.cluster.leave()
                raise
            self.listeners.append(port)
            tasks.start_soon(serve)
            self.log.info("listening", protocol=protocol.name, address=port.address)

    def _unready(self) -> str:
        """Say why no message can be taken; "" if it can."""
        if self._is_stopping:
            return "the broker is shutting down"
        return self.spaces.unready()

    def reload(self, user: str = "SIGHUP", remote: str = "", protocol: str = "signal") -> Reloaded:
        """Read the configuration again and let it hold; return what became of it.

        Raises RefusedError, once it is logged, if it cannot hold: then nothing has changed.
        """
        if self.load is None:
            raise RefusedError("this broker was started without a configuration to read", "refused")
        asked = OperatorAction(
            user=user, remote=remote, protocol=protocol, action="reload", kind="broker", host="",
            name=self.settings.broker.id,
        )  # fmt: skip
        with on_record(self.spaces.shared.audit, asked):
            return self._take_over(self.load)

    def loaded(self) -> Loaded:
        """Return the settings that hold, with their origins as they were last read."""
        return replace(self._loaded, settings=self.settings)

    def _take_over(self, load: Load) -> Reloaded:
        """Let another configuration hold; raises RefusedError, once it is logged, if it cannot."""
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
                # A warning, so that whoever asked for it sees it in a quiet log, too.
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
        """Open the virtual hosts that come, and let the settings hold for those that are there."""
        known = {entry.id for entry in self.settings.virtual_hosts}
        coming = [entry.id for entry in settings.virtual_hosts if entry.id not in known]
        if self.cluster is not None:
            self.cluster.expect(coming)
            return take_over(self.spaces.all_brokers, settings, time.monotonic(), then)
        opened = self.spaces.add(settings, coming)
        try:
            return take_over(self.spaces.brokers, settings, time.monotonic(), then)
        except Exception:
            self.spaces.close(opened)
            raise

    def _adopt(self, settings: Settings, contexts: dict[str, ssl.SSLContext]) -> None:
        """Let the ports go on with other options and certificates."""
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
        """Allow the process as many files as it may have connections, if the system does."""
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
            # Coarse on purpose: nothing due by time alone needs better than 10 ms.
            await anyio.sleep(min(1.0, max(0.01, deadline - time.monotonic())))

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
        if self.cluster is not None:
            await self.cluster.leave()

    def _close_stores(self) -> None:
        for broker in self.spaces.brokers:
            broker.commits.store.close()


def _nothing() -> None:
    """Tell nobody."""


def serve(
    settings: Settings,
    log: Log,
    ready: Callable[[Server], None],
    load: Load | None = None,
    loaded: Loaded | None = None,
) -> None:
    """Run a broker until it is told to stop; `ready` is called once it listens."""

    async def main() -> None:
        server = Server(settings, log, load, loaded)
        server.ready = lambda: ready(server)
        try:
            await server.run()
        except ExceptionGroup as group:
            # A port that is taken is one error, not a group of them.
            raise group.exceptions[0] from None

    anyio.run(main, backend_options={"use_uvloop": sys.platform != "win32"})
