"""Growth: what each queue, group and subscription costs as their number grows.

On a process of its own for each contender and each kind, decade by decade from 10^3 on: one message
is sent to each new queue, or of each new group, or one subscription is made to each of so many
queues. A figure is the time of one of the newest decade; the note is what each has added to the
memory. Time that grows with the number shows as a figure that does. Scale 1 goes to 10^5 queues and
groups and 10^4 subscriptions, 10 times as far with `--scale 10`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from scripts.benchmark.contender import Contender
from scripts.benchmark.process import Process
from scripts.benchmark.result import Result
from scripts.benchmark.runner import US_PER_S
from scripts.benchmark.wire.link import IncompleteError, Job
from scripts.benchmark.wire.stomp import StompLink
from scripts.benchmark.workloads.memory import at_rest, fill

FIRST: Final = 1000
MOST: Final = {"queues": 100_000, "groups": 100_000, "subscriptions": 10_000}
SUBSCRIPTIONS_EACH: Final = 200  # of one connection; brokers allow only so many
SIZE: Final = 128
UNIT: Final = "us each"


def measure(
    contenders: Sequence[Contender], scale: float, say: Callable[[str], None]
) -> list[Result]:
    """Measure each contender, once: a decade is as good as many repetitions."""
    results = []
    for contender in contenders:
        for kind, most in MOST.items():
            process = contender.start()
            try:
                results += _decades(kind, contender, process, int(most * scale), say)
            finally:
                process.stop()
    return results


def _decades(
    kind: str, contender: Contender, process: Process, most: int, say: Callable[[str], None]
) -> list[Result]:
    grower = Grower(kind, contender, process)
    results = []
    have = 0
    until = min(FIRST, most)
    while have < until:
        result = Result(f"growth, {until:,} {kind}", contender.name, UNIT)
        results.append(result)
        try:
            before, start = at_rest(process), time.perf_counter()
            grower.grow(have, until)
            elapsed = time.perf_counter() - start
        except (OSError, IncompleteError) as error:
            result.failure = str(error)[:200]
        else:
            result.values.append(elapsed / (until - have) * US_PER_S)
            result.notes["bytes_each"] = max(0, at_rest(process) - before) / (until - have)
        say(f"{result.case:<40} {result.contender:<16} {result.text()} {result.unit}")
        if result.failure:
            break
        have, until = until, min(10 * until, most)
    grower.close()
    return results


class Grower:
    """Makes more and more of one kind."""

    def __init__(self, kind: str, contender: Contender, process: Process) -> None:
        self.kind = kind
        self.job = Job(
            port=process.port,
            destination="/queue/bench.growth",
            count=0,
            size=SIZE,
            host=contender.host,
            user=contender.user,
            password=contender.password,
        )
        self.links: list[StompLink] = []

    def grow(self, first: int, until: int) -> None:
        """Make those from `first` on, and wait until the broker has them."""
        if self.kind == "subscriptions":
            for start in range(first, until, SUBSCRIPTIONS_EACH):
                self._subscribe(range(start, min(until, start + SUBSCRIPTIONS_EACH)))
            return
        if not self.links:
            self.links.append(StompLink(self.job))
        frames = [self._frame(number) for number in range(first, until)]
        fill(self.links[0], frames)

    def _frame(self, number: int) -> bytes:
        named = b".%d" % number if self.kind == "queues" else b""
        group = b"\nJMSXGroupID:g%d" % number if self.kind == "groups" else b""
        head = b"SEND\ndestination:/queue/bench.growth" + named + group
        return head + b"\n\n" + b"x" * SIZE + b"\0"

    def _subscribe(self, numbers: range) -> None:
        link = StompLink(self.job)
        self.links.append(link)
        frames = [
            b"SUBSCRIBE\nid:%d\ndestination:/queue/bench.growth.%d\n\n\0" % (number, number)
            for number in numbers
        ]
        last = frames[-1].replace(b"SUBSCRIBE\n", b"SUBSCRIBE\nreceipt:last\n", 1)
        link.socket.sendall(b"".join(frames[:-1]))
        link.ask(last, b"RECEIPT")

    def close(self) -> None:
        """Let go of the broker."""
        for link in self.links:
            link.socket.close()
