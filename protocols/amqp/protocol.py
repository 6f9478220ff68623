"""AMQP's record in the registry of protocols."""

from __future__ import annotations

from typing import Final

from covey.config.connectors import AmqpSettings
from covey.config.settings import ConnectorSettings
from covey.core.broker.broker import Broker
from covey.core.security.users import Users
from covey.protocols import sniff
from covey.protocols.amqp.engine import AmqpEngine
from covey.protocols.amqp.login.opening import AmqpOpening
from covey.protocols.amqp.messages.message import AmqpMessage
from covey.protocols.doorman import Opening
from covey.protocols.engine import Engine, Log, MakeEngine, Peer
from covey.protocols.protocol import Protocol


def engine_maker(broker: Broker, connector: ConnectorSettings, log: Log) -> MakeEngine:
    """Return the function that makes the engines of a port."""
    settings = connector.amqp

    def make_engine(peer: Peer, now: float) -> Engine:
        return AmqpEngine(
            broker,
            settings,
            remote=peer.remote,
            is_loopback=peer.is_loopback,
            certificate_name=peer.certificate_name,
            log=log,
            now=now,
        )

    return make_engine


def make_opening(users: Users, connector: ConnectorSettings, peer: Peer) -> Opening:
    """Return the object that reads a peer's bytes until its virtual host is known."""
    return AmqpOpening(users, connector.amqp, peer)


AMQP: Final[Protocol] = Protocol(
    "amqp", AmqpSettings, sniff.AMQP, AmqpMessage.restore, engine_maker, make_opening
)
