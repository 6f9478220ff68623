"""A broker in memory, for tests of handlers: the real core, no sockets, a clock that jumps.

    from covey.worker.testing import MemoryBroker, run

    def test_orders_are_paid_before_they_are_shipped() -> None:
        async def scenario() -> None:
            broker = MemoryBroker(queues=[{"id": "orders", "nak_limit": 3, "dlq": "dead"}])
            async with broker.producer() as producer:
                await producer.send_many("orders", ["pay", "ship"], group="order-17")
            await broker.work(shop.worker)
            assert await broker.bodies("dead") == []

        run(scenario())

`run` runs a coroutine on an event loop whose time jumps to the next timer whenever there is nothing
else to do. So an hour's back-off takes no time, nor does a handler's own sleep. While a thread
works (a handler that is not async) time does not jump.

This module needs the broker's dependencies; the rest of the package does not.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Final, TypeVar, TypeVarTuple

from covey.config.settings import Settings, StompSettings
from covey.core.broker.broker import Broker
from covey.protocols.stomp.engine import StompEngine
from covey.worker.address import Address
from covey.worker.connection import open_connection
from covey.worker.message import SEQ_HEADER, Message
from covey.worker.outgoing import destination_of
from covey.worker.producer import Producer
from covey.worker.worker import Worker

URL: Final = "covey://admin:password@localhost"
TIMEOUT_S: Final = 86_400.0  # in the time of the jumping clock
LOOK_S: Final = 0.01  # between two looks at a queue
THREAD_S: Final = 0.01  # between two looks at a thread, in real time

Result = TypeVar("Result")
Given = TypeVarTuple("Given")


def run(scenario: Coroutine[Any, Any, Result], timeout_s: float = TIMEOUT_S) -> Result:
    """Run a coroutine on a clock that jumps; TimeoutError after `timeout_s` on that clock."""

    async def limited() -> Result:
        async with asyncio.timeout(timeout_s):
            return await scenario

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(limited())


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer whenever it would wait."""

    def __init__(self) -> None:
        """Begin at a time that differs from the real clock's."""
        self.now = 1000.0
        self.threads = 0  # how many work for the loop
        self.looks: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []  # who waits for what
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Return the time."""
        return self.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Given], Result], *args: *Given
    ) -> asyncio.Future[Result]:
        """Let a thread work; time does not jump meanwhile."""
        self.threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_ended)
        return future

    def jump(self, seconds: float) -> None:
        """Wake those whose condition holds now; if there are none, let time pass."""
        held = [awaited for holds, awaited in self.looks if not awaited.done() and holds()]
        for awaited in held:
            awaited.set_result(None)
        if not held:
            self.now += seconds

    def _thread_ended(self, _: object) -> None:
        self.threads -= 1


class _JumpingSelector(selectors.DefaultSelector):
    """Waits only for threads; where it would wait otherwise, the loop's time jumps."""

    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            return super().select(None)
        found = super().select(0)
        if found or timeout <= 0:
            return found
        if self._loop.threads:
            return super().select(THREAD_S)
        self._loop.jump(timeout)
        return []


