"""Worker: ordered work in ten lines.

    worker = Worker("covey://admin:password@localhost", queue="orders", concurrency=32)

    @worker.handler
    async def handle(message: Message) -> None:
        ...

    asyncio.run(worker.run())        # or: covey worker run shop:worker

Messages of different groups run at the same time, messages of one group one after the other. A
message is acknowledged when the handler returns. An exception is a failed try: the message comes
again, and its group waits for it.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar, overload

from covey.worker.backoff import Backoff
from covey.worker.cache import GroupCache, Load
from covey.worker.errors import RefusedError, Reject, Retry, WorkerError
from covey.worker.link import WAIT_FIRST_S, Link
from covey.worker.message import GROUP_HEADERS, Message
from covey.worker.schedule import Troubles
from covey.worker.subscription import Subscription
from covey.worker.telemetry import Log, Observer, Tracer, lag_of

Handler = TypeVar("Handler", bound=Callable[..., Any])
Hook = TypeVar("Hook", bound=Callable[[str], Any])
Value = TypeVar("Value")

STOP_S: Final = 30.0
REFUSED_MAX: Final = 1000  # messages whose follow-ups were refused
CONCURRENCY_MAX: Final = 10_000
BATCH_MAX: Final = 10_000
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Worker:
    """Reads one queue and calls a handler for each message."""

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        queue: str,
        concurrency: int = 16,
        batch: int = 1,
        time_limit_s: float | None = None,
        backoff: Backoff | None = None,
        selector: str = "",
        group_header: str = "",
        weight: int = 1,
        stop_s: float = STOP_S,
        client_id: str = "",
    ) -> None:
        """Take the URLs of one or several brokers, and a queue.

        With a `batch` over 1 the handler gets lists of messages of one group. `time_limit_s` ends a
        handler that takes longer; that is a failed try. `group_header` is the queue's own
        `groups.header`. `weight` is how many shares of the groups this worker gets. `stop_s` is how
        long a stop waits for handlers.
        """
        _check("concurrency", concurrency, CONCURRENCY_MAX)
        _check("batch", batch, BATCH_MAX)
        if time_limit_s is not None and time_limit_s <= 0:
            raise ValueError(f"time_limit_s={time_limit_s}: no handler is that quick")
        self.link = Link(url, client_id=client_id)
        self.queue = queue
        self.concurrency = concurrency
        self.batch = batch
        self.time_limit_s = time_limit_s
        self.backoff = backoff or Backoff()
        self.selector = selector
        self.group_headers: Sequence[str] = (group_header,) if group_header else GROUP_HEADERS
        self.weight = weight
        self.stop_s = stop_s
        self.observers: list[Observer] = []
        self.troubles = Troubles()
        self._handler: Callable[..., Any] | None = None
        self._is_async = False
        self._caches: list[GroupCache[Any]] = []
        self._gained: list[Callable[[str], Any]] = []
        self._lost: list[Callable[[str], Any]] = []
        self._refused: OrderedDict[str, str] = OrderedDict()
        self._stopped: asyncio.Event | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._log: Log | None = None
        self._tracer: Tracer | None = None
        self._background: asyncio.Task[None] | None = None

    # What a program says before it runs.

    def handler(self, function: Handler) -> Handler:
        """Call this function for each message or batch; one that is not async runs in a thread."""
        if self._handler is not None:
            raise ValueError("a worker has one handler, and this one has it already")
        if self.time_limit_s is not None and not inspect.iscoroutinefunction(function):
            raise ValueError("a time limit needs an async handler: a thread cannot be ended")
        self._handler = function
        self._is_async = inspect.iscoroutinefunction(function)
        return function

    @overload
    def group_cache(self, load: Callable[[str], Awaitable[Value]]) -> GroupCache[Value]: ...

    @overload
    def group_cache(self, load: Callable[[str], Value]) -> GroupCache[Value]: ...

    def group_cache(self, load: Load[Any]) -> GroupCache[Any]:
        """Keep a value for each group while it is at this worker; see `covey.worker.cache`."""
        cache: GroupCache[Any] = GroupCache(load)
        self._caches.append(cache)
        return cache

    def on_group_gained(self, hook: Hook) -> Hook:
        """Call this before the first message of a group that has come to this worker."""
        self._gained.append(hook)
        return hook

    def on_group_lost(self, hook: Hook) -> Hook:
        """Call this when a group that has messages here goes to another consumer."""
        self._lost.append(hook)
        return hook

    def observe(self, observer: Observer) -> None:
        """Tell an observer what happens."""
        self.observers.append(observer)

    # Running.

    async def run(self, *, handle_signals: bool = True) -> None:
        """Work until `stop`, SIGTERM or SIGINT; raises errors that another try would get again."""
        if self._handler is None:
            raise ValueError("the worker has no handler: decorate a function with @worker.handler")
        if self._stopped is not None:
            raise WorkerError("the worker runs already")
        self._stopped = asyncio.Event()
        self._log = Log()
        self._tracer = Tracer()
        self._threads = ThreadPoolExecutor(self.concurrency, thread_name_prefix="covey-worker")
        signals = self._catch_signals() if handle_signals else ()
        try:
            while not self._stopped.is_set():
                await self._work(self._stopped)
        finally:
            for number in signals:
                asyncio.get_running_loop().remove_signal_handler(number)
            self._threads.shutdown(wait=False)
            self._stopped = None

    def stop(self) -> None:
        """Finish running jobs, give the rest back and let `run` return."""
        if self._stopped is not None:
            self._stopped.set()

    async def __aenter__(self) -> Self:
        self._background = asyncio.create_task(self.run(handle_signals=False))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._background is not None
        await asyncio.sleep(0)  # the task may not have begun
        self.stop()
        await self._background

    async def _work(self, stopped: asyncio.Event) -> None:
        """Connect and work until the connection ends, or the worker is stopped."""
        stopping = asyncio.ensure_future(stopped.wait())
        opening = asyncio.ensure_future(self._opened())
        try:
            first: list[asyncio.Future[Any]] = [opening, stopping]
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if not opening.done():
                return
            subscription = await opening
            if subscription is None:
                return
            ended = subscription.connection.ended
            over: list[asyncio.Future[Any]] = [ended, stopping]
            try:
                await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await self._ended(subscription)
        finally:
            stopping.cancel()
            opening.cancel()  # no effect if it has ended
            await asyncio.wait([opening])

    async def _opened(self) -> Subscription | None:
        connection = await self.link.open(told=self._unreached)
        subscription = Subscription(self, connection)
        try:
            await subscription.open()
        except RefusedError as error:
            connection.abort()
            if error.is_lasting:
                raise
            return None
        except WorkerError:
            return None
        except BaseException:
            connection.abort()
            raise
        assert self._log is not None
        self._log.info("worker_connected", broker=str(connection.address), queue=self.queue)
        for observer in self.observers:
            observer.connected(str(connection.address))
        return subscription

    async def _ended(self, subscription: Subscription) -> None:
        """End a subscription: in order after a stop; if the connection is lost, cancel its jobs."""
        connection = subscription.connection
        if connection.is_open:
            await subscription.stop(self.stop_s)
            await connection.close()
        else:
            reason = str(connection.ended.result())
            assert self._log is not None
            self._log.warning("worker_disconnected", reason=reason, queue=self.queue)
            for observer in self.observers:
                observer.disconnected(reason)
            await subscription.abandon()
            await asyncio.sleep(WAIT_FIRST_S)
        for cache in self._caches:
            cache.clear()

    def _unreached(self, address: object, error: WorkerError, wait_s: float) -> None:
        assert self._log is not None
        self._log.warning("broker_unreached", broker=str(address), cause=str(error))

    def _catch_signals(self) -> Sequence[signal.Signals]:
        if threading.current_thread() is not threading.main_thread():
            return ()
        caught = []
        for number in SIGNALS:
            with suppress(NotImplementedError):  # Windows has no such loop
                asyncio.get_running_loop().add_signal_handler(number, self.stop)
                caught.append(number)
        return caught

    # What a subscription asks for.

    async def handle(self, messages: list[Message]) -> None:
        """Call the group's hooks, then the handler, within its time limit and in a span."""
        first = messages[0]
        if first.id in self._refused:
            raise Reject(f"a follow-up was refused: {self._refused[first.id]}")
        for message in messages:
            if message.is_first_for_consumer and message.group is not None:
                self.drop(message.group)
                await _call_all(self._gained, message.group)
            for observer in self.observers:
                observer.started(message, lag_of(message))
        given = messages if self.batch > 1 else first
        assert self._tracer is not None
        if self._tracer.is_on:
            with self._tracer.span(first):
                result = await self._called_in_time(given)
        else:
            result = await self._called_in_time(given)
        if result is not None and len(messages) == 1 and first.reply_to:
            first.reply(result)

    async def _called_in_time(self, given: Message | list[Message]) -> Any:
        if self.time_limit_s is None:
            return await self._called(given)
        async with asyncio.timeout(self.time_limit_s):
            return await self._called(given)

    async def _called(self, given: Message | list[Message]) -> Any:
        handler = self._handler
        assert handler is not None
        if self._is_async:
            return await handler(given)
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._threads, handler, given)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])  # a thread cannot be cancelled, so its group waits
            raise

    async def group_left(self, group: str) -> None:
        """Forget a group that goes to another consumer."""
        self.drop(group)
        try:
            await _call_all(self._lost, group)
        except Exception as error:
            assert self._log is not None
            self._log.warning("hook_failed", group=group, error=f"{type(error).__name__}: {error}")

    def note_failure(self, messages: list[Message], error: Exception, duration_s: float) -> None:
        """Report that a handler raised, and drop what it may have cached of the group."""
        for message in messages:
            if message.group is not None:
                self.drop(message.group)
            for observer in self.observers:
                observer.failed(message, error, duration_s)
        first = messages[0]
        assert self._log is not None
        tell = self._log.info if isinstance(error, Retry) else self._log.warning
        tell(
            "handler_failed",
            message=first.id,
            group=first.group,
            messages=len(messages),
            error=f"{type(error).__name__}: {error}",
        )

    def note_refused(self, message: Message, reason: str) -> None:
        """Remember that the broker refuses a message's follow-ups: the message will be rejected."""
        self._refused[message.id] = reason
        if len(self._refused) > REFUSED_MAX:
            self._refused.popitem(last=False)

    def drop(self, group: str) -> None:
        """Drop the cached values of a group."""
        for cache in self._caches:
            cache.drop(group)


async def _call_all(hooks: Sequence[Callable[[str], Any | Awaitable[Any]]], group: str) -> None:
    for hook in hooks:
        result = hook(group)
        if inspect.isawaitable(result):
            await result


def _check(name: str, number: int, most: int) -> None:
    if not 1 <= number <= most:
        raise ValueError(f"{name}={number} is not between 1 and {most}")
