"""Growth: what each queue, group and subscription costs as their number grows.

Each contender and each kind gets a fresh process. Their number grows by powers of ten, from 10^3
on: one message is sent to each new queue, or one message of each new group, or one subscription is
made to each queue. A figure is the time for one item of the newest power of ten. Its note is the
memory that each has added. If the figure rises, the time depends on the number. Scale 1 goes to
10^5 queues and groups and 10^4 subscriptions, `--scale 10` to 10 times as many.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from scripts.benchmark.contender import Contender
from scripts.benchmark.process import Process
from scripts.benchmark.runner import US_PER_S
from scripts.benchmark.workloads.memory import at_rest, fill

from covey.bench.result import Result
from covey.bench.wire.link import IncompleteError, Job
from covey.bench.wire.stomp import StompLink

FIRST: Final = 1000
MOST: Final = {"queues": 100_000, "groups": 100_000, "subscriptions": 10_000}
SUBSCRIPTIONS_EACH: Final = 200  # of one connection, since brokers limit their number
SIZE: Final = 128
UNIT: Final = "us each"


def measure(
    contenders: Sequence[Contender], scale: float, say: Callable[[str], None]
) -> list[Result]:
    """Measure each contender once: a power of ten is as good as many repetitions."""
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
        """Make the items from `first` to `until`, and wait until the broker has them."""
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
        """Close the connections."""
        for link in self.links:
            link.socket.close()