class MemoryBroker:
    """A broker without sockets, store or port."""

    def __init__(
        self,
        *,
        queues: Sequence[Mapping[str, object]] = (),
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Take policies as `[[queue]]` entries of a configuration, and any other settings."""
        given = {**(settings or {}), **({"queue": tuple(queues)} if queues else {})}
        self.broker = Broker(Settings.model_validate(given))
        self._loop = asyncio.get_running_loop()
        self.broker.clock.offset = time.time() - self._loop.time()
        self._pipes: list[Pipe] = []
        self._is_due = False
        self._timer: asyncio.TimerHandle | None = None

    # What a test does.

    def attach(self, user: Worker | Producer) -> None:
        """Make a worker or a producer use this broker, whatever its URL says."""
        user.link.addresses = [_ADDRESS]
        user.link.dial = self.dial
        user.link.heartbeat_s = 0.0

    def producer(self) -> Producer:
        """Make a producer of this broker; use it with `async with`."""
        producer = Producer(URL)
        self.attach(producer)
        return producer

    async def send(self, destination: str, *bodies: Any, group: str | None = None) -> None:
        """Send messages."""
        async with self.producer() as producer:
            await producer.send_many(destination, bodies, group=group)

    async def work(self, worker: Worker, *, until: Callable[[], bool] | None = None) -> None:
        """Run a worker until its queue is empty, or until a condition holds."""
        self.attach(worker)
        looking = asyncio.create_task(self.until(until or (lambda: not self.depth(worker.queue))))
        working = asyncio.create_task(worker.run(handle_signals=False))
        try:
            await asyncio.wait([looking, working], return_when=asyncio.FIRST_COMPLETED)
        finally:
            looking.cancel()
            worker.stop()
            await working

    async def until(self, holds: Callable[[], bool]) -> None:
        """Let time pass until a condition holds; it is checked whenever the loop is idle."""
        loop = self._loop
        if not isinstance(loop, JumpingLoop):
            while not holds():  # noqa: ASYNC110 - anything may be asked for
                await asyncio.sleep(LOOK_S)
            return
        awaited = loop.create_future()
        look = (holds, awaited)
        loop.looks.append(look)
        try:
            await awaited
        finally:
            loop.looks.remove(look)

    def depth(self, queue: str) -> int:
        """Return the number of a queue's messages, held ones included."""
        name = destination_of(queue).removeprefix("/queue/")
        found = self.broker.host.queues.get(name)
        return 0 if found is None else found.state.index.count

    async def messages(self, queue: str) -> list[Message]:
        """Look at the messages of a queue without taking them."""
        if not self.depth(queue):
            return []
        found: list[Message] = []
        ended = asyncio.Event()

        def read(headers: dict[str, str], body: bytes) -> None:
            if headers.get("browser") == "end":
                ended.set()
            else:
                found.append(Message(headers, body))

        connection = await open_connection(_ADDRESS, dial=self.dial, heartbeat_s=0.0)
        connection.read("look", read)
        wanted = [("id", "look"), ("destination", destination_of(queue)), ("browser", "true")]
        connection.write("SUBSCRIBE", [*wanted, ("include-seq", SEQ_HEADER)])
        await ended.wait()
        await connection.close()
        return found

    async def bodies(self, queue: str) -> list[str]:
        """Look at the texts of a queue."""
        return [message.text for message in await self.messages(queue)]

    def break_connections(self) -> None:
        """End every connection abruptly, like a pulled cable."""
        for pipe in list(self._pipes):
            pipe.break_off()

    # What a connection does.

    async def dial(self, address: Address, protocol: asyncio.Protocol) -> None:
        """Connect a protocol to this broker."""
        engine = StompEngine(self.broker, StompSettings(), now=self._loop.time())
        pipe = Pipe(self, engine, protocol)
        self._pipes.append(pipe)
        protocol.connection_made(pipe)

    def wake(self) -> None:
        """Let the broker work in the next turn of the event loop."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._work)

    def forget(self, pipe: Pipe) -> None:
        """Forget a connection that has ended."""
        if pipe in self._pipes:
            self._pipes.remove(pipe)

    def _work(self) -> None:
        self._is_due = False
        now = self._loop.time()
        due = self.broker.tick(now)
        is_busy = True
        while is_busy:
            is_busy = any([pipe.work(now) for pipe in list(self._pipes)])
            if self.broker.turns.is_any_dirty:
                self.broker.run(now)
                is_busy = True
        deadlines = [pipe.deadline for pipe in self._pipes if pipe.deadline is not None]
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._pipes:
            self._timer = self._loop.call_at(max(now + LOOK_S, min([due, *deadlines])), self.wake)


class Pipe(asyncio.Transport):
    """Carries a connection's bytes to an engine and back."""

    def __init__(
        self, broker: MemoryBroker, engine: StompEngine, protocol: asyncio.Protocol
    ) -> None:
        """Join both ends."""
        super().__init__()
        self.broker = broker
        self.engine = engine
        self.deadline: float | None = None
        self._protocol = protocol
        self._unread: list[bytes] = []
        self._is_awake = False
        self._is_closing = False
        self._loop = asyncio.get_running_loop()
        engine.wake = self._wake

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes for the broker."""
        if not self._is_closing:
            self._unread.append(bytes(data))
            self.broker.wake()

    def is_closing(self) -> bool:
        """Return True if it was closed."""
        return self._is_closing

    def close(self) -> None:
        """Close the pipe; the broker still reads what was written before."""
        if not self._is_closing:
            self.work(self._loop.time())
            self.break_off()

    def abort(self) -> None:
        """End it at once."""
        self.break_off()

    def break_off(self) -> None:
        """Close the pipe as if the network were lost."""
        if self._is_closing:
            return
        self._is_closing = True
        self.engine.lost(self._loop.time())
        self.broker.forget(self)
        self.broker.wake()
        self._loop.call_soon(self._protocol.connection_lost, None)

    def work(self, now: float) -> bool:
        """Do the work of the server around an engine; return False if there was none."""
        engine = self.engine
        was_busy = self._is_awake
        if self._is_awake or (self.deadline is not None and now >= self.deadline):
            self._is_awake = False
            self.deadline = engine.tick(now)
        if self._unread and engine.reading and not engine.is_closed:
            data = b"".join(self._unread)
            self._unread.clear()
            engine.receive(data, now)
            was_busy = True
        out = engine.outgoing()
        if out and not self._is_closing:
            self._loop.call_soon(self._protocol.data_received, out)
        if engine.is_closed and not self._is_closing:
            self._is_closing = True
            self.broker.forget(self)
            self._loop.call_soon(self._protocol.connection_lost, None)
        return was_busy or bool(out)

    def _wake(self) -> None:
        self._is_awake = True
        self.broker.wake()


_ADDRESS: Final = Address("localhost", 61613, "admin", "password")
