"""Passing: a connection goes to the process that serves its virtual host.

`Owners` is the interface: who serves the virtual hosts that this process does not, and how a
connection gets there. `server.workers` implements it for the workers of a machine.

    passing side                              owner's side
    the doorman knows the virtual host
    what it said to the peer is written out
    `send_socket`: the socket itself     ->   `Adoption.adopt`, with the peer's socket
    or `connect`: a `Relay` copies       ->   `Adoption.adopt`, with the socket that was connected

The socket itself is passed if it carries the protocol's bytes unchanged. With TLS or a WebSocket
the socket stays in the process that opened it, since no other process has its keys, and bytes are
copied. To the owner both are the same: a socket on which the peer goes on, and the bytes that were
read from the peer before (`Passed`).

If nobody serves a virtual host at the moment, `Owners` waits for WAIT_S. Then the peer is told that
the virtual host is unavailable. A connection is never passed on twice: a process that has ceased to
be the owner refuses it.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from covey.core.errors import BrokerError, ProtocolError, RefusedError
from covey.protocols.connection import Connection
from covey.protocols.doorman import Passed, not_served
from covey.protocols.engine import Engine, Peer
from covey.protocols.relay import Relay, Upstream

if TYPE_CHECKING:
    from covey.core.broker.directory import Directory
    from covey.protocols.protocol import Port
    from covey.protocols.roster import Roster

WAIT_S: Final = 2.0  # for an owner, while a virtual host has none
DRAIN_S: Final = 2.0  # for a peer to take the doorman's output
DRAIN_LOOK_S: Final = 0.002
TURNED_AWAY_MAX: Final = 16  # peers told of a refusal at the same time; further ones are closed

Log = structlog.typing.FilteringBoundLogger
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Owners(ABC):
    """Who serves the virtual hosts that this process does not."""

    @abstractmethod
    def is_elsewhere(self, space: str) -> bool:
        """Return True if another process serves a virtual host, or is about to."""

    async def send_socket(self, connector: str, passed: Passed, raw: socket.socket) -> bool:
        """Give the owner a peer's socket; return False if bytes must be copied instead.

        The connector is the id of the port that the peer came to. Raises RefusedError with
        "unavailable" if there is no owner within WAIT_S.
        """
        return False

    @abstractmethod
    async def connect(self, connector: str, passed: Passed, upstream: Upstream) -> None:
        """Connect an upstream to the owner, and first tell the owner of the connection.

        Raises RefusedError with "unavailable" if there is no owner within WAIT_S.
        """

    # What is asked over HTTP. A place is another process's name, "" is this one.

    @property
    def here(self) -> str:
        """Return this process's name."""
        return ""

    @property
    def places(self) -> Sequence[str]:
        """Return the names of the other processes that serve something."""
        return ()

    @property
    def home(self) -> str:
        """Return the place where browsers are signed in."""
        return ""

    def place_of(self, space: str) -> str:
        """Return the place that serves a virtual host; "" if that is this process, or none."""
        return ""

    async def open_stream(self, place: str, connector: str) -> Stream:
        """Return a stream to the port of this id in another process, to ask it something.

        Raises RefusedError with "unavailable" if that process does not answer within WAIT_S.
        """
        raise RefusedError(f"nobody can be asked at {place}", "unavailable")


