"""Walk: follows one message through the broker and prints every call from file to file.

The broker is a real one: the server's own parts, in plain Python, in this process. Only the sockets
are missing: `Client` hands bytes to a real connection and keeps the bytes that it writes. A few
messages go before the recorded one, because the first ones fill caches.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog
from scripts.tour.trace import MAIN_THREAD, Step, Trace

from covey.bench.wire import amqp_wire as amqp
from covey.config.settings import ConnectorSettings, Settings
from covey.protocols.connection import Connection
from covey.protocols.engine import Log, Peer
from covey.protocols.read_buffers import ReadBuffers
from covey.protocols.registry import engine_maker
from covey.server.server import Server

WARM_UP = 8  # messages before the recorded one
PATIENCE_S = 20.0  # for the store's thread
QUEUE = "/queue/walk"
BUFFER_SIZE = 16 * 1024
CREDIT = 100
HEARD = "Spaces._heard"  # called on the loop when the store's thread is done
WINDOW = 2**31 - 1
PROPERTIES_SECTION, DATA_SECTION = 0x73, 0x75
GROUP_ID = 10  # the field's place in the properties
LOG: Log = structlog.wrap_logger(
    structlog.PrintLogger(sys.stderr),
    wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
)


class Client:
    """A client's end: the transport of a real connection, without a socket."""

    def __init__(self, server: Server, protocol: str) -> None:
        self.said = b""
        self.news = asyncio.Event()
        connector = ConnectorSettings.model_validate(
            {"id": protocol, "protocol": protocol, "bind": "tcp://127.0.0.1:0"}
        )
        engine = engine_maker(server.directory, connector, LOG)(
            Peer("127.0.0.1", 1, is_loopback=True, socket_buffer=BUFFER_SIZE), time.monotonic()
        )
        self.connection = Connection(
            engine,
            LOG,
            buffers=ReadBuffers(BUFFER_SIZE),
            write_timeout_s=0.0,
            ended=lambda _: None,
        )
        self.connection.join(self)

    async def say(self, *texts: bytes, until: bytes) -> bytes:
        """Hand in bytes, each text as one read; return the answer once it contains `until`."""
        self.said = b""
        for data in texts:
            self.connection.receive(data)
        return await self.hear(until)

    async def hear(self, wanted: bytes) -> bytes:
        """Let the event loop run until the broker has written the wanted bytes."""
        async with asyncio.timeout(PATIENCE_S):
            while wanted not in self.said:
                self.news.clear()
                await self.news.wait()
        return self.said

    def write(self, data: bytes) -> None:
        """Keep the bytes that the broker writes."""
        self.said += data
        self.news.set()

    def write_eof(self) -> None:
        """Called when the broker will write no more."""

    def close(self) -> None:
        """Know that it is over."""

    def abort(self) -> None:
        """Know that it is over."""

    def is_closing(self) -> bool:
        """Never."""
        return False

    def pause_reading(self) -> None:
        """Do nothing: a walk ignores pauses."""

    def resume_reading(self) -> None:
        """Do nothing: nothing was paused."""

    def get_write_buffer_size(self) -> int:
        """Return 0: no bytes wait."""
        return 0


def frame(command: str, *headers: str, body: str = "") -> bytes:
    """Write a STOMP frame."""
    return "\n".join([command, *headers, "", body + "\0"]).encode()


async def stomp_client(server: Server) -> Client:
    """Log in."""
    client = Client(server, "stomp")
    login = ("accept-version:1.2", "host:localhost", "login:admin", "passcode:password")
    await client.say(frame("CONNECT", *login), until=b"CONNECTED")
    return client


async def stomp(server: Server, trace: Trace) -> None:
    """Record a SEND of a group's message, until its MESSAGE is written to a subscriber."""
    await _send(server, trace, ack="auto")


async def persistent(server: Server, trace: Trace) -> None:
    """Record a persistent SEND, until its MESSAGE and its RECEIPT are written.

    The consumer does not acknowledge, because a deletion would be another walk to the store.
    """
    await _send(server, trace, "persistent:true", ack="client-individual")


async def _send(server: Server, trace: Trace, *headers: str, ack: str) -> None:
    consumer, producer = await stomp_client(server), await stomp_client(server)
    wish = ("id:s", f"destination:{QUEUE}", f"ack:{ack}", "receipt:wished")
    await consumer.say(frame("SUBSCRIBE", *wish), until=b"wished")
    for number in range(WARM_UP + 1):
        if number == WARM_UP:
            trace.start()
        body = f"message {number}."
        receipts = [f"receipt:{number}"] if headers else []
        group = (f"destination:{QUEUE}", "message_group:g")
        consumer.said = b""
        await producer.say(
            frame("SEND", *group, *headers, *receipts, body=body), until=b"RECEIPT" * len(receipts)
        )
        await consumer.hear(body.encode())


async def ack(server: Server, trace: Trace) -> None:
    """Record an ACK, until the MESSAGE that had to wait for it is written."""
    consumer, producer = await stomp_client(server), await stomp_client(server)
    for number in range(WARM_UP + 1):
        send = frame("SEND", f"destination:{QUEUE}", "message_group:g", body=f"message {number}.")
        producer.connection.receive(send)
    wish = ("id:s", f"destination:{QUEUE}", "ack:client-individual", "credit:1,0")
    said = await consumer.say(frame("SUBSCRIBE", *wish), until=b"message 0.")
    for number in range(1, WARM_UP + 1):
        if number == WARM_UP:
            trace.start()
        (name,) = re.findall(rb"^ack:(.*)$", said, re.MULTILINE)
        acknowledgement = frame("ACK", f"id:{name.decode()}")
        said = await consumer.say(acknowledgement, until=f"message {number}.".encode())


