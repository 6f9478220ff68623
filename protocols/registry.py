"""Registry: the wire protocols by name. The server knows protocols through this and nothing else.

One line for each protocol package; `protocol` says what a record holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from covey.config.settings import ConnectorSettings
from covey.core.broker.directory import Directory
from covey.core.storage.paging import Decoder
from covey.protocols.amqp.protocol import AMQP
from covey.protocols.doorman import Doorman, Passed, not_served
from covey.protocols.engine import Engine, Log, MakeEngine, Peer
from covey.protocols.http.protocol import HTTP
from covey.protocols.protocol import EngineMaker, MakeOpening, Protocol
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
    """Return the decoders of stored messages, by the kind of message."""
    return {protocol.name: protocol.decode for protocol in PROTOCOLS.values()}


def engine_maker(directory: Directory, connector: ConnectorSettings, log: Log) -> MakeEngine:
    """Return the factory of a port's engines: of its protocol, or of the protocol it carries.

    Where there are several virtual hosts, each connection begins with a doorman.
    """
    make_engine, make_opening = _makers(connector)
    log = log.bind(connector=connector.id)

    def make(space: str) -> MakeEngine:
        return make_engine(directory.broker(space), connector, log)

    def make_doorman(peer: Peer, now: float) -> Engine:
        opening = make_opening(directory.shared.users, connector, peer)
        return Doorman(opening, directory, make, peer, log, now)

    if len(directory.virtual_hosts) == 1 and directory.is_sole:
        return make(directory.space_named(None))
    return make_doorman


def passed_engine(
    directory: Directory, connector: ConnectorSettings, log: Log, passed: Passed, accepted_at: float
) -> tuple[Engine, Callable[[], None]]:
    """Return the engine of a connection that was passed on, and a function that starts it.

    Raises RefusedError if nothing at all is served here, or the login is not valid here.
    """
    make_engine, make_opening = _makers(connector)
    opening = make_opening(directory.shared.users, connector, passed.peer)
    opening.unpack(passed.login, passed.read)
    broker = directory.brokers.get(passed.space)
    if broker is None and not directory.has_any_broker:
        raise not_served(passed.space)
    engine = make_engine(broker or directory.any_broker, connector, log)(passed.peer, accepted_at)

    def begin() -> None:
        now = accepted_at + passed.age_s
        opening.hand_over(engine, now, is_refused=broker is None)
        if broker is None:  # it was passed on once, so it is not passed on again
            engine.refuse(directory.absence(passed.space), now)

    return engine, begin


def _makers(connector: ConnectorSettings) -> tuple[EngineMaker, MakeOpening]:
    protocol = PROTOCOLS[connector.protocol]
    speaking = PROTOCOLS[protocol.carries or protocol.name]
    make_engine, make_opening = speaking.engine_maker, speaking.make_opening
    assert make_engine is not None, f"connections of {speaking.name} have no engine"
    assert make_opening is not None
    return make_engine, make_opening
