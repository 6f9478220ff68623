"""Roster: the open connections of one port, whatever carries their bytes.

A roster lets a connection in while there is room, is told when it has ended, and knows when the
last one is gone. It also cuts off connections whose peer takes nothing (`Connection.watch`). All
connections read into one buffer, because the bytes are taken out before the event loop reads again.

`Strangers` counts, for each address, the connections that have not logged in yet. A stranger costs
memory and a file for as long as its login may take, so the strangers of one address are limited.
Nobody reports a login here. A connection counts as a stranger until it is checked again, and that
is done only when its address seems to have too many. So an accept costs the same with ten
connections and with ten thousand. A connection in its TLS handshake is a stranger, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import anyio
import structlog

from covey.config.settings import ConnectorSettings
from covey.protocols.connection import Connection
from covey.protocols.engine import Engine
from covey.protocols.passing import Passing
from covey.protocols.read_buffers import ReadBuffers
from covey.protocols.tls import Secured


class Handshake:
    """A connection that has no engine yet."""

    is_stranger = True


class Strangers:
    """The connections of each address that may not have logged in."""

    def __init__(self, pending_max: int) -> None:
        self.pending_max = pending_max
        self._by_address: dict[str, set[Engine | Handshake]] = {}

    def admit(self, address: str, engine: Engine | Handshake) -> bool:
        """Count a new connection; return False if its address has too many strangers already."""
        pending = self._by_address.setdefault(address, set())
        if len(pending) >= self.pending_max:
            pending.intersection_update([one for one in pending if one.is_stranger])
        if len(pending) >= self.pending_max:
            return False
        pending.add(engine)
        return True

    def replace(self, address: str, former: Engine, engine: Engine) -> None:
        """Count another engine of the same connection instead."""
        pending = self._by_address.get(address)
        if pending is not None and former in pending:
            pending.discard(former)
            pending.add(engine)

    def forget(self, address: str, engine: Engine | Handshake) -> None:
        """Stop counting a connection that has ended."""
        pending = self._by_address.get(address)
        if pending is not None:
            pending.discard(engine)
            if not pending:
                del self._by_address[address]


# How often peers that take nothing are looked at; their limits are whole seconds.
WATCH_EVERY_S = 0.5

Log = structlog.typing.FilteringBoundLogger


class Roster:
    """Who is connected to one port."""

    def __init__(
        self,
        connector: ConnectorSettings,
        *,
        buffers: ReadBuffers,
        strangers: Strangers,
        passing: Passing | None = None,
    ) -> None:
        """Begin empty; `passing` takes connections whose virtual host is served elsewhere."""
        self.connector = connector
        self.buffers = buffers
        self.strangers = strangers
        self._pass_on = None if passing is None else partial(passing.begin, self)
        self.handshakes: set[Secured] = set()  # they count as connections, too
        self._open: dict[Connection, str] = {}  # with their addresses
        self._refusals = 0  # since the last line of the log about refusals
        self._refusal_logged_in = 0
        self._emptied = anyio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def limit_reached(self, address: str, stranger: Engine | Handshake) -> str:
        """Return the name of the limit that a new connection exceeds; "" if it is let in."""
        if len(self._open) + len(self.handshakes) >= self.connector.connections_max:
            return "connections_max"
        if not self.strangers.admit(address, stranger):
            return "logins_pending_max"
        return ""

    def log_refusal(self, limit: str, log: Log) -> None:
        """Log a refusal, but one line a second at most: a flood must not fill the disk."""
        self._refusals += 1
        second = int(time.monotonic())
        if second != self._refusal_logged_in:
            self._refusal_logged_in = second
            log.warning("connection_refused", limit=limit, count=self._refusals)
            self._refusals = 0

    def join(self, engine: Engine, log: Log, ended: Callable[[Connection], None]) -> Connection:
        """Put a shell around an engine, with the settings of the port."""
        return Connection(
            engine,
            log,
            buffers=self.buffers,
            write_timeout_s=self.connector.write_timeout_s,
            ended=ended,
            replaced=self._replaced,
            pass_on=self._pass_on,
        )

    def let_in(self, engine: Engine, address: str, log: Log) -> Connection:
        """Make and count a connection that exceeds no limit, until either side ends it."""
        connection = self.join(engine, log, self._leave)
        self._open[connection] = address
        log.debug("connection_opened")
        return connection

    def _replaced(self, connection: Connection, former: Engine) -> None:
        """Called when an engine has taken the doorman's place: count the engine instead."""
        address = self._open.get(connection)
        if address is not None:
            self.strangers.replace(address, former, connection.engine)

    def _leave(self, connection: Connection) -> None:
        address = self._open.pop(connection, "")
        self.strangers.forget(address, connection.engine)
        self._emptied.set()
        connection.log.debug("connection_closed")

    async def watch(self) -> None:
        """Cut off peers that take nothing, until cancelled."""
        while True:
            await anyio.sleep(WATCH_EVERY_S)
            now = time.monotonic()
            for connection in list(self._open):
                connection.watch(now)

    def shut_down(self, reason: str) -> None:
        """Tell every peer that the broker ends its connection; end handshakes without a word."""
        self._end_handshakes()
        for connection in list(self._open):
            connection.shut_down(reason)

    def cut_off(self) -> None:
        """End the remaining connections without a word."""
        self._end_handshakes()
        for connection in list(self._open):
            connection.cut_off()

    async def until_empty(self) -> None:
        """Wait until the last one is gone."""
        while self._open:
            self._emptied = anyio.Event()
            await self._emptied.wait()

    def _end_handshakes(self) -> None:
        for secured in self.handshakes:
            secured.abort()
        self.handshakes.clear()
