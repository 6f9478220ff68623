"""Engines: what a port makes for each peer, by the protocol of its connector."""

from __future__ import annotations

from covey.config.settings import ConnectorSettings
from covey.core.broker.broker import Broker
from covey.protocols.amqp.engine import AmqpEngine
from covey.protocols.engine import Engine, Log, MakeEngine, Peer
from covey.protocols.stomp.engine import StompEngine


def engine_maker(broker: Broker, connector: ConnectorSettings, log: Log) -> MakeEngine:
    """Return what makes the engines of a port; a WebSocket on an HTTP port speaks STOMP."""
    port_log = log.bind(connector=connector.id)
    if connector.protocol == "amqp":
        return _amqp_maker(broker, connector, port_log)
    return _stomp_maker(broker, connector, port_log)


def _amqp_maker(broker: Broker, connector: ConnectorSettings, log: Log) -> MakeEngine:
    amqp = connector.amqp

    def make_amqp(peer: Peer, now: float) -> Engine:
        return AmqpEngine(
            broker,
            amqp,
            remote=peer.remote,
            is_loopback=peer.is_loopback,
            certificate_name=peer.certificate_name,
            log=log,
            now=now,
        )

    return make_amqp


def _stomp_maker(broker: Broker, connector: ConnectorSettings, log: Log) -> MakeEngine:
    stomp = connector.stomp

    def make_stomp(peer: Peer, now: float) -> Engine:
        return StompEngine(
            broker,
            stomp,
            remote=peer.remote,
            is_loopback=peer.is_loopback,
            socket_buffer=peer.socket_buffer,
            log=log,
            now=now,
        )

    return make_stomp
