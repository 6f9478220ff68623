"""HTTP's record for the registry of protocols. A WebSocket on its port carries STOMP."""

from __future__ import annotations

from functools import partial
from typing import Final

from covey.config.connectors import HttpSettings
from covey.config.settings import ConnectorSettings
from covey.protocols import sniff
from covey.protocols.engine import MakeEngine
from covey.protocols.http.messages import decode
from covey.protocols.http.server import HttpListener, open_sockets
from covey.protocols.protocol import Port, Protocol, Serve, Surroundings


async def open_port(
    around: Surroundings, connector: ConnectorSettings, make_engine: MakeEngine
) -> tuple[Port, Serve]:
    """Take a port; `make_engine` gives the engine of a WebSocket."""
    listener = HttpListener(
        connector,
        around.directory,
        make_engine,
        around.log,
        strangers=around.strangers,
        unready=around.unready,
        history=around.history,
        configuration=around.configuration,
        passing=around.passing,
    )
    bound = await listener.bind(around.sockets.get(connector.id, ()))
    return listener, partial(listener.serve, bound)


HTTP: Final[Protocol] = Protocol(
    "http",
    HttpSettings,
    sniff.HTTP,
    decode,
    None,
    carries="stomp",
    open_port=open_port,
    open_sockets=open_sockets,
)
