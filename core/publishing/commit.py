# Compiled by mypyc: see setup.py.
"""Commit: the job that carries out a long transaction in portions, while others are served.

    admit      check that the session may send there; a refusal undoes the whole transaction
    weigh      count what each queue needs; make the queues
    wait       until there is room in all of them, in line with everybody else who waits
    put        the messages, in order, then the settlements: from here on nothing stops the job
    join       all its changes go to the disk in one batch; wait for the disk
    show       what was written becomes visible
    after      what the protocol itself has to do

- Nothing is changed before all of the transaction was accepted. From then on the room that it needs
  is reserved (`Queue.promised`). If the session ends before that, the transaction is undone. If it
  ends later, the job goes on.
- On disk there is all of it or nothing (`core.storage.batch`). Messages that are not stored become
  visible as they are put.
- A queue that is deleted meanwhile loses the messages that it got. Later ones go to a new queue of
  its name, as any other message would. A durable subscription that is gone gets nothing.
- Other sessions act between two portions. Their messages may stand between those of the
  transaction, which keep their own order.

A short transaction needs none of this: it is done at once (`Transactions.commit`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from covey.core.errors import RefusedError
from covey.core.jobs.job import WAIT, Job, Steps
from covey.core.naming.destination import Kind
from covey.core.publishing.publishing import Publishing
from covey.core.publishing.waiting_work import Needs, Send, Work
from covey.core.queue.queue import Queue

if TYPE_CHECKING:
    from covey.core.publishing.transactions import Transaction
    from covey.core.session import Session
    from covey.core.storage.batch import BatchPart

GIVEN_UP: Final = "it was not taken in time"


class Commit(Job):
    """The commit of one transaction."""

    def __init__(
        self,
        session: Session,
        name: str,
        transaction: Transaction,
        publishing: Publishing,
        stop: Callable[[Job], None],
        after: Steps | None = None,
    ) -> None:
        """Begin with nothing checked; `stop` ends a job, `after` are steps that are done last."""
        count = len(transaction.sends)
        # Each message is admitted, weighed and put.
        total = 3 * count + len(transaction.settlements)
        super().__init__("commit", f"transaction {name}", session, total)
        self.owner = session
        self.name = name
        self.transaction = transaction
        self.outlives_session = False  # until all of it was accepted
        self.is_taken = False
        self.is_done = False
        self.flaw: RefusedError | None = None  # why nothing of it was done
        self._publishing = publishing
        self._commits = publishing.commits
        self._stop = stop
        self._after = after
        self._needs = Needs()
        self._sends: list[Send] = []
        self._part: BatchPart | None = None
        self._promised: dict[Queue, None] = {}  # queues with a quota, where room is reserved
        self._before: dict[Queue, tuple[int, int]] = {}  # what queues held before a portion
        self._size_before = 0
        self._is_within = False  # a portion is running that changes something
        self._has_joined = False

    def steps(self) -> Steps:
        """Check all of it, then do all of it."""
        try:
            for send in self.transaction.sends:
                self._sends.append(self._publishing.admit(self.owner, send))
                yield 1
            for send in self._sends:
                self._publishing.weigh(self.owner, send, self._needs)
                while self._needs.held is not None:
                    yield WAIT
                    self._needs.held = None
                    self._publishing.weigh(self.owner, send, self._needs)
                yield 1
            sends = self.transaction.sends
            work = Work(self.owner, sends, None, self._give_up, self._take, needs=self._needs)
            self._publishing.publish_all(work)
        except RefusedError as error:
            self.flaw = error
            return
        while not self.is_taken:
            yield WAIT
        self._begin_portion()
        for send in self._sends:
            while self._publishing.held_topic(self.owner, send) is not None:
                yield WAIT
            self._put(send)
            yield len(send[0])
        for settlement in self.transaction.settlements:
            now = self.owner.host.now
            settlement.source.settle(settlement.entry, settlement.outcome, now, settlement.reason)
            yield 1
        self._join()
        part = self._part
        while part is not None and not part.is_safe:
            yield WAIT
        if part is not None:
            pager = self._commits.pager
            for queue, entry in part.batch.entries:
                queue.committed(entry)
                if pager is not None:
                    pager.arrived(queue, entry)
                yield 1
        if self._after is not None:
            yield from self._after
        self.is_done = True

    def advance(self, items: int, stopwatch: Callable[[], float] | None, deadline: float) -> bool:
        """Do a portion; its changes for the disk are gathered in the part."""
        if self.is_taken:
            self._begin_portion()
        try:
            return super().advance(items, stopwatch, deadline)
        finally:
            self._end_portion()

    def ended(self) -> None:
        """Free the reserved room; a part that was begun joins a batch in any case."""
        self._join()
        for queue in self._promised:
            queue.promised -= self._needs.counts[queue]
            queue.promised_size -= self._needs.sizes[queue]
            if queue.is_awaited:
                queue.owner.freed(queue)
        if self.is_done or self.flaw is not None:
            self.owner.transactions.pop(self.name, None)

    # Room.

    def _take(self) -> None:
        """Called when there is room in all queues: reserve it for the transaction."""
        for queue, count in self._needs.counts.items():
            if queue.has_quota:
                self._promised[queue] = None
                queue.promised += count
                queue.promised_size += self._needs.sizes[queue]
        self.is_taken = self.outlives_session = True
        self.is_resting = False
        if self._commits.is_durable:
            self._part = self._commits.open_part()

    def _give_up(self) -> None:
        """Called when the work is refused after it had to wait: end the job with a flaw."""
        self.flaw = RefusedError(GIVEN_UP, "full")
        self._stop(self)

    def _begin_portion(self) -> None:
        """Release the reserved room to this portion, and gather its changes in the part."""
        if self._is_within or self._has_joined:
            return
        self._is_within = True
        for queue in self._promised:
            queue.promised -= self._needs.counts[queue]
            queue.promised_size -= self._needs.sizes[queue]
            self._before[queue] = _content(queue)
        if self._part is not None:
            self._size_before = self._part.batch.size
            self._commits.enter(self._part)

    def _end_portion(self) -> None:
        """Reserve again what is left of the room that the transaction needs."""
        if not self._is_within:
            return
        self._is_within = False
        if self._part is not None:
            self._commits.leave(self._size_before)
        needs = self._needs
        for queue, (count, size) in self._before.items():
            new_count, new_size = _content(queue)
            needs.counts[queue] = max(0, needs.counts[queue] - max(0, new_count - count))
            needs.sizes[queue] = max(0, needs.sizes[queue] - max(0, new_size - size))
            queue.promised += needs.counts[queue]
            queue.promised_size += needs.sizes[queue]

    def _join(self) -> None:
        """Add all changes to this turn's batch, which goes to the disk."""
        self._end_portion()
        if not self._has_joined and self._part is not None:
            self._commits.join(self._part)
        self._has_joined = True

    # Messages.

    def _put(self, send: Send) -> None:
        """Put a message; it was accepted before, so a refusal now does not count."""
        targets, message = send
        for target in targets:
            try:
                self._publishing.put(self.owner, ((target,), message))
            except RefusedError:
                queue = self.owner.host.queues.get(target.name)
                if queue is not None and target.kind is Kind.QUEUE:
                    self._publishing.arrivals.put_anyhow(queue, message)


def _content(queue: Queue) -> tuple[int, int]:
    """Return how much a queue holds: messages and bytes, delayed messages included."""
    delayed = queue.timers.delayed
    return queue.state.index.count + delayed.count, queue.size + delayed.size
