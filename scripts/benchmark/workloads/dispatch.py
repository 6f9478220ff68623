"""Dispatch: what one message costs the core while a backlog waits.

A queue holds a backlog in many groups. Each of these groups is blocked: its owner has no credit
left. Meanwhile the messages of one other group come, are delivered and acknowledged, one by one. If
the cost depended on the backlog or on the number of blocked groups, it would show here. Each
backlog is measured in a process of its own, which also measures the memory of a waiting message and
of a waiting group. The longest backlog comes as from a restart: without bodies, and packed.

    python -m scripts.benchmark.workloads.dispatch BACKLOG GROUPS
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from scripts.benchmark.contender import ROOT

from covey.bench.result import Result
from covey.config.queues import QueueSettings
from covey.config.settings import Settings
from covey.core.broker.broker import Broker
from covey.core.model.consumer import Consumer, Window
from covey.core.model.entry import Entry, Outcome
from covey.core.publishing.arrivals import restore
from covey.core.queue.owner import Unowned
from covey.core.queue.queue import Queue
from covey.core.security.users import Identity
from covey.core.session import Session
from covey.core.storage.store import MessageRecord
from covey.groups import make
from covey.groups.key import GroupKey
from covey.protocols.stomp.message import Block, StompMessage

BACKLOGS: Final = (100, 1_000, 10_000, 100_000, 1_000_000)
RESTORED: Final = 10_000_000
GROUPS_MAX: Final = 100_000
ENTRIES_MAX: Final = 50_000  # what `memory_entries_queue` is by default
PORTION: Final = 1000
MESSAGES_PER_GROUP: Final = 10
STEPS: Final = 2_000
SERIES: Final = 7
BUDGET: Final = 1000
UNLIMITED: Final = 2**31
US_PER_S: Final = 1e6


@dataclass(frozen=True, slots=True)
class Finding:
    """What one process found."""

    steps_us: list[float]
    size: int  # bytes of memory the backlog took


class Taker(Consumer):
    """Takes every delivery and remembers the last."""

    last: Entry | None = None

    def deliver(self, entry: Entry) -> None:
        """Remember the delivery."""
        self.last = entry


def measure(say: Callable[[str], None]) -> list[Result]:
    """Measure every backlog."""
    results = []
    for backlog in BACKLOGS:
        groups = backlog // MESSAGES_PER_GROUP
        found = _child(backlog, groups)
        result = Result(f"dispatch, backlog {backlog:,}", "covey", "us/message", found.steps_us)
        if backlog == BACKLOGS[-1]:
            alone = _child(backlog, 1)
            per_group = (found.size - alone.size) / groups
            result.notes["bytes_per_message"] = alone.size / backlog
            result.notes["bytes_per_group"] = per_group
        results.append(result)
        say(f"{result.case:<32} {result.contender:<16} {result.text()} {result.unit}")
    notes = results[-1].notes
    found = _child(RESTORED, GROUPS_MAX)
    result = Result(f"dispatch, backlog {RESTORED:,}", "covey", "us/message", found.steps_us)
    result.notes["bytes_per_message"] = found.size / RESTORED
    results.append(result)
    say(
        f"{result.case:<32} {result.contender:<16} {result.text()} {result.unit},"
        f" {result.notes['bytes_per_message']:.0f} bytes a packed message, with its groups"
    )
    say(
        f"in memory: {notes['bytes_per_message']:.0f} bytes a waiting message of 16 bytes,"
        f" {notes['bytes_per_group']:.0f} bytes a group"
    )
    return results


def _child(backlog: int, groups: int) -> Finding:
    path = f"{ROOT / 'src'}:{ROOT}"
    done = subprocess.run(
        [sys.executable, "-m", "scripts.benchmark.workloads.dispatch", str(backlog), str(groups)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        check=True,
    )
    return Finding(**json.loads(done.stdout))


def run(backlog: int, groups: int) -> Finding:
    """Fill a queue, block it, and time the one live group."""
    queue = Queue("bench", QueueSettings(), make("simple"), GroupKey(), Unowned())
    session = bench_session()
    before = _resident()
    block = Block(b"\ndestination:/queue/bench")
    if backlog < RESTORED:
        for number in range(backlog):
            queue.enqueue(_message(block, f"g{number % groups}"))
    else:
        _restore(queue, backlog, groups, block)
    used = _resident() - before
    queue.join(Taker(session, Window(groups)), 0.0)
    while queue.pump(0.0, 0, BUDGET):
        pass
    taker = Taker(session, Window(UNLIMITED))
    queue.join(taker, 0.0)
    gc.freeze()
    steps = [_series(queue, taker, block) for _ in range(SERIES)]
    return Finding(steps, used)


def _restore(queue: Queue, backlog: int, groups: int, block: Block) -> None:
    """Bring a backlog back, then the bodies that a consumer would get first."""
    names = [f"g{number}" for number in range(groups)]
    for first in range(1, backlog + 1, PORTION):
        records = [
            MessageRecord(1, seq, names[seq % groups], 0, 16, 4, 0, 0)
            for seq in range(first, first + PORTION)
        ]
        restore(queue, records, ENTRIES_MAX)
    while queue.dispatch.backlog.sweep(queue.storage_state.out, ENTRIES_MAX):
        pass
    for lane in list(queue.state.lanes.values()):
        assert lane.head is not None
        lane.head.message = _message(block, lane.name)
        queue.placement.resolve(lane)


def _series(queue: Queue, taker: Taker, block: Block) -> float:
    messages = [_message(block, "live") for _ in range(STEPS)]
    start = time.process_time()
    for message in messages:
        queue.enqueue(message)
        queue.pump(0.0, 0, BUDGET)
        assert taker.last is not None
        queue.settle(taker.last, Outcome.ACCEPTED, 0.0)
        taker.last = None
    return (time.process_time() - start) / STEPS * US_PER_S


def _message(block: Block, group: str) -> StompMessage:
    message = StompMessage(block, b"%016d" % 0)
    message.group = group
    return message


def bench_session() -> Session:
    """Open a session on a new broker, as the owner of consumers."""
    broker = Broker(Settings())
    return broker.open(broker.host_named(None), Identity("bench", ()), 0.0)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    json.dump(asdict(run(int(sys.argv[1]), int(sys.argv[2]))), sys.stdout)
