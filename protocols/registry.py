"""Registry: the wire protocols by name. The server knows protocols through this and nothing else.

One line for each protocol package; `protocol` says what a record holds.
"""

from __future__ import annotations

from typing import Final

from covey.config.settings import ConnectorSettings
from covey.core.broker.broker import Broker
from covey.core.storage.paging import Decoder
from covey.protocols.amqp.protocol import AMQP
from covey.protocols.engine import Log, MakeEngine
from covey.protocols.http.protocol import HTTP
from covey.protocols.protocol import Protocol
from covey.protocols.stomp.protocol import STOMP

PROTOCOLS: Final[dict[str, Protocol]] = {
    protocol.name: protocol
    for protocol in (
        STOMP,
        AMQP,
        HTTP,
    )
}


def decoders() -> dict[str, Decoder]:
    """Return how a stored message is read back, by the kind that wrote it."""
    return {protocol.name: protocol.decode for protocol in PROTOCOLS.values()}


def engine_maker(broker: Broker, connector: ConnectorSettings, log: Log) -> MakeEngine:
    """Return what makes the engines of a port: its protocol's, or those of the one it carries."""
    protocol = PROTOCOLS[connector.protocol]
    speaking = PROTOCOLS[protocol.carries or protocol.name]
    assert speaking.engine_maker is not None, f"connections of {speaking.name} have no engine"
    return speaking.engine_maker(broker, connector, log.bind(connector=connector.id))
