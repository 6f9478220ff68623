"""Objects: how many blocks of memory Python keeps for a message, waiting and delivered.

Each protocol's engine is fed with the generator's own bytes, in a process of its own for each
build, and `sys.getallocatedblocks` is read before and after. What is counted is what a message
holds: its entry, its content, what its consumer remembers of it. When all are settled, nothing may
be left. Every block takes time to make and to free, so this is also a part of a message's price.

    python -m scripts.benchmark.workloads.objects PROTOCOL GROUPS
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Final

from scripts.benchmark.contender import ROOT, Covey

from covey.bench.result import Result
from covey.bench.wire import amqp_wire as amqp
from covey.config.settings import AmqpSettings, Settings, StompSettings
from covey.core.broker.broker import Broker
from covey.protocols.amqp.engine import AmqpEngine
from covey.protocols.engine import Engine
from covey.protocols.stomp.engine import StompEngine

KINDS: Final = (("stomp", 0), ("stomp", 1000), ("amqp", 0))
MESSAGES: Final = 10_000
AT_ONCE: Final = 100  # messages of a read
BODY: Final = b"x" * 128
UNIT: Final = "blocks"
STATES: Final = ("waiting", "delivered", "settled")
CREDIT: Final = 2 * MESSAGES
LOGIN: Final = b"CONNECT\naccept-version:1.2\nhost:localhost\nlogin:admin\npasscode:password\n\n\0"
WINDOW: Final = 2**31 - 1


def measure(builds: Sequence[Covey], say: Callable[[str], None]) -> list[Result]:
    """Measure each build."""
    results = []
    for build in builds:
        for protocol, groups in KINDS:
            kind = f"{protocol}, {groups:,} groups" if groups else protocol
            for state, blocks in zip(STATES, _child(build, protocol, groups), strict=True):
                result = Result(f"objects, {kind}, {state}", build.name, UNIT, [blocks])
                results.append(result)
                say(f"{result.case:<40} {result.contender:<16} {blocks:.2f} a message")
    return results


def _child(build: Covey, protocol: str, groups: int) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-P", "-m", __name__, protocol, str(groups)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{build.package}:{ROOT}"},
        check=True,
    )
    found: list[float] = json.loads(done.stdout)
    return found


class Client:
    """The broker's end of a connection, and what it has written."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def say(self, data: bytes) -> bytes:
        """Hand in bytes, and return the answer."""
        self.engine.receive(data, 1.0)
        return self.hear()

    def hear(self) -> bytes:
        """Return all that the broker has to say."""
        parts = []
        self.engine.tick(1.0)
        while part := self.engine.outgoing():
            parts.append(part)
        return b"".join(parts)


class Stomp:
    """A producer and a consumer of STOMP."""

    def __init__(self, broker: Broker, groups: int) -> None:
        self.producer = Client(StompEngine(broker, StompSettings()))
        self.consumer = Client(StompEngine(broker, StompSettings()))
        for client in (self.producer, self.consumer):
            client.say(LOGIN)
        self.groups = groups

    def send(self, first: int) -> None:
        """Send some messages."""
        self.producer.say(b"".join([self._frame(first + each) for each in range(AT_ONCE)]))

    def _frame(self, number: int) -> bytes:
        group = b"\nJMSXGroupID:g%d" % (number % self.groups) if self.groups else b""
        return b"SEND\ndestination:/queue/q" + group + b"\n\n" + BODY + b"\0"

    def take(self) -> None:
        """Subscribe, and take all messages."""
        self.consumer.say(
            b"SUBSCRIBE\nid:1\ndestination:/queue/q\nack:client-individual\n"
            b"credit:%d,0\n\n\0" % CREDIT
        )

    def settle(self) -> None:
        """Acknowledge all messages."""
        for number in range(1, MESSAGES + 1):
            self.consumer.say(b"ACK\nid:%d\n\n\0" % number)


