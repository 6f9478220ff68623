"""Load: the generator. One process, one thread, all connections; it must never be the limit.

Everything it sends is encoded beforehand (`wire`, `amqp`). What it reads is only counted. It keeps
at most `window` messages in flight, so that queues stay short and the figure is a flow, not a
burst. The bytes that arrived are kept and checked after the clock has stopped.

Producers and consumers are in one process on purpose. A message is noted before its ACK leaves. So
messages are noted in the order of delivery, even across consumers, and a group that moves from one
consumer to another can be checked. `sink` shows what this costs.

    python -m covey.bench.load < job.json > result.json
"""

from __future__ import annotations

import json
import resource
import select
import signal
import sys
import time
from dataclasses import asdict, dataclass
from types import FrameType

from covey.bench.wire import stomp_wire as wire
from covey.bench.wire.amqp import AmqpLink
from covey.bench.wire.link import IncompleteError, Job, Link
from covey.bench.wire.stomp import StompLink

CHUNK = 64  # messages handed to the socket at a time
FILES_BESIDE = 64  # open files that are not connections
STALLED_S = 30.0  # nothing arrived for this long: the run has failed
UNDER_WAY = 1000  # messages after which an endless load says that it runs
UNDER_WAY_LINE = "under way\n"
NO_ANSWER = 3  # the exit code of who waited for the broker in vain

PROTOCOLS: dict[str, type[StompLink] | type[AmqpLink]] = {"stomp": StompLink, "amqp": AmqpLink}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run."""

    elapsed_s: float
    deliveries: int
    cpu_s: float
    round_trips_s: list[float]


class Load:
    """A run of one job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.consumers: list[Link] = [PROTOCOLS[job.receiver](job) for _ in range(job.consumers)]
        for consumer in self.consumers:
            consumer.subscribe(job)
        self.producers: list[Link] = [PROTOCOLS[job.sender](job) for _ in range(job.producers)]
        self.frames = self.producers[0].sends(job)
        self.turn = 0  # which producer sends next
        self.fan = job.consumers if job.is_fan_out else 1
        self.count = sys.maxsize if job.is_endless else job.count
        # Fewer messages are not worth a system call, if the window allows more.
        self.chunk_min = min(CHUNK, job.window // 4)
        self.sent = 0
        self.confirmed = 0
        self.received = 0
        self.arrived: list[tuple[int, bytes]] = []

    def run(self) -> Outcome:
        """Send and receive all messages, check them, and return the outcome."""
        cpu = time.process_time()
        start = time.perf_counter()
        round_trips: list[float] = []
        if self.job.is_ping_pong:
            round_trips = self._ping_pong()
        else:
            self._move()
        elapsed = time.perf_counter() - start
        cpu = time.process_time() - cpu
        if not self.job.is_endless:
            self._check()
        return Outcome(elapsed, self.received, cpu, round_trips)

    def stop(self) -> None:
        """End an endless run."""
        self.count = 0

    def _ping_pong(self) -> list[float]:
        """Send each message when the one before it has arrived."""
        (consumer,) = self.consumers
        times = []
        for frame in self.frames:
            start = time.perf_counter()
            self.producers[0].socket.sendall(frame)
            frames = b""
            while not frames:
                frames = consumer.read()
            times.append(time.perf_counter() - start)
            self._note(0, consumer, frames)
        return times

    def _move(self) -> None:
        links = [*self.producers, *self.consumers]
        poll = select.epoll()
        numbers = {link.socket.fileno(): place for place, link in enumerate(links)}
        for link in links:
            link.socket.setblocking(False)
            poll.register(link.socket.fileno(), select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        while not self._is_done():
            self._send_on()
            events = poll.poll(STALLED_S)
            if not events and not self._is_done():
                raise IncompleteError(
                    f"stalled: of {self.count} messages {self.received // self.fan} came,"
                    f" {self.confirmed} were confirmed"
                )
            for number, _ in events:
                self._serve(numbers[number], links[numbers[number]])

    def _is_done(self) -> bool:
        if self.received < self.count * self.fan:
            return False
        return not self.job.is_confirmed or self.confirmed >= self.count

    def _send_on(self) -> None:
        """Keep the window full; a socket that is full is left alone until it is writable."""
        full = 0
        while self.sent < self.count and full < len(self.producers):
            self.turn = (self.turn + 1) % len(self.producers)
            producer = self.producers[self.turn]
            if producer.unsent:
                full += 1
                continue
            done = self.confirmed if self.job.is_confirmed else self.received // self.fan
            free = min(self.job.window - (self.sent - done), self.count - self.sent)
            allowed = min(CHUNK, free, producer.room - self.sent)
            if allowed <= 0 or free < min(self.chunk_min, self.count - self.sent):
                return
            start = self.sent % len(self.frames)
            frames = self.frames[start : start + allowed]
            producer.write(b"".join(frames))
            self.sent += len(frames)

    def _serve(self, place: int, link: Link) -> None:
        if link.unsent:
            link.flush()
        try:
            while True:
                frames = link.read()
                if place < len(self.producers):
                    self.confirmed += link.confirmations(frames)
                else:
                    self._note(place - len(self.producers), link, frames)
        except BlockingIOError:
            return

    def _note(self, place: int, link: Link, frames: bytes) -> None:
        before = self.received
        self.received += link.deliveries(frames)
        answer = link.answer(frames)
        if answer:
            link.write(answer)
        if not self.job.is_endless:
            self.arrived.append((place, frames))
        elif before < UNDER_WAY <= self.received:
            sys.stdout.write(UNDER_WAY_LINE)
            sys.stdout.flush()

    def _check(self) -> None:
        job = self.job
        if job.is_fan_out:
            for place in range(job.consumers):
                own = [frames for number, frames in self.arrived if number == place]
                wire.check(own, job.count, job.groups)
            return
        is_ordered = job.consumers == job.producers == 1 or (job.groups > 0 and job.keeps_groups)
        arrived = [frames for _, frames in self.arrived]
        wire.check(arrived, job.count, job.groups, is_ordered=is_ordered)


def _make(job: Job) -> Load:
    """Return the load that does the job; a job with a rate is an open loop."""
    if not job.rate:
        return Load(job)
    from covey.bench.paced import PacedLoad

    return PacedLoad(job)


def _allow_files(count: int) -> None:
    """Raise the limit of open files to `count`, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


def main() -> int:
    """Do the job on standard input, write its outcome to standard output."""
    job = Job(**json.load(sys.stdin))
    _allow_files(job.producers + job.consumers + FILES_BESIDE)
    try:
        load = _make(job)

        def stop(_number: int, _frame: FrameType | None) -> None:
            load.stop()

        if job.is_endless:
            signal.signal(signal.SIGTERM, stop)
        outcome = load.run()
    except TimeoutError:
        sys.stderr.write("the broker does not answer\n")
        return NO_ANSWER
    except (IncompleteError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    json.dump(asdict(outcome), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
