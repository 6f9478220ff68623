# Compiled by mypyc: see setup.py.
"""LongWork: the job that publishes very much in portions, while others are served.

That is a COMMIT of very many operations, or a message to a topic that fills very many queues.

    admit      check that the session may send there
    weigh      count what each queue needs; make the queues
    wait       until there is room in all of them, in line with everybody else who waits
    put        the messages, in order, then the settlements: from here on nothing stops the job
    join       all its changes go to the disk in one batch; wait for the disk
    show       what was written becomes visible
    after      what the protocol itself has to do

- Nothing is changed before all of the work was accepted. From then on the room that it needs is
  reserved (`Queue.promised`). If the session ends before that, a commit is undone, and so is what
  has to wait for room. If it ends later, the job goes on.
- On disk there is all of it or nothing (`core.storage.batch`). Messages that are not stored become
  visible as they are put.
- A topic is held while a message goes to its very many queues, so each of these gets all messages
  in one order. The job holds one topic at a time, and waits for nothing meanwhile. Who began to
  listen before the topic is free again gets the message, too, as it has it from then on.
- A queue that is deleted meanwhile loses the messages that it got. Later ones go to a new queue of
  its name, as any other message would. A durable subscription that is gone gets nothing.
- Other sessions act between two portions. Their messages may stand between those of the work, which
  keep their own order.

Short work needs none of this: it is done at once (`Publishing.publish_all`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from covey.core.errors import RefusedError
from covey.core.jobs.job import WAIT, Job, Steps
from covey.core.model.message import RETAIN
from covey.core.naming.destination import Kind
from covey.core.publishing.waiting_work import Needs, Send, Work

if TYPE_CHECKING:
    from covey.core.host.feed import Binding
    from covey.core.host.topic import Topic
    from covey.core.model.message import Message
    from covey.core.naming.destination import Destination
    from covey.core.publishing.publishing import Publishing
    from covey.core.publishing.transactions import Settlement
    from covey.core.queue.queue import Queue
    from covey.core.storage.batch import BatchPart

COMMIT: Final = "commit"  # the verb of a transaction's work
GIVEN_UP: Final = "it was not taken in time"
FILLED_AT_ONCE: Final = 16  # queues of a topic that need no portions, and so no hold


class LongWork(Job):
    """Work of many messages, or with many places for one."""

    def __init__(
        self,
        work: Work,
        publishing: Publishing,
        verb: str,
        target: str,
        settlements: Sequence[Settlement] = (),
        after: Steps | None = None,
    ) -> None:
        """Begin with nothing checked; `settlements` follow the messages, `after` comes last."""
        # Each message is admitted, weighed and put.
        super().__init__(verb, target, work.session, 3 * len(work.sends) + len(settlements))
        self.owner = work.session
        self.work = work
        # What was sent is sent, even if its sender goes, unless it has to wait for room. What is to
        # be committed is undone until all of it was accepted.
        self.outlives_session = verb != COMMIT
        self.is_taken = False
        self.is_done = False
        self.flaw: RefusedError | None = None  # why nothing of it was done
        self._publishing = publishing
        self._commits = publishing.commits
        self._settlements = settlements
        self._after = after
        self._needs = Needs()
        self._sends: list[Send] = []
        self._part: BatchPart | None = None
        self._promised: dict[Queue, None] = {}  # queues with a quota, where room is reserved
        self._held: Topic | None = None
        self._met = 0  # what the held topic had met
        self._size_before = 0
        self._is_within = False  # a portion is running that changes something
        self._has_joined = False

    def steps(self) -> Steps:
        """Check all of it, then do all of it."""
        publishing = self._publishing
        try:
            for send in self.work.sends:
                self._sends.append(publishing.admit(self.owner, send))
                yield 1
            for send in self._sends:
                yield from self._weighing(send)
            self._needs.forget_ended()
            given = (self.owner, self.work.sends, None, self._give_up, self._take)
            publishing.publish_all(Work(*given, is_ours=self.work.is_ours, needs=self._needs))
        except RefusedError as error:
            self.flaw = error
            return
        if not self.is_taken and self.owner.is_gone:
            publishing.waiting_work.forget(self.owner)
            return
        while not self.is_taken:
            self.outlives_session = False
            yield WAIT
        self._begin_portion()
        for send in self._sends:
            yield from self._putting(send)
        for settlement in self._settlements:
            now = self.owner.host.now
            settlement.source.settle(settlement.entry, settlement.outcome, now, settlement.reason)
            yield 1
        if self.work.taken is not None:
            self.work.taken()
        self._join()
        yield from self._showing()
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
        """Free what was held or reserved; a part that was begun joins a batch in any case."""
        self._release()
        self._join()
        for queue in self._promised:
            queue.promised -= self._needs.counts[queue]
            queue.promised_size -= self._needs.sizes[queue]
            if queue.is_awaited:
                queue.owner.freed(queue)
        self._promised.clear()

    def _showing(self) -> Steps:
        """Wait for the disk, and let the messages be seen."""
        part = self._part
        if part is None:
            return
        while not part.is_safe:
            yield WAIT
        pager = self._commits.pager
        for queue, entry in part.batch.entries:
            queue.committed(entry)
            if pager is not None:
                pager.arrived(queue, entry)
            yield 1

    # Room.

    def _weighing(self, send: Send) -> Steps:
        """Find the queues of a message, and add what they need."""
        targets, message = send
        needs = self._needs
        if message.persistent:
            needs.is_persistent = True
        maker = self.owner.identity.name
        client = self.owner.client_id
        for target in targets:
            topic = self._topic_of(target, maker)
            while topic is not None and self._has_to_meet(topic):
                yield WAIT
                topic = self._topic_of(target, maker)
            if topic is None:
                self._need(self._queue_of(target), message)
                yield 1
                continue
            bindings = list(topic.bindings)
            self.total += 2 * len(bindings)
            for binding in bindings:
                if binding.admits(message, client):
                    self._need(binding.queue, message)
                yield 1
            yield 1
        if message.retain == RETAIN:
            self._publishing.weigh_retained(self.owner.host, send, needs)

    def _need(self, queue: Queue, message: Message) -> None:
        arrivals = self._publishing.arrivals
        arrivals.check(queue, message)
        count, size = arrivals.needed(queue, message)
        self._needs.add(queue, count, size)

    def _take(self) -> None:
        """Called when there is room in all queues: reserve it for the work."""
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
        self._publishing.jobs.stop(self)

    # The batch.

    def _begin_portion(self) -> None:
        """Gather the changes of this portion in the part."""
        if self._is_within or self._has_joined:
            return
        self._is_within = True
        if self._part is not None:
            self._size_before = self._part.batch.size
            self._commits.enter(self._part)

    def _end_portion(self) -> None:
        """Let the changes of others be gathered in their own batch."""
        if not self._is_within:
            return
        self._is_within = False
        if self._part is not None:
            self._commits.leave(self._size_before)

    def _join(self) -> None:
        """Add all changes to this turn's batch, which goes to the disk."""
        self._end_portion()
        if not self._has_joined and self._part is not None:
            self._commits.join(self._part)
        self._has_joined = True

    # Messages. They were accepted before, so a refusal now does not count.

    def _putting(self, send: Send) -> Steps:
        """Put a message into all its places."""
        targets, message = send
        if len(targets) > 1:
            message.is_copied = True
        for target in targets:
            topic = self._topic_now(target)
            while topic is not None and self._has_to_meet(topic):
                yield WAIT
                topic = self._topic_now(target)
            if topic is not None:
                yield from self._telling(topic, message)
            else:
                self._put(target, message)
            yield 1

    def _telling(self, topic: Topic, message: Message) -> Steps:
        """Put a message into the queues of a topic, and tell its readers."""
        bindings = list(topic.bindings)
        if len(bindings) > 1 or message.retain == RETAIN:
            message.is_copied = True
        if len(bindings) > min(FILLED_AT_ONCE, self._publishing.jobs.portion):
            self._hold(topic)
        for binding in bindings:
            if binding in topic.bindings:
                self._offer(binding, message)
            if self._held is not None:
                yield 1
        if self._held is not None:
            known = set(bindings)
            for binding in [each for each in topic.bindings if each not in known]:
                self._offer(binding, message)
        self._publishing.tell(self.owner, topic, message)
        if self._held is None:
            yield len(bindings)
        self._release()

    def _offer(self, binding: Binding, message: Message) -> None:
        if binding.admits(message, self.owner.client_id):
            self._fill(binding.queue, message)

    def _put(self, target: Destination, message: Message) -> None:
        if target.kind is Kind.TOPIC:
            return  # it was deleted, and there is no place for another: nobody hears it
        try:
            queue = self._queue_of(target)
        except RefusedError:
            return  # it is gone, and cannot be made again
        self._fill(queue, message)

    def _fill(self, queue: Queue, message: Message) -> None:
        """Put a message into a queue, where room may be reserved for it."""
        if queue not in self._promised:
            self._put_accepted(queue, message)
            return
        needs = self._needs
        queue.promised -= needs.counts[queue]
        queue.promised_size -= needs.sizes[queue]
        count, size = _content(queue)
        self._put_accepted(queue, message)
        new_count, new_size = _content(queue)
        needs.counts[queue] = max(0, needs.counts[queue] - max(0, new_count - count))
        needs.sizes[queue] = max(0, needs.sizes[queue] - max(0, new_size - size))
        queue.promised += needs.counts[queue]
        queue.promised_size += needs.sizes[queue]

    def _put_accepted(self, queue: Queue, message: Message) -> None:
        try:
            self._publishing.arrivals.put(queue, message)
        except RefusedError:
            self._publishing.arrivals.put_anyhow(queue, message)

    # Places.

    def _topic_of(self, target: Destination, maker: str = "") -> Topic | None:
        """Return the topic that a target is, or that a mirrored queue fills; None: a queue."""
        host = self.owner.host
        if target.kind is Kind.DSUB:
            return None
        if target.kind is Kind.TOPIC or host.queue(target.name, maker=maker).settings.mirrored:
            return host.topic(target.name, maker)
        return None

    def _topic_now(self, target: Destination) -> Topic | None:
        try:
            return self._topic_of(target)
        except RefusedError:
            return None

    def _queue_of(self, target: Destination) -> Queue:
        host = self.owner.host
        if target.kind is Kind.DSUB:
            return host.durable(target.name).queue
        return host.queue(target.name)

    def _has_to_meet(self, topic: Topic) -> bool:
        """Return True if a topic is held, or has not met its newest listener."""
        return topic.met != self.owner.host.audience.newest

    def _hold(self, topic: Topic) -> None:
        self._held = topic
        self._met = self.owner.host.audience.hold(topic)

    def _release(self) -> None:
        topic, self._held = self._held, None
        if topic is not None:
            self.owner.host.audience.free(topic, self._met)


def _content(queue: Queue) -> tuple[int, int]:
    """Return how much a queue holds: messages and bytes, delayed messages included."""
    delayed = queue.timers.delayed
    return queue.state.index.count + delayed.count, queue.size + delayed.size