class Passing:
    """The connections of one process that are on their way to others."""

    def __init__(self, owners: Owners, directory: Directory) -> None:
        self.owners = owners
        self.passed = 0  # connections whose sockets were given to their owners
        self.relayed = 0  # connections whose bytes are, or were, copied
        self._directory = directory
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, roster: Roster, connection: Connection, passed: Passed) -> bool:
        """Pass a connection on; return False if no other process serves its virtual host."""
        if not self.owners.is_elsewhere(passed.space):
            return False
        connector = roster.connector.id
        task = asyncio.get_running_loop().create_task(self._pass(connector, connection, passed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _pass(self, connector: str, connection: Connection, passed: Passed) -> None:
        doorman = connection.engine
        try:
            await self._send(connector, connection, passed)
        except (BrokerError, OSError) as error:
            connection.log.warning("not_passed_on", host=passed.space, cause=str(error))
            if connection.engine is doorman and not doorman.is_closed:
                told = error if isinstance(error, BrokerError) else not_served(passed.space)
                doorman.refuse(told, time.monotonic())
        except Exception:  # the connection's edge: one peer's trouble stays its own
            connection.log.exception("connection_failed")
            self._directory.internal_errors += 1
            connection.cut_off()

    async def _send(self, connector: str, connection: Connection, passed: Passed) -> None:
        doorman = connection.engine
        await _drained(connection)
        raw = connection.own_socket()
        if raw is not None:
            with raw:
                if await self.owners.send_socket(connector, passed, raw):
                    self.passed += 1
                    connection.cut_off()
                    return
        relay = Relay(passed.peer.remote, connection.log, self._directory)
        await self.owners.connect(connector, passed, relay.upstream)
        if connection.engine is doorman and not doorman.is_closed:
            self.relayed += 1
            connection.replace(relay)
        else:
            relay.lost(time.monotonic())


async def _drained(connection: Connection) -> None:
    """Wait until the peer's socket has taken all output of the doorman."""
    deadline = time.monotonic() + DRAIN_S
    await asyncio.sleep(0)  # first comes the turn that writes this output
    while connection.transport is not None and connection.transport.get_write_buffer_size():
        if time.monotonic() > deadline:
            raise ProtocolError("the peer does not read the answers to its login")
        await asyncio.sleep(DRAIN_LOOK_S)


MakePassed = Callable[[str, Passed, Log, float], tuple[Engine, Callable[[], None]]]


class Adoption:
    """Takes in the connections that other processes pass on."""

    def __init__(self, ports: Sequence[Port], make: MakePassed, log: Log) -> None:
        """Serve them by the settings of the ports; `make` is `registry.passed_engine`, bound."""
        self._ports = ports
        self._make = make
        self._log = log
        self._turned_away: set[Connection] = set()

    async def adopt(self, raw: socket.socket, connector: str, passed: Passed) -> None:
        """Serve a peer that came to the port of this id in another process, or close its socket."""
        try:
            connection = self.connection_of(connector, passed)
        except BrokerError as error:
            self._log.warning("not_adopted", remote=passed.peer.remote, cause=str(error))
            raw.close()
            return
        try:
            raw.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(partial(_given, connection), raw)
        except BaseException:  # the loop will not tell it any more
            connection.connection_lost(None)
            raw.close()
            raise

    def connection_of(self, connector: str, passed: Passed) -> Connection:
        """Return a connection that serves a peer, over a socket or a transport, or refuse.

        Raises RefusedError if the peer cannot be served here.
        """
        roster = next((one.roster for one in self._ports if one.connector.id == connector), None)
        if roster is None:
            raise RefusedError(f"there is no connector {connector} here", "not-found")
        now = time.monotonic()
        log = self._log.bind(connector=connector, remote=passed.peer.remote)
        engine, begin = self._make(connector, passed, log, now - passed.age_s)
        limit = roster.limit_reached(passed.peer.host, engine)
        if not limit:
            connection = roster.let_in(engine, passed.peer.host, log)
            begin()
            return connection
        roster.log_refusal(limit, log)
        if len(self._turned_away) >= TURNED_AWAY_MAX:
            raise RefusedError(f"{limit} is reached", "full")
        connection = roster.join(engine, log, self._turned_away.discard)
        self._turned_away.add(connection)
        engine.shut_down(f"connector {connector} has no room: {limit} is reached", now)
        return connection


def _given(connection: Connection) -> Connection:
    """Return what the event loop asks a factory for."""
    return connection


def pack(connector: str, passed: Passed) -> bytes:
    """Write what goes with a connection: a line of JSON, then what was read."""
    fields = asdict(passed)
    del fields["read"]
    return json.dumps({"connector": connector, **fields}).encode() + b"\n" + passed.read


def unpack(data: bytes) -> tuple[str, Passed]:
    """Read what `pack` has written: the connector's id, and what goes with the connection."""
    head, _, read = data.partition(b"\n")
    fields = json.loads(head)
    connector = fields.pop("connector")
    peer = Peer(**fields.pop("peer"))
    return connector, Passed(**fields, peer=peer, read=read)
