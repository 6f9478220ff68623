"""Registry: the wire protocols by name. The server knows protocols through this and nothing else.

One line for each protocol package; `protocol` says what a record holds.
"""

from __future__ import annotations

from typing import Final

from covey.config.settings import ConnectorSettings
from covey.core.broker.directory import Directory
from covey.core.storage.paging import Decoder
from covey.protocols.amqp.protocol import AMQP
from covey.protocols.doorman import Doorman
from covey.protocols.engine import Engine, Log, MakeEngine, Peer
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


def engine_maker(directory: Directory, connector: ConnectorSettings, log: Log) -> MakeEngine:
    """Return what makes the engines of a port: its protocol's, or those of the one it carries.

    Where there are several virtual hosts, each connection begins with a doorman.
    """
    protocol = PROTOCOLS[connector.protocol]
    speaking = PROTOCOLS[protocol.carries or protocol.name]
    make_engine, make_opening = speaking.engine_maker, speaking.make_opening
    assert make_engine is not None, f"connections of {speaking.name} have no engine"
    assert make_opening is not None
    log = log.bind(connector=connector.id)

    def make(space: str) -> MakeEngine:
        return make_engine(directory.brokers[space], connector, log)

    def make_doorman(peer: Peer, now: float) -> Engine:
        opening = make_opening(directory.shared.users, connector, peer)
        return Doorman(opening, directory, make, peer, log, now)

    if len(directory.virtual_hosts) == 1:
        return make(directory.space_named(None))
    return make_doorman
