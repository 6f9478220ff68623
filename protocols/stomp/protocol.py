"""STOMP's record for the registry of protocols."""

from __future__ import annotations

from typing import Final

from covey.config.connectors import StompSettings
from covey.config.settings import ConnectorSettings
from covey.core.broker.broker import Broker
from covey.protocols import sniff
from covey.protocols.engine import Engine, Log, MakeEngine, Peer
from covey.protocols.protocol import Protocol
from covey.protocols.stomp.engine import StompEngine
from covey.protocols.stomp.message import decode


def engine_maker(broker: Broker, connector: ConnectorSettings, log: Log) -> MakeEngine:
    """Return what makes the engines of a port."""
    settings = connector.stomp

    def make_engine(peer: Peer, now: float) -> Engine:
        return StompEngine(
            broker,
            settings,
            remote=peer.remote,
            is_loopback=peer.is_loopback,
            socket_buffer=peer.socket_buffer,
            log=log,
            now=now,
        )

    return make_engine


STOMP: Final[Protocol] = Protocol("stomp", StompSettings, sniff.STOMP, decode, engine_maker)