class Amqp:
    """A producer and a consumer of AMQP, each delivery settled by a disposition."""

    def __init__(self, broker: Broker, groups: int) -> None:
        self.producer = Client(AmqpEngine(broker, AmqpSettings()))
        self.consumer = Client(AmqpEngine(broker, AmqpSettings()))
        window = amqp.uint(WINDOW)
        secret = amqp.binary(b"\0admin\0password")
        init = amqp.described(amqp.SASL_INIT, amqp.symbol("PLAIN"), secret)
        begin = amqp.described(amqp.BEGIN, amqp.NULL, amqp.uint(0), window, window)
        for name, client in (("p", self.producer), ("c", self.consumer)):
            client.say(amqp.SASL_HEADER + amqp.frame(init, is_sasl=True))
            client.say(amqp.AMQP_HEADER)
            client.say(amqp.frame(amqp.described(amqp.OPEN, amqp.string(name))))
            client.say(amqp.frame(begin))
        self.producer.say(_attach(amqp.FALSE))

    def send(self, first: int) -> None:
        """Send some messages."""
        content = b"\x00\x53\x75" + amqp.binary(BODY)
        frames = [
            amqp.frame(
                amqp.described(
                    amqp.TRANSFER,
                    *(amqp.uint(0), amqp.uint(number), amqp.binary(b"%08d" % number)),
                    *(amqp.uint(0), amqp.FALSE),
                ),
                content,
            )
            for number in range(first, first + AT_ONCE)
        ]
        self.producer.say(b"".join(frames))

    def take(self) -> None:
        """Attach, and take all messages."""
        self.consumer.say(_attach(amqp.TRUE))
        window = amqp.uint(WINDOW)
        flow = (amqp.uint(0), window, amqp.uint(0), window, amqp.uint(0), amqp.uint(0))
        self.consumer.say(amqp.frame(amqp.described(amqp.FLOW, *flow, amqp.uint(CREDIT))))

    def settle(self) -> None:
        """Accept all messages."""
        state = amqp.described(amqp.ACCEPTED)
        for first in range(0, MESSAGES, AT_ONCE):
            numbers = amqp.uint(first), amqp.uint(first + AT_ONCE - 1)
            fields = (amqp.TRUE, *numbers, amqp.TRUE, state)
            self.consumer.say(amqp.frame(amqp.described(amqp.DISPOSITION, *fields)))


def _attach(role: bytes) -> bytes:
    ends = [
        amqp.described(code, amqp.string("q") if there else amqp.NULL)
        for code, there in ((amqp.SOURCE, role == amqp.TRUE), (amqp.TARGET, role == amqp.FALSE))
    ]
    start = amqp.uint(0) if role == amqp.FALSE else amqp.NULL
    fields = (amqp.string("l"), amqp.uint(0), role, amqp.ubyte(0), amqp.ubyte(0))
    return amqp.frame(amqp.described(amqp.ATTACH, *fields, *ends, amqp.NULL, amqp.NULL, start))


def run(protocol: str, groups: int) -> list[float]:
    """Return the blocks of a message in each state."""
    broker = Broker(Settings())
    flow = (Stomp if protocol == "stomp" else Amqp)(broker, groups)
    flow.send(0)  # what is made once: the queue, caches
    before = _blocks()
    for first in range(AT_ONCE, MESSAGES, AT_ONCE):
        flow.send(first)
    counted = MESSAGES - AT_ONCE
    waiting = _blocks() - before
    flow.take()
    broker.go_on(1.0)
    while broker.turns.is_any_dirty:
        broker.go_on(1.0)
    flow.consumer.hear()
    delivered = _blocks() - before
    flow.settle()
    settled = _blocks() - before
    (queue,) = broker.host.queues.values()
    assert queue.counters.acked == MESSAGES, "not all messages were delivered and settled"
    return [each / counted for each in (waiting, delivered, settled)]


def _blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(sys.argv[1], int(sys.argv[2]))))