async def amqp_client(server: Server, role: bytes, source: bytes, target: bytes) -> Client:
    """Log in, begin a session and attach one link."""
    client = Client(server, "amqp")
    secret = amqp.binary(b"\0admin\0password")
    init = amqp.described(amqp.SASL_INIT, amqp.symbol("PLAIN"), secret)
    await client.say(
        amqp.SASL_HEADER, amqp.frame(init, is_sasl=True), until=bytes((0x53, amqp.SASL_OUTCOME))
    )
    opening = amqp.described(amqp.OPEN, amqp.string("walk"), amqp.string("localhost"))
    window = amqp.uint(WINDOW)
    begin = amqp.described(amqp.BEGIN, amqp.NULL, amqp.uint(0), window, window)
    attach = amqp.described(
        amqp.ATTACH,
        *(amqp.string("walk"), amqp.uint(0), role, amqp.ubyte(0), amqp.ubyte(0)),
        *(amqp.described(amqp.SOURCE, source), amqp.described(amqp.TARGET, target)),
        *(amqp.NULL, amqp.NULL, amqp.uint(0) if role == amqp.FALSE else amqp.NULL),
    )
    frames = b"".join(amqp.frame(each) for each in (opening, begin, attach))
    await client.say(amqp.AMQP_HEADER + frames, until=bytes((0x53, amqp.ATTACH)))
    return client


async def amqp_transfer(server: Server, trace: Trace) -> None:
    """Record a transfer of a group's message, until it is transferred to a receiver."""
    name = amqp.string("walk")
    consumer = await amqp_client(server, amqp.TRUE, name, amqp.NULL)
    producer = await amqp_client(server, amqp.FALSE, amqp.NULL, name)
    window = amqp.uint(WINDOW)
    numbers = (amqp.uint(0), window, amqp.uint(0), window)
    flow = amqp.described(amqp.FLOW, *numbers, amqp.uint(0), amqp.uint(0), amqp.uint(CREDIT))
    consumer.connection.receive(amqp.frame(flow))
    for number in range(WARM_UP + 1):
        if number == WARM_UP:
            trace.start()
        consumer.said = b""
        producer.connection.receive(_transfer(number))
        await consumer.hear(b"message %d." % number)


def _transfer(number: int) -> bytes:
    """Write an unsettled transfer of a message with a group."""
    tag = amqp.binary(b"%08d" % number)
    head = (amqp.uint(0), amqp.uint(number), tag, amqp.uint(0), amqp.FALSE)
    properties = amqp.described(PROPERTIES_SECTION, *[amqp.NULL] * GROUP_ID, amqp.string("g"))
    body = b"\x00\x53" + bytes((DATA_SECTION,)) + amqp.binary(b"message %d." % number)
    return amqp.frame(amqp.described(amqp.TRANSFER, *head), properties + body)


Walk = Callable[[Server, Trace], Awaitable[None]]
WALKS: dict[str, Walk] = {
    "stomp": stomp,
    "amqp": amqp_transfer,
    "persistent": persistent,
    "ack": ack,
}


def steps_of(name: str) -> list[Step]:
    """Take a walk; return its steps in order, those of the store's thread at their place."""
    with TemporaryDirectory() as folder:
        return asyncio.run(_steps_of(WALKS[name], Path(folder), name == "persistent"))


async def _steps_of(walk: Walk, folder: Path, is_stored: bool) -> list[Step]:
    store = {"kind": "sqlite", "path": str(folder)} if is_stored else {"kind": "memory"}
    trace = Trace()
    server = Server(Settings.model_validate({"store": store}), LOG)
    try:
        await walk(server, trace)
    finally:
        trace.stop()
        server.spaces.close(server.spaces.brokers)
    return in_order(trace.steps)


def in_order(steps: Sequence[Step]) -> list[Step]:
    """Put the steps of the store's thread before the step in which the loop hears of them.

    The thread goes on for a few steps after it has told the loop. Which of the two is recorded
    first is a matter of chance, but a walk must be the same each time.
    """
    walked = [step for step in steps if step.thread == MAIN_THREAD]
    others = [step for step in steps if step.thread != MAIN_THREAD]
    heard = [place for place, step in enumerate(walked) if step.function == HEARD]
    cut = heard[0] if heard else len(walked)
    return walked[:cut] + others + walked[cut:]


def summary(steps: Sequence[Step]) -> str:
    """Return a line with the length of a walk; calls from outside are not counted."""
    between = [step for step in steps if step.caller]
    files = {step.caller for step in between} | {step.callee for step in steps}
    return f"{len(between)} calls between {len(files)} files"


def line(step: Step) -> str:
    """Return a step as a line for people; deeper steps are indented more."""
    caller = step.caller or ("the event loop" if step.thread == MAIN_THREAD else "the thread")
    thread = "" if step.thread == MAIN_THREAD else f"[{step.thread}] "
    return f"{thread}{'  ' * step.depth}{caller} -> {step.callee}: {step.function}"


def main(arguments: Sequence[str]) -> int:
    """Print a walk."""
    names = [argument for argument in arguments if argument != "--json"]
    if len(names) != 1 or names[0] not in WALKS:
        sys.stderr.write(f"scripts/walk: one of {', '.join(WALKS)}, and --json or not\n")
        return 2
    steps = steps_of(names[0])
    if "--json" in arguments:
        told = json.dumps({"walk": names[0], "steps": [asdict(step) for step in steps]}, indent=2)
    else:
        told = "\n".join([*map(line, steps), "", summary(steps)])
    sys.stdout.write(told + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
