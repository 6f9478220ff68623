"""Parent: starts the worker processes, and restarts one that dies.

The parent opens the ports and serves nothing itself. The workers share the listening sockets, so
another worker accepts a connection that comes while one is away. Workers are forks of the parent:
they stay in its process group, and a restart need not load the program anew. Each has a socket to
the parent for short messages in JSON:

    worker                                          parent
    ready                                     ->    if all are, the first one logs the welcome
    reloaded, with who serves what now        ->    the others are told to reload
                                              <-    welcome; reload, with who serves what now

The parent deals the virtual hosts to the workers (`dealing`). There are never more workers than
virtual hosts. A reload that adds virtual hosts may start further workers.

How it ends: the parent passes SIGTERM and SIGINT on to the workers and waits for their end. A
worker that ends otherwise is restarted, at once the first time, then after longer and longer
pauses. If that happens before all workers have been ready once, the whole broker ends. When the
parent itself dies, the system kills the workers (PR_SET_PDEATHSIG), so the next parent finds ports
and stores free.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import structlog

from covey.config.diff import reloadable
from covey.config.errors import ConfigError
from covey.config.load import Loaded
from covey.config.settings import Settings
from covey.core.errors import BrokerError
from covey.core.storage import prepare_stores
from covey.protocols.registry import PROTOCOLS
from covey.server.dealing import Seat, Table, deal
from covey.server.systemd import Systemd

PR_SET_PDEATHSIG: Final = 1
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
PAUSE_S: Final = 0.1  # before a worker that did not live long is restarted
PAUSE_MAX_S: Final = 5.0
LONG_LIFE_S: Final = 30.0  # a worker that lived this long is restarted at once
STOP_SPARE_S: Final = 5.0  # beyond shutdown_timeout_s; then a worker is killed
MESSAGE_MAX: Final = 4 * 1024 * 1024
LOOK_S: Final = 0.5

Log = structlog.typing.FilteringBoundLogger
Sockets = Mapping[str, list[socket.socket]]


@dataclass(slots=True)
class Line:
    """What a worker gets from its parent."""

    seat: Seat
    sockets: Sockets
    control: socket.socket
    is_restart: bool
    """The other workers are there already."""


RunWorker = Callable[[Loaded, Line], int]
"""Serve until the end, and return the exit code."""


@dataclass(slots=True)
class Child:
    """One worker, as the parent sees it."""

    pid: int
    control: socket.socket
    born_at: float
    is_ready: bool = False


class Parent:
    """The process that has the workers."""

    def __init__(
        self, loaded: Loaded, log: Log, load: Callable[[], Loaded], run_worker: RunWorker
    ) -> None:
        """Deal the virtual hosts and open the ports; raises OSError if a port is taken."""
        self.settings = loaded.settings
        self.log = log
        self._loaded = loaded
        self._load = load
        self._run_worker = run_worker
        self.count = self.settings.broker.workers
        self._seat = Seat(0, self.count, deal(_spaces(self.settings), {}, self.count))
        self._children: dict[int, Child] = {}  # by the worker's number
        self._pauses: dict[int, float] = {}  # by worker: how long the next restart waits
        self._starts: dict[int, float] = {}  # by worker that died: when to restart it
        self._was_ready = False
        self._stops_at: float | None = None  # when workers that have not ended are killed
        self._code = 0
        self._selector = selectors.DefaultSelector()
        self._systemd = Systemd(os.environ)
        self._signals = self._signal_pipe()
        self._sockets = _take_ports(self.settings)

    def run(self) -> int:
        """Serve until told to stop; return the exit code."""
        moved, exposed = prepare_stores(self.settings.store, self.settings.virtual_hosts[0].id)
        for note in moved:
            self.log.warning("data_moved", note=note)
        if exposed:
            self.log.warning("data_is_open", places=exposed)
        gc.freeze()  # the workers share these pages as long as nobody touches them
        for number in sorted(set(self._seat.table.values())):
            self._start(number)
        while self._children or self._starts:
            for key, _ in self._selector.select(self._wait_s()):
                key.data()
            self._look(time.monotonic())
        return self._code

    # Workers.

    def _start(self, number: int) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            ours.close()
            self._become(number, theirs, parent)
        theirs.close()
        ours.setblocking(False)
        child = self._children[number] = Child(pid, ours, time.monotonic())
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._hear(number, child))

    def _become(self, number: int, control: socket.socket, parent: int) -> None:
        """Serve as a worker in the forked process, then exit."""
        code = 1
        try:
            _die_with(parent)
            signal.set_wakeup_fd(-1)
            for each in SIGNALS:
                signal.signal(each, signal.SIG_DFL)
            self._selector.close()
            for child in self._children.values():
                child.control.close()
            for end in self._signals:
                end.close()
            seat = replace(self._seat, number=number)
            line = Line(seat, self._sockets, control, is_restart=self._was_ready)
            code = self._run_worker(self._loaded, line)
        except BaseException:  # the forked process must never return into the parent's code
            traceback.print_exc()
        finally:
            with suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _look(self, now: float) -> None:
        """Restart workers that are due, and kill those that did not end in time."""
        self._systemd.alive(now)
        for number in [number for number, due in self._starts.items() if due <= now]:
            del self._starts[number]
            self._start(number)
        if self._stops_at is not None and now >= self._stops_at:
            for child in self._children.values():
                _kill(child.pid, signal.SIGKILL)

    def _wait_s(self) -> float:
        now = time.monotonic()
        return min([LOOK_S, *[max(0.0, due - now) for due in self._starts.values()]])

    def _reap(self) -> None:
        for number, child in list(self._children.items()):
            with suppress(ChildProcessError):
                pid, status = os.waitpid(child.pid, os.WNOHANG)
                if pid:
                    self._ended(number, child, os.waitstatus_to_exitcode(status))

    def _ended(self, number: int, child: Child, code: int) -> None:
        self._selector.unregister(child.control)
        child.control.close()
        del self._children[number]
        if self._stops_at is not None:
            self._code = self._code or (code if code > 0 else 0)
            return
        if not self._was_ready:
            self._stop(code if code > 0 else 1)
            return
        now = time.monotonic()
        pause_s = self._pauses.get(number, 0.0)
        if now - child.born_at >= LONG_LIFE_S:
            pause_s = 0.0
        self._pauses[number] = min(max(PAUSE_S, 2 * pause_s), PAUSE_MAX_S)
        self._starts[number] = now + pause_s
        self.log.error("worker_died", worker=number, pid=child.pid, code=code, pause_s=pause_s)

    # Signals.

    def _signal_pipe(self) -> tuple[socket.socket, socket.socket]:
        ends = socket.socketpair()
        for end in ends:
            end.setblocking(False)
        signal.set_wakeup_fd(ends[1].fileno(), warn_on_full_buffer=False)
        for each in SIGNALS:
            signal.signal(each, _nothing)
        self._selector.register(ends[0], selectors.EVENT_READ, self._on_signals)
        return ends

    def _on_signals(self) -> None:
        numbers = self._signals[0].recv(4096)
        # First the signals that stop: a worker that ends because of them has not failed.
        for number in (signal.SIGTERM, signal.SIGINT):
            if number in numbers and self._stops_at is None:
                self.log.info("stopping", signal=number.name)
                self._stop(0)
        if signal.SIGHUP in numbers and self._stops_at is None:
            self._reload()
        if signal.SIGCHLD in numbers:
            self._reap()

    def _stop(self, code: int) -> None:
        self._code = code
        self._systemd.stopping()
        self._starts.clear()
        self._stops_at = time.monotonic() + self.settings.broker.shutdown_timeout_s + STOP_SPARE_S
        for listening in self._listening():
            listening.close()
        for child in self._children.values():
            _kill(child.pid, signal.SIGTERM)

    def _listening(self) -> list[socket.socket]:
        return [one for several in self._sockets.values() for one in several]

    # Words.

    def _hear(self, number: int, child: Child) -> None:
        try:
            data = child.control.recv(MESSAGE_MAX)
        except OSError:
            data = b""
        if not data:  # the worker has ended; its SIGCHLD is on the way, or was lost
            self._reap()
            return
        message = json.loads(data)
        if message["word"] == "ready":
            child.is_ready = True
            self._welcome()
        elif message["word"] == "reloaded":
            self._spread(message["table"], but=number)

    def _welcome(self) -> None:
        if not self._was_ready and all(child.is_ready for child in self._children.values()):
            self._was_ready = True
            _tell(self._children[0], {"word": "welcome"})
            self._systemd.ready()

    def _reload(self) -> None:
        """Read the configuration again; if it is valid, tell all workers to reload."""
        try:
            self._take(self._load())
        except (ConfigError, OSError) as error:
            causes = error.problems if isinstance(error, ConfigError) else [error]
            self.log.error("reload_refused", problems=[str(each) for each in causes])
            return
        self._spread(deal(_spaces(self.settings), self._seat.table, self.count))

    def _take(self, loaded: Loaded) -> None:
        """Use these settings for workers that are started from now on."""
        self.settings, _ = reloadable(self.settings, loaded.settings)
        self._loaded = replace(loaded, settings=self.settings)

    def _spread(self, table: Table, but: int | None = None) -> None:
        """Tell the workers who serves what, and start workers that the new table needs."""
        if but is not None:
            with suppress(ConfigError, OSError):  # the worker has just read it without an error
                self._take(self._load())
        known = self._seat.table
        self._seat = replace(self._seat, table={**table, **known})
        for number, child in self._children.items():
            if number != but:
                _tell(child, {"word": "reload", "table": self._seat.table})
        for number in sorted(set(self._seat.table.values())):
            if number not in self._children and number not in self._starts:
                self._start(number)


def _take_ports(settings: Settings) -> Sockets:
    """Open all ports, or none of them."""
    taken: dict[str, list[socket.socket]] = {}
    try:
        for connector in settings.connectors:
            taken[connector.id] = PROTOCOLS[connector.protocol].open_sockets(connector)
    except OSError:
        for listening in [one for several in taken.values() for one in several]:
            listening.close()
        raise
    return taken


def _spaces(settings: Settings) -> list[str]:
    return [entry.id for entry in settings.virtual_hosts]


def _die_with(parent: int) -> None:
    """Have the system kill this process when its parent dies, or has died just now."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _tell(child: Child, message: Mapping[str, object]) -> None:
    with suppress(OSError):  # the worker is gone: its successor gets the news when it starts
        child.control.send(json.dumps(message).encode())


def _kill(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _nothing(number: int, frame: object) -> None:
    """Do nothing: the wakeup descriptor reports the signal."""


def serve_by_workers(
    loaded: Loaded, log: Log, load: Callable[[], Loaded], run_worker: RunWorker
) -> int:
    """Run the workers until told to stop; return the exit code.

    Raises OSError if a port cannot be taken, and BrokerError if the data cannot be used.
    """
    if not sys.platform.startswith("linux"):
        raise BrokerError("broker.workers: several workers need Linux")
    return Parent(loaded, log, load, run_worker).run()
