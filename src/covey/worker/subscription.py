"""Subscription: one connection's messages, from MESSAGE to ACK.

Each message goes to the schedule. Each job of the schedule becomes a task that calls the handler.
When the handler returns, the job's messages are acknowledged, together with the follow-ups that it
sent. When the handler raises, the job waits for its back-off and is refused. The schedule says
which messages must go back with it.

A subscription ends with its connection. Handlers that still run then are cancelled, because the
broker will deliver their messages again. The next subscription begins when they have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Final

from covey.protocols.stomp.frame import encode
from covey.worker.connection import VERSION, Connection, OnReceipt
from covey.worker.errors import RefusedError, Reject, Retry, WorkerError
from covey.worker.message import SEQ_HEADER, Message
from covey.worker.outgoing import destination_of
from covey.worker.schedule import Job, Lane, Schedule
from covey.worker.window import Window

if TYPE_CHECKING:
    from covey.worker.worker import Worker

SUBSCRIPTION: Final = "w"
RELEASE: Final = ("covey-release", "true")
TO_DEAD_LETTERS: Final = ("requeue", "false")


class Subscription:
    """What a worker reads over one connection."""

    def __init__(self, worker: Worker, connection: Connection) -> None:
        """Begin with no messages."""
        self.worker = worker
        self.connection = connection
        self.schedule = Schedule(worker.concurrency, worker.batch, worker.troubles)
        self.window = Window(worker.concurrency, worker.batch)
        self.is_stopping = False
        self._held: dict[str, Message] = {}  # by the delivery's `ack` id
        self._tasks: set[asyncio.Task[None]] = set()
        self._waits: dict[asyncio.TimerHandle, Job] = {}
        self._transactions = 0
        self._is_due = False  # `_go_on` is scheduled

    async def open(self) -> None:
        """Subscribe; RefusedError if the broker does not let us."""
        worker = self.worker
        headers = [
            ("id", SUBSCRIPTION),
            ("destination", destination_of(worker.queue)),
            ("ack", "client-individual"),
            ("credit", f"{self.window.first},0,false"),
            ("include-seq", SEQ_HEADER),
            ("covey-group-revoked", "true"),
        ]
        headers += [("selector", worker.selector)] if worker.selector else []
        headers += [("covey-weight", str(worker.weight))] if worker.weight != 1 else []
        self.connection.read(SUBSCRIPTION, self._received)
        await self.connection.ask("SUBSCRIBE", headers)

    async def stop(self, timeout_s: float) -> None:
        """Finish running jobs, refuse failed ones; the rest goes back when the connection ends."""
        self.is_stopping = True
        for timer, job in list(self._waits.items()):
            timer.cancel()
            self._refuse(timer, job)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        await self.abandon()

    async def abandon(self) -> None:
        """Cancel the running jobs, and return when they have ended."""
        self.is_stopping = True
        for timer in self._waits:
            timer.cancel()
        self._waits.clear()
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    # Messages that come.

    def _received(self, headers: dict[str, str], body: bytes) -> None:
        revoked = headers.get("covey-group-revoked")
        if revoked is not None:
            self._revoked(revoked)
            return
        worker = self.worker
        message = Message(headers, body, worker.group_headers)
        self._held[message.ack_id] = message
        self.window.received(len(body))
        for observer in worker.observers:
            observer.received(message)
        lane = self.schedule.add(message)
        if lane is not None:
            self._release(lane, [message])
        if not self._is_due:  # once after all messages of one read, so that batches fill
            self._is_due = True
            self.connection.loop.call_soon(self._go_on)

    def _revoked(self, group: str) -> None:
        """Let a group go: release its waiting messages, and finish those that run."""
        for lane, messages in self.schedule.revoke(None, group):
            self._release(lane, messages)
        self._start(self.worker.group_left(group))

    def _go_on(self) -> None:
        """Start jobs that may run; give more credit if no acknowledgement will carry it."""
        self._is_due = False
        schedule = self.schedule
        while not self.is_stopping and (job := schedule.next()) is not None:
            self._start(self._run(job))
        if self.window.open <= 0 and self._held and not self.is_stopping:
            more = self.window.grant(schedule.missing)
            if more:
                self._extend(more)

    def _extend(self, credit: int) -> None:
        """Give credit without an acknowledgement.

        STOMP has no frame for that. So an ACK in a transaction carries the credit, which counts at
        once. Then the transaction is aborted, and the message stays unacknowledged.
        """
        within = self._next_transaction()
        named = next(iter(self._held))
        self.connection.write("BEGIN", [within])
        self.connection.write("ACK", [("id", named), within, ("credit", str(credit))])
        self.connection.write("ABORT", [within])

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Jobs.

    async def _run(self, job: Job) -> None:
        """Call the handler and settle its messages."""
        messages = job.messages
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            await self.worker.handle(messages)
        except Exception as error:
            self._failed(job, error, loop.time() - begun)
        else:
            duration_s = loop.time() - begun
            for observer in self.worker.observers:
                for message in messages:
                    observer.handled(message, duration_s)
            self._accept(job)
        self._go_on()

    def _accept(self, job: Job) -> None:
        self.worker.troubles.clear(job.lane.key, job.messages[-1].sequence)
        behind = self.schedule.finish(job)
        self._let_go(job)
        outbox = [(message, out) for message in job.messages for out in message.outbox]
        if outbox:
            within = self._next_transaction()
            parts = [encode("BEGIN", [within], b"", VERSION)]
            for message, out in outbox:
                receipt = self.connection.on_receipt(self._refusing(message))
                parts.append(out.frame(within, receipt))
            self.connection.write_raw(b"".join(parts))
            self._settle("ACK", job.messages, [within])
            self.connection.write("COMMIT", [within])
        else:
            self._settle("ACK", job.messages)
        if behind:
            self._release(job.lane, behind)

    def _refusing(self, message: Message) -> OnReceipt:
        """Return a callback that notes that the broker refuses a follow-up: it always would."""

        def told(error: WorkerError | None) -> None:
            if isinstance(error, RefusedError) and error.is_lasting:
                self.worker.note_refused(message, str(error))

        return told

    def _failed(self, job: Job, error: Exception, duration_s: float) -> None:
        worker = self.worker
        for message in job.messages:
            message.outbox.clear()
        worker.note_failure(job.messages, error, duration_s)
        if isinstance(error, Reject) and len(job.messages) == 1:
            behind = self.schedule.finish(job)
            self._let_go(job)
            self._settle("NACK", job.messages, [TO_DEAD_LETTERS])
            if behind:
                self._release(job.lane, behind)
            return
        # A failed batch runs again message by message, so that only the bad one counts as failed.
        last = job.messages[-1].sequence if len(job.messages) > 1 else 0
        failures = worker.troubles.note(job.lane.key, last)
        wait_s = worker.backoff.wait_s(failures)
        if isinstance(error, Retry) and error.after is not None:
            wait_s = error.after
        self.schedule.suspend(job)
        loop = asyncio.get_running_loop()
        if self.is_stopping or wait_s <= 0:
            self._refuse(None, job)
        else:
            timer: asyncio.TimerHandle = loop.call_later(wait_s, lambda: self._refuse(timer, job))
            self._waits[timer] = job

    def _refuse(self, timer: asyncio.TimerHandle | None, job: Job) -> None:
        """Give a failed job back, and after it the messages behind it in its group."""
        if timer is not None:
            self._waits.pop(timer, None)
        self._let_go(job)
        lane = job.lane
        behind = self.schedule.give_back(job)
        is_single = len(job.messages) == 1
        self._settle("NACK", job.messages, () if is_single else [RELEASE])
        self._release(lane, behind)
        self._go_on()

    def _let_go(self, job: Job) -> None:
        """Drop cached values of a group that was revoked while the handler ran."""
        lane = job.lane
        if lane.is_revoked and lane.key[1] is not None:
            lane.is_revoked = False
            self.worker.drop(lane.key[1])

    # Frames.

    def _release(self, lane: Lane, messages: list[Message]) -> None:
        """Give back messages that did not run; the broker's receipt ends the lane's barrier."""
        for message in messages:
            for observer in self.worker.observers:
                observer.given_back(message)
        self._settle("NACK", messages, [RELEASE])

        def confirmed(error: WorkerError | None) -> None:
            if error is None:
                self.schedule.confirmed(lane)
                self._go_on()

        # An empty transaction: its receipt comes when the broker has handled all frames before it.
        within = self._next_transaction()
        self.connection.write("BEGIN", [within])
        self.connection.write("ABORT", [within, self.connection.on_receipt(confirmed)])

    def _settle(
        self, command: str, messages: Sequence[Message], extra: Sequence[tuple[str, str]] = ()
    ) -> None:
        if not messages:
            return
        for message in messages:
            del self._held[message.ack_id]
            self.window.settled(len(message.body))
        more = 0 if self.is_stopping else self.window.grant(self.schedule.missing)
        for message in messages[:-1]:
            self.connection.write(command, [("id", message.ack_id), *extra])
        credit = [("credit", str(more))] if more else []
        self.connection.write(command, [("id", messages[-1].ack_id), *extra, *credit])

    def _next_transaction(self) -> tuple[str, str]:
        self._transactions += 1
        return "transaction", f"w{self._transactions}"
