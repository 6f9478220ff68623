"""Raw: a client that says frames to an engine and hears those it answers with."""

from __future__ import annotations

import struct

from covey.config.settings import AmqpSettings
from covey.core.broker.broker import Broker
from covey.protocols.amqp.codec import decoder
from covey.protocols.amqp.codec.encoder import uint
from covey.protocols.amqp.engine import AmqpEngine
from tests.e2e.amqp_bytes import (
    AMQP_HEADER,
    FLOW,
    HEADER_SIZE,
    WINDOW,
    Heard,
    attaching,
    beginning,
    opening,
    says,
)
from tests.protocols.amqp.peer import OPEN_TO_ALL

SENDER = attaching("in", 0, "q", sends=True)
READER = attaching("out", 1, "q", sends=False)


class Raw:
    """A connection that has opened and begun a session on channel 0."""

    def __init__(
        self,
        broker: Broker,
        settings: AmqpSettings = OPEN_TO_ALL,
        *,
        frame_size: int = 65536,
        opened: bytes = b"",
    ) -> None:
        self.now = 1.0
        self.engine = AmqpEngine(broker, settings, now=self.now)
        self.say(AMQP_HEADER + (opened or opening(frame_size=frame_size)), beginning())
        self.frame_sizes: list[int] = []

    def say(self, *frames: bytes) -> list[Heard]:
        """Send frames in one piece; return the answers."""
        self.engine.receive(b"".join(frames), self.now)
        return self.hear()

    def hear(self) -> list[Heard]:
        """Return what the engine has to say."""
        self.engine.tick(self.now)
        data = self.engine.outgoing().removeprefix(AMQP_HEADER)
        self.frame_sizes = []
        heard = []
        while data:
            (size,) = struct.unpack(">I", data[:4])
            self.frame_sizes.append(size)
            if size > HEADER_SIZE:  # else it is a heart-beat
                found = decoder.decode(data, HEADER_SIZE)
                assert isinstance(found, decoder.Described) and isinstance(found.descriptor, int)
                assert isinstance(found.value, list)
                heard.append(Heard(found.descriptor, found.value))
            data = data[size:]
        return heard


def only(code: int, heard: list[Heard]) -> list[list[object]]:
    """Return the fields of all frames of one kind."""
    return [each.fields for each in heard if each.code == code]


def flow(
    window: int,
    *,
    next_id: int = 0,
    count: int = 0,
    credit: int = 100,
    rest: tuple[bytes, ...] = (),
) -> bytes:
    """Write a flow of the session and of the reading link."""
    session = (uint(next_id), uint(window), uint(0), WINDOW)
    return says(FLOW, *session, uint(1), uint(count), uint(credit), *rest)


def enqueued(broker: Broker) -> int:
    """Return how many messages have come into the queue."""
    return broker.host.queues["q"].counters.enqueued
