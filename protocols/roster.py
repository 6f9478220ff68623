"""Roster: the open connections of one port, whatever carries their bytes.

It lets a connection in while there is room, serves it, and knows when the last one is gone. A
connection that fails, fails alone; only the log hears of it. It also looks after connections whose
writer waits for its peer (`Connection.watch`): such a writer cannot look at a clock itself.
"""

from __future__ import annotations

import time

import anyio
import structlog
from anyio.abc import ByteStream

from covey.config.settings import ConnectorSettings
from covey.protocols.connection import Connection
from covey.protocols.engine import Engine
from covey.protocols.strangers import Handshake, Strangers

# How often writers that wait for their peers are looked at; their limits are whole seconds.
WATCH_EVERY_S = 0.5

Log = structlog.typing.FilteringBoundLogger


class Roster:
    """Who is connected to one port."""

    def __init__(
        self, connector: ConnectorSettings, *, read_size: int, strangers: Strangers
    ) -> None:
        self.connector = connector
        self.read_size = read_size
        self.strangers = strangers
        self.handshakes = 0  # connections that are being secured: they take room, too
        self._open: set[Connection] = set()
        self._refusals = 0  # since the last line of the log about them
        self._refusal_logged_in = 0
        self._emptied = anyio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def limit_reached(self, address: str, stranger: Engine | Handshake) -> str:
        """Return the name of the limit that a new connection is over; "" if it is let in."""
        if len(self._open) + self.handshakes >= self.connector.connections_max:
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

    def join(self, stream: ByteStream, engine: Engine, log: Log) -> Connection:
        """Put a stream and an engine together."""
        return Connection(
            stream,
            engine,
            log,
            read_size=self.read_size,
            write_timeout_s=self.connector.write_timeout_s,
        )

    async def serve(self, connection: Connection, address: str) -> None:
        """Serve somebody who was let in, until either side ends it."""
        log = connection.log
        self._open.add(connection)
        log.info("connection_opened")
        try:
            await connection.serve()
        except Exception:  # one peer's trouble must not end the port
            log.exception("connection_failed")
        finally:
            self._open.discard(connection)
            self.strangers.forget(address, connection.engine)
            self._emptied.set()
            log.info("connection_closed")

    async def watch(self) -> None:
        """Look after waiting writers until cancelled."""
        while True:
            await anyio.sleep(WATCH_EVERY_S)
            now = time.monotonic()
            for connection in list(self._open):
                connection.watch(now)

    def shut_down(self, reason: str) -> None:
        """Tell everybody that it is over."""
        for connection in list(self._open):
            connection.engine.shut_down(reason, time.monotonic())

    async def until_empty(self) -> None:
        """Wait until the last one is gone."""
        while self._open:
            self._emptied = anyio.Event()
            await self._emptied.wait()
