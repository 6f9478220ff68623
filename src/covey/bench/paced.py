"""PacedLoad: an open loop. Each message has its time to leave, whatever the broker does meanwhile.

The latency of a message counts from when it should have left until it arrived. So if a broker
pauses, all messages that were due during the pause are late, not only the one that it held. A
closed loop would leave the others out ("coordinated omission").

There are one producer and one consumer on one queue. Messages arrive in order, so a message is
identified by its place. The generator never sleeps, because a sleep is longer than the times that
are measured.
"""

from __future__ import annotations

import select
import time

from covey.bench.load import Load, Outcome
from covey.bench.wire.link import IncompleteError, Job

CHUNK_MAX = 64  # due messages handed to the socket at a time
STALLED_S = 30.0


class PacedLoad(Load):
    """A run of one job at its rate."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.late: list[float] = []  # seconds, for each message

    def run(self) -> Outcome:
        """Send all messages in time, check them, and return the latency of each."""
        producer, consumer = self.producers[0], self.consumers[0]
        for link in (producer, consumer):
            link.socket.setblocking(False)
        poll = select.epoll()
        poll.register(consumer.socket.fileno(), select.EPOLLIN)
        cpu = time.process_time()
        start = heard = time.perf_counter()
        while self.received < self.count:
            now = time.perf_counter()
            self._send_due(now - start)
            if poll.poll(0):
                self._hear(start)
                heard = now
            elif now - heard > STALLED_S:
                raise IncompleteError(f"stalled: of {self.count} messages {self.received} came")
        elapsed = time.perf_counter() - start
        cpu = time.process_time() - cpu
        self._check()
        return Outcome(elapsed, self.received, cpu, self.late)

    def _send_due(self, passed: float) -> None:
        """Send the messages that are due; those that the socket does not take count as late."""
        producer = self.producers[0]
        if producer.unsent:
            producer.flush()
            return
        due = min(self.count, int(passed * self.job.rate) + 1, self.sent + CHUNK_MAX)
        if due > self.sent:
            producer.write(b"".join(self.frames[self.sent : due]))
            self.sent = due

    def _hear(self, start: float) -> None:
        first = self.received
        try:
            frames = self.consumers[0].read()
        except BlockingIOError:
            return
        self._note(0, self.consumers[0], frames)
        passed = time.perf_counter() - start
        interval = 1 / self.job.rate
        self.late += [passed - number * interval for number in range(first, self.received)]
