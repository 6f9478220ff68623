"""Balance: how much more than its share the heaviest consumer of a queue carries.

A real queue gets one message of each of many groups with random names. Its consumers have unlimited
credit. So the strategy and the dispatch together decide which consumer gets which group. 1.00 is a
fair share. The result is printed as the table of docs/groups.md, and drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import mean
from typing import Final

from scripts.benchmark.plot import curves
from scripts.benchmark.workloads.dispatch import BUDGET, UNLIMITED, Taker, bench_session
from scripts.benchmark.workloads.workloads import strategies

from covey.bench.result import Result
from covey.config.queues import QueueSettings
from covey.core.model.consumer import Window
from covey.core.queue.owner import Unowned
from covey.core.queue.queue import Queue
from covey.core.session import Session
from covey.groups import STRATEGIES, make
from covey.groups.key import GroupKey
from covey.protocols.stomp.message import Block, StompMessage

CONSUMERS: Final = (2, 4, 8, 16, 32, 64)
GROUPS: Final = 10_000
RUNS: Final = 12
UNIT: Final = "times a fair share"


def measure(say: Callable[[str], None], picture: Path | None) -> list[Result]:
    """Measure every strategy; print the table, and draw it if a file is named."""
    session = bench_session()
    names = strategies()
    # A profile is the same strategy with other options: Apollo's number of points on the ring.
    names += [name for entry in STRATEGIES.values() for name in entry.profiles]
    results = [
        _measure(session, strategy, consumers) for strategy in names for consumers in CONSUMERS
    ]
    for line in table(results):
        say(line)
    if picture is not None:
        lines = {
            strategy: [mean(result.values) for result in results if result.contender == strategy]
            for strategy in names
        }
        picture.write_text(curves(lines, CONSUMERS, "consumers", "heaviest / fair share"))
    return results


def table(results: list[Result]) -> list[str]:
    """Write the means, and the worst of all runs, by strategy and number of consumers."""
    lines = [
        "| consumers | " + " | ".join(str(count) for count in CONSUMERS) + " |",
        "|---" * (len(CONSUMERS) + 1) + "|",
    ]
    for strategy in dict.fromkeys(result.contender for result in results):
        cells = [
            f"{mean(result.values):.2f} ({max(result.values):.2f})"
            for result in results
            if result.contender == strategy
        ]
        lines.append(f"| `{strategy}` | " + " | ".join(cells) + " |")
    return lines


def _measure(session: Session, strategy: str, consumers: int) -> Result:
    result = Result(f"balance, {consumers} consumers", strategy, UNIT)
    for run in range(RUNS):
        result.values.append(heaviest(session, strategy, consumers, Random(run)))
    return result


def heaviest(session: Session, strategy: str, consumers: int, chance: Random) -> float:
    """Return the load of the heaviest consumer, as a multiple of the fair share."""
    queue = Queue("bench", QueueSettings(), make(strategy), GroupKey(), Unowned())
    queue.consumer_numbers = chance.getrandbits(32)  # so that the ring differs in each run
    takers = [Taker(session, Window(UNLIMITED)) for _ in range(consumers)]
    for taker in takers:
        queue.join(taker, 0.0)
    block = Block(b"\ndestination:/queue/bench")
    for _ in range(GROUPS):
        message = StompMessage(block, b"x")
        message.group = f"{chance.getrandbits(64):x}"
        queue.enqueue(message)
    while queue.pump(0.0, 0, BUDGET):
        pass
    loads = [len(taker.unsettled) for taker in takers]
    assert sum(loads) == GROUPS, "a message was not delivered"
    return max(loads) * consumers / GROUPS
