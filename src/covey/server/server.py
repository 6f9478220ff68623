"""Server: the composition root. Settings in, a running broker out.

Everything is put together here and nowhere else: the store, the broker, a listener for each
connector, and the task that keeps the broker's time. SIGTERM and SIGINT end it in order:
stop accepting, tell the peers, finish, exit 0. SIGHUP reads the configuration and the
certificates again: all of it holds from then on, or, if anything is wrong, nothing changes.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import secrets
import signal
import ssl
import sys
import time
from collections.abc import Callable
from contextlib import suppress

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
from covey.core.management.reload import reconfigure
from covey.core.storage import open_store
from covey.protocols.process import resident_bytes
from covey.protocols.protocol import Port, Surroundings
from covey.protocols.registry import PROTOCOLS, decoders, engine_maker
from covey.protocols.roster import Strangers
from covey.protocols.tls import make_context
from covey.server.event_log_task import keep_event_log, open_event_log
from covey.server.log_audit import LogAudit
from covey.server.systemd import Systemd

# Objects live long in a broker: the defaults would walk a full queue every few thousand messages.
GC_THRESHOLDS = (50_000, 50, 100)
# Files that are not connections: the store's, the log, listening sockets, and some to spare.
FILES_RESERVED = 64

Log = structlog.typing.FilteringBoundLogger
Load = Callable[[], Loaded]


class Server:
    """A broker with its ports."""

    def __init__(self, settings: Settings, log: Log, load: Load | None = None) -> None:
        """Put it together; `load` reads the configuration again when SIGHUP asks for it."""
        self.settings = settings
        self.load = load
        self.log = log
        self._loop = loop = asyncio.get_running_loop()
        self.store = open_store(settings.store, lambda call: _tell(loop, call))
        if self.store.exposed:
            log.warning("data_is_open", places=self.store.exposed)
        self.broker = Broker(settings, self.store, decoders(), LogAudit(log), self._wake)
        self.broker.run_mark = secrets.token_hex(4)
        self.broker.instance = f"{settings.broker.id}-{self.broker.run_mark}"
        self.listeners: list[Port] = []
        self.strangers = Strangers(settings.broker.logins_pending_max)
        self._is_woken = False
        self._store_failed = anyio.Event()
        self._is_stopping = False
        self._damages: set[str] = set()  # those that were logged
        self.systemd = Systemd(os.environ)
        self.ready: Callable[[], None] = _nothing
        self._tell_damages()  # before anything else can happen: the next start may not know

    async def run(self) -> None:
        """Serve until told to stop."""
        sys.setswitchinterval(self.settings.broker.switch_interval_ms / 1000)
        gc.set_threshold(*GC_THRESHOLDS)
        self._raise_open_files()
        events = open_event_log(self.broker, self.settings.event_log)
        # Signals first: one that comes right after the welcome must end it in order, too.
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async with anyio.create_task_group() as tasks:
                await self._listen(tasks)
                tasks.start_soon(self._keep_time)
                tasks.start_soon(self._end_without_store)
                if events is not None:
                    tasks.start_soon(keep_event_log, self.broker, events, self.log)
                self.ready()
                self.systemd.ready()
                while (number := await anext(signals)) == signal.SIGHUP:
                    self.reload()
                self.log.info("stopping", signal=signal.Signals(number).name)
                await self._stop()
                tasks.cancel_scope.cancel()

    async def _listen(self, tasks: TaskGroup) -> None:
        around = Surroundings(self.broker, self.log, self.strangers, self._unready)
        for connector in self.settings.connectors:
            make_engine = engine_maker(self.broker, connector, self.log)
            protocol = PROTOCOLS[connector.protocol]
            port, serve = await protocol.open_port(around, connector, make_engine)
            self.listeners.append(port)
            tasks.start_soon(serve)
            self.log.info("listening", protocol=protocol.name, address=port.address)

    def _unready(self) -> str:
        """Say why no message can be taken; "" if it can."""
        if self._is_stopping:
            return "the broker is shutting down"
        if self.broker.promises.failure is not None:
            return "the store failed"
        return self.broker.commits.overload.alarm

    def reload(self) -> None:
        """Read the configuration again; log what changed, or why nothing did."""
        if self.load is None:
            return
        asked = OperatorAction(
            user="SIGHUP", remote="", protocol="signal", action="reload", kind="broker", host="",
            name=self.settings.broker.id,
        )  # fmt: skip
        with suppress(RefusedError), on_record(self.broker.audit, asked):
            self._take_over(self.load)

    def _take_over(self, load: Load) -> None:
        """Let another configuration hold; raises RefusedError, once it is logged, if it cannot."""
        try:
            wanted = load().settings
            taken, left = reloadable(self.settings, wanted)
            contexts = {
                connector.id: make_context(connector.tls)
                for connector in taken.connectors
                if connector.tls is not None
            }
            notes = reconfigure(self.broker, taken, time.monotonic())
        except (ConfigError, OSError, RefusedError) as error:
            causes = error.problems if isinstance(error, ConfigError) else [error]
            problems = [str(each) for each in causes]
            self.log.error("reload_refused", problems=problems)
            raise RefusedError("; ".join(problems), "invalid") from error
        # A warning, so that whoever asked for it sees it in a quiet log, too.
        self.log.warning(
            "reloaded", changes=changes(self.settings, taken), kept=notes, needs_restart=left
        )
        self._adopt(taken, contexts)

    def _adopt(self, settings: Settings, contexts: dict[str, ssl.SSLContext]) -> None:
        """Let the ports go on with other options and certificates."""
        self.settings = settings
        self.strangers.pending_max = settings.broker.logins_pending_max
        known = {connector.id: connector for connector in settings.connectors}
        for listener in self.listeners:
            connector = known[listener.connector.id]
            make_engine = engine_maker(self.broker, connector, self.log)
            listener.adopt(connector, make_engine, contexts.get(connector.id))
        self._raise_open_files()
        self.broker.run(time.monotonic())

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
        broker = self.broker
        while True:
            now = time.monotonic()
            broker.clock.offset = time.time() - now
            deadline = now + 1.0
            try:
                if broker.limits.memory_limit:
                    broker.rounds.weigh(resident_bytes())
                deadline = broker.tick(now)
            except Exception:  # one queue's trouble must not end the others
                self.log.exception("tick_failed")
                self.broker.internal_errors += 1
            self._tell_damages()
            self.systemd.alive(now)
            # Coarse on purpose: nothing due by time alone needs better than 10 ms.
            await anyio.sleep(min(1.0, max(0.01, deadline - time.monotonic())))

    def _tell_damages(self) -> None:
        """Log what was found damaged in the store since the last time."""
        for place in [place for place in self.broker.damages if place not in self._damages]:
            self._damages.add(place)
            self.log.error("store_damaged", place=place)

    def _wake(self) -> None:
        """Have the broker go on, once, when all that happens now has happened."""
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Go on with queues whose budget ended their turn."""
        self._is_woken = False
        try:
            self.broker.run(time.monotonic())
        except Exception:  # one queue's trouble must not end the others
            self.log.exception("run_failed")
            self.broker.internal_errors += 1
        if self.broker.promises.failure is not None:
            self._store_failed.set()

    async def _end_without_store(self) -> None:
        """Fail, and with it everything, once the store has."""
        await self._store_failed.wait()
        failure = self.broker.promises.failure
        raise StoreError(f"the store failed, nothing more can be promised: {failure}")

    async def _stop(self) -> None:
        self._is_stopping = True
        self.systemd.stopping()
        for listener in self.listeners:
            listener.shut_down("the broker is shutting down")
        with anyio.move_on_after(self.settings.broker.shutdown_timeout_s):
            for listener in self.listeners:
                await listener.until_empty()
        self.broker.run(time.monotonic())
        await anyio.to_thread.run_sync(self.store.close)


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Run something on the loop's thread, from the store's; at the end nobody listens."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)


def _nothing() -> None:
    """Tell nobody."""


def serve(
    settings: Settings, log: Log, ready: Callable[[Server], None], load: Load | None = None
) -> None:
    """Run a broker until it is told to stop; `ready` is called once it listens."""

    async def main() -> None:
        server = Server(settings, log, load)
        server.ready = lambda: ready(server)
        try:
            await server.run()
        except ExceptionGroup as group:
            # A port that is taken is one error, not a group of them.
            raise group.exceptions[0] from None

    anyio.run(main, backend_options={"use_uvloop": sys.platform != "win32"})
