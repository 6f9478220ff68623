"""Producer: sends messages and waits for the broker's receipts.

`send` returns when the receipt has come: then a persistent message is on disk. When a connection
breaks, all messages without a receipt are sent again over the next one, in the same order and with
the same ids. Several sends may run at the same time. Their messages go in the order of the calls.

    async with Producer("covey://admin:password@localhost") as producer:
        await producer.send("orders", {"item": 3}, group="order-17")
        await producer.send_many("orders", ["pay", "ship"], group="order-17")
        async with producer.transaction() as transaction:
            transaction.send("orders", "close", group="order-17")
            transaction.send("invoices", "print")
        answer = await producer.request("prices", "IBM?")
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Final, Self

from covey.protocols.stomp.frame import encode
from covey.worker.connection import VERSION, Connection, OnReceipt, answering
from covey.worker.errors import ConnectionLostError, RefusedError, WorkerError
from covey.worker.link import WAIT_FIRST_S, Link
from covey.worker.message import Message
from covey.worker.outgoing import Body, Outgoing, trace_headers

PENDING_MAX: Final = 10_000  # sends without a receipt; the next one waits
GIVE_UP_S: Final = 30.0  # for the first connection
REPLIES: Final = "/temp-queue/replies"
REPLIES_ID: Final = "replies"
REPLY_S: Final = 30.0


class Pending:
    """Frames that were sent and have no receipt yet."""

    __slots__ = ("answer", "frames", "receipts")

    def __init__(self, frames: bytes, receipts: list[str], answer: asyncio.Future[None]) -> None:
        self.frames = frames
        self.receipts = receipts  # when the last one comes, all is done
        self.answer = answer


class Transaction:
    """Messages that are taken all together or not at all."""

    def __init__(self) -> None:
        self.messages: list[Outgoing] = []

    def send(
        self,
        destination: str,
        body: Body,
        *,
        group: str | None = None,
        headers: Mapping[str, str] | None = None,
        id: str | None = None,
        persistent: bool = True,
    ) -> None:
        """Add a message; it is sent at the end of the `async with`."""
        self.messages.append(_outgoing(destination, body, group, headers, id, persistent))


class Producer:
    """A connection that sends; use it with `async with`."""

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        pending_max: int = PENDING_MAX,
        give_up_s: float | None = GIVE_UP_S,
    ) -> None:
        """Take the URLs of one or several brokers; this does not connect yet."""
        self.link = Link(url)
        self.give_up_s = give_up_s
        self._room = asyncio.Semaphore(pending_max)
        self._pending: dict[int, Pending] = {}
        self._last = 0
        self._connection: Connection | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._questions: dict[str, asyncio.Future[Message]] = {}
        self._is_asking = False  # a temporary queue for replies is needed

    async def __aenter__(self) -> Self:
        self._connection = await self.link.open(give_up_s=self.give_up_s)
        self._keeper = asyncio.create_task(self._keep_connected())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect; a send that still waits for its receipt raises ConnectionLostError."""
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper
            self._keeper = None
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
        self._fail_all(ConnectionLostError("the producer was closed"))

    async def send(
        self,
        destination: str,
        body: Body,
        *,
        group: str | None = None,
        headers: Mapping[str, str] | None = None,
        id: str | None = None,
        persistent: bool = True,
        ttl: float | None = None,
        delay: float | None = None,
    ) -> str:
        """Send a message; returns its id when the broker has it."""
        message = _outgoing(destination, body, group, headers, id, persistent, ttl, delay)
        await (await self._put([message]))
        return message.id

    async def send_many(
        self,
        destination: str,
        bodies: Iterable[Body],
        *,
        group: str | None = None,
        headers: Mapping[str, str] | None = None,
        persistent: bool = True,
    ) -> list[str]:
        """Send messages in order, without a wait between them; returns their ids.

        If one is refused, the others are sent nevertheless. Use a transaction for all or nothing.
        """
        ids, answers = [], []
        for body in bodies:
            message = _outgoing(destination, body, group, headers, None, persistent)
            ids.append(message.id)
            answers.append(await self._put([message]))
        results = await asyncio.gather(*answers, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return ids

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Gather messages; they are sent at the end, all or none. An exception sends none."""
        transaction = Transaction()
        yield transaction
        if transaction.messages:
            await (await self._put(transaction.messages, is_atomic=True))

    async def request(
        self,
        destination: str,
        body: Body,
        *,
        group: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = REPLY_S,
    ) -> Message:
        """Send a request and return its reply; TimeoutError if none comes in time."""
        if not self._is_asking:
            self._is_asking = True
            if self._connection is not None:
                self._listen(self._connection)
        question = Outgoing(
            destination,
            body,
            group,
            trace_headers(headers),
            persistent=False,
            ttl=timeout_s,
            reply_to=REPLIES,
        )
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._questions[question.id] = reply
        try:
            async with asyncio.timeout(timeout_s):
                await (await self._put([question]))
                return await reply
        finally:
            del self._questions[question.id]

    # Frames that wait for their receipts.

    async def _put(
        self, messages: list[Outgoing], *, is_atomic: bool = False
    ) -> asyncio.Future[None]:
        """Write messages when there is room; the future is done when the broker has them."""
        if self._keeper is None:
            raise WorkerError("the producer is not open: use it with `async with`")
        await self._room.acquire()
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._last += 1
        number = self._last
        try:
            frames, receipts = _written(number, messages, is_atomic)
        except BaseException:
            self._room.release()
            raise
        pending = Pending(frames, receipts, answer)
        self._pending[number] = pending
        answer.add_done_callback(lambda _: self._done(number))
        connection = self._connection
        if connection is not None and connection.is_open:
            self._write(connection, pending)
            await connection.room()
        return answer

    def _write(self, connection: Connection, pending: Pending) -> None:
        for receipt in pending.receipts[:-1]:
            connection.expect(receipt, _only_refused(pending.answer))
        connection.expect(pending.receipts[-1], _kept_when_lost(pending.answer))
        connection.write_raw(pending.frames)

    def _done(self, number: int) -> None:
        del self._pending[number]
        self._room.release()

    async def _keep_connected(self) -> None:
        """Connect again whenever the connection ends, and send again what has no receipt."""
        while True:
            assert self._connection is not None
            await asyncio.shield(self._connection.ended)
            await asyncio.sleep(WAIT_FIRST_S)  # no busy loop if the broker refuses each time
            try:
                connection = await self.link.open()
            except WorkerError as error:
                self._fail_all(error)
                return
            self._connection = connection
            if self._is_asking:
                self._listen(connection)
            for pending in list(self._pending.values()):
                self._write(connection, pending)

    def _fail_all(self, error: WorkerError) -> None:
        for pending in list(self._pending.values()):
            answering(pending.answer)(error)

    # Replies.

    def _listen(self, connection: Connection) -> None:
        connection.read(REPLIES_ID, self._answered)
        receipt = connection.on_receipt(self._listening)
        connection.write("SUBSCRIBE", [("id", REPLIES_ID), ("destination", REPLIES), receipt])

    def _listening(self, error: WorkerError | None) -> None:
        """Fail all requests if the broker has refused the temporary queue: no reply can come."""
        if isinstance(error, RefusedError):
            self._is_asking = False
            for reply in self._questions.values():
                if not reply.done():
                    reply.set_exception(error)

    def _answered(self, headers: dict[str, str], body: bytes) -> None:
        message = Message(headers, body)
        reply = self._questions.get(headers.get("correlation-id", ""))
        if reply is not None and not reply.done():
            reply.set_result(message)


def _outgoing(
    destination: str,
    body: Body,
    group: str | None,
    headers: Mapping[str, str] | None,
    id: str | None,
    persistent: bool,
    ttl: float | None = None,
    delay: float | None = None,
) -> Outgoing:
    given = trace_headers(headers)
    if id is None:
        return Outgoing(
            destination, body, group, given, persistent=persistent, ttl=ttl, delay=delay
        )
    return Outgoing(destination, body, group, given, id, persistent, ttl, delay)


def _written(number: int, messages: list[Outgoing], is_atomic: bool) -> tuple[bytes, list[str]]:
    """Encode a message or a transaction; each frame that may be refused asks for a receipt."""
    name = f"p{number}"
    if not is_atomic:
        return messages[0].frame(("receipt", name)), [name]
    within = ("transaction", name)
    receipts = [f"{name}/{place}" for place, _ in enumerate(messages)]
    frames = [encode("BEGIN", [within], b"", VERSION)]
    frames += [
        message.frame(within, ("receipt", receipt))
        for message, receipt in zip(messages, receipts, strict=True)
    ]
    frames.append(encode("COMMIT", [within, ("receipt", name)], b"", VERSION))
    return b"".join(frames), [*receipts, name]


def _kept_when_lost(answer: asyncio.Future[None]) -> OnReceipt:
    """Return a callback that sets the answer on a receipt or a refusal, not on a lost link."""
    told = answering(answer)

    def answered(error: WorkerError | None) -> None:
        if not isinstance(error, ConnectionLostError):
            told(error)

    return answered


def _only_refused(answer: asyncio.Future[None]) -> OnReceipt:
    """Return a callback that sets the answer on a refusal only."""
    told = _kept_when_lost(answer)

    def answered(error: WorkerError | None) -> None:
        if error is not None:
            told(error)

    return answered
