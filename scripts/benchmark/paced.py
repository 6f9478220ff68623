"""PacedLoad: an open loop. Each message has its time to leave, whatever the broker does meanwhile.

The time of a message is from when it should have left to when it arrived. A broker that stands
still for a while so makes all messages late that were due in that while, not the one that it held
alone: latencies of a closed loop leave those out ("coordinated omission").

One producer and one consumer on one queue: what arrives is in order, so that the place of a message
says which it is. The generator never sleeps, for a sleep would be longer than what is measured.
"""

from __future__ import annotations

import select
import time

from scripts.benchmark.load import Load, Outcome
from scripts.benchmark.wire.link import IncompleteError, Job

CHUNK_MAX = 64  # messages that are due handed to the socket at a time
STALLED_S = 30.0


class PacedLoad(Load):
    """A run of one job at its rate."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.late: list[float] = []  # seconds, message by message

    def run(self) -> Outcome:
        """Send everything in time, check it, and say how late each message came."""
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
        """Send what is due by now; what the socket does not take is late, and counts as late."""
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
