"""A short AMQP session as its bytes, to be handed to an engine again and again."""

from __future__ import annotations

from proton import Described, Message, symbol

from covey.protocols.amqp.engine import AmqpEngine
from tests.protocols.amqp.peer import Peer, make_broker


def record_session() -> list[bytes]:
    """Return the bytes of a short session: attach, send, receive, settle."""
    peer = Peer(make_broker(), container="recorded")
    sender = peer.sender("fuzz")
    peer.send(sender, Message(body={"n": 1}, group_id="g", properties={"p": "q"}))
    described = Described(symbol("apache.org:selector-filter:string"), "p = 'q'")
    peer.receiver("fuzz", filters={symbol("s"): described}, credit=1)
    peer.settle(peer.messages[0][0])
    return peer.sent


def feed(engine: AmqpEngine, pieces: list[bytes]) -> None:
    """Hand over a session as it was recorded."""
    for piece in pieces:
        if not engine.is_closed:
            engine.receive(piece, 1.0)
            engine.outgoing()
