"""Protocol: the one record by which everybody else knows a wire protocol.

Each protocol package has a module `protocol` with such a record, and `protocols.registry` has one
line for it. The server makes ports and engines from the record and imports no package. The same
holds for the store: a message is read back by the record of the protocol that brought it.

A new protocol is a package with a record and a line in the registry. Two more things lie outside
the package because others read them: its settings (`config.connectors`) and its opening bytes
(`sniff`).
"""

from __future__ import annotations

import socket
import ssl
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol as Interface
from typing import runtime_checkable

from covey.config.load import Loaded
from covey.config.record import Record
from covey.config.settings import ConnectorSettings
from covey.core.broker.broker import Broker
from covey.core.broker.directory import Directory
from covey.core.management.history import History
from covey.core.security.users import Users
from covey.core.storage.paging import Decoder
from covey.protocols.doorman import Opening
from covey.protocols.engine import Log, MakeEngine, Peer
from covey.protocols.listener import Listener, open_sockets
from covey.protocols.passing import Passing, Stream
from covey.protocols.read_buffers import ReadBuffers
from covey.protocols.roster import Roster, Strangers


class Port(Interface):
    """A port that is open, whatever its protocol."""

    address: str
    roster: Roster

    @property
    def connector(self) -> ConnectorSettings:
        """The port's settings."""

    @abstractmethod
    def adopt(
        self, connector: ConnectorSettings, make_engine: MakeEngine, tls: ssl.SSLContext | None
    ) -> None:
        """Go on with other options and certificates; open connections keep theirs."""

    @abstractmethod
    def shut_down(self, reason: str) -> None:
        """Accept no more, and tell every peer that the broker ends its connection."""

    @abstractmethod
    async def until_empty(self) -> None:
        """Wait until the last connection is gone."""


@runtime_checkable
class Asked(Interface):
    """A port that answers requests, which another process may pass on."""

    @abstractmethod
    async def answer(self, stream: Stream) -> None:
        """Answer one request that comes over a stream."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What became of a configuration that was read again."""

    changes: list[str]
    kept: list[str]  # what could not change because of a queue's messages, and why
    needs_restart: list[str]


class Configuration(Interface):
    """The settings that hold, and a way to read them again."""

    @abstractmethod
    def loaded(self) -> Loaded:
        """Return the settings, and where each of them is from."""

    @abstractmethod
    def reload(self, user: str, remote: str, protocol: str) -> Reloaded:
        """Read the configuration again; raises RefusedError, and changes nothing, if it is bad."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all ports of a server have in common."""

    directory: Directory
    log: Log
    strangers: Strangers
    unready: Callable[[], str]
    """Say why no message can be taken; "" if it can."""
    history: History
    configuration: Configuration
    passing: Passing | None = None
    """What has other processes serve their virtual hosts; None: this one serves all."""
    sockets: Mapping[str, Sequence[socket.socket]] = field(default_factory=dict)
    """Those that have the ports already, by the connector's id."""


Serve = Callable[[], Coroutine[object, object, None]]
OpenPort = Callable[[Surroundings, ConnectorSettings, MakeEngine], Awaitable[tuple[Port, Serve]]]
OpenSockets = Callable[[ConnectorSettings], list[socket.socket]]
EngineMaker = Callable[[Broker, ConnectorSettings, Log], MakeEngine]
MakeOpening = Callable[[Users, ConnectorSettings, Peer], Opening]


async def open_port(
    around: Surroundings, connector: ConnectorSettings, make_engine: MakeEngine
) -> tuple[Port, Serve]:
    """Take a port with one engine for each connection; return it, and the task that serves it."""
    listener = Listener(
        connector,
        make_engine,
        around.log,
        buffers=ReadBuffers.of(around.directory.settings.broker),
        strangers=around.strangers,
        passing=around.passing,
    )
    bound = await listener.bind(around.sockets.get(connector.id, ()))
    return listener, partial(listener.serve, bound)


@dataclass(frozen=True, slots=True)
class Protocol:
    """What others know of a wire protocol."""

    name: str
    """As a connector's `protocol`, and as the kind of a stored message."""
    settings: type[Record]
    """The table of its options, which a connector has under the protocol's name."""
    openings: tuple[bytes, ...]
    """How a peer that speaks it may begin."""
    decode: Decoder
    """Read a stored message back."""
    engine_maker: EngineMaker | None
    """Return what makes the engine of each connection; None: connections carry another's."""
    make_opening: MakeOpening | None = None
    """Return what reads a peer until its virtual host is known; None as for `engine_maker`."""
    carries: str = ""
    """The protocol that its connections carry, if they have no engine of their own."""
    open_port: OpenPort = open_port
    open_sockets: OpenSockets = open_sockets
    """Take a port, for several processes that are to share it."""
