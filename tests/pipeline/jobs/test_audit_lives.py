"""Whatever a queue may do, and whatever is done to it, its log audits clean: random lives.

The lives are those that the referee judges (`tests.properties`). They have every event that the
core can record: groups that are spilt, drained, parked with their dead message, taken from a
consumer that is too slow, moved by a rebalance or by a command, claimed by one consumer, and
messages taken out by number. Here they are written to a log, a queue for each life, and audited as
a data team would do it: all at once, and day by day.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from covey.core.events.event import KIND_NAMES, EventKind, QueueEvents
from covey.core.model.message import Message
from covey.pipeline.jobs.audit import JOB
from covey.pipeline.jobs.audit_rules import STICKY
from tests.pipeline.support import log_in, run_job
from tests.properties.driver import STRATEGIES, Driver

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

LIVES = int(os.environ.get("COVEY_LIVES", "30"))  # of each strategy
EVENTS = 300
DAYS = 4

# No single queue has these: they are about a whole broker, or about a restart.
OF_A_BROKER = {
    EventKind.START,
    EventKind.RECOVER,
    EventKind.DELETE,
    EventKind.PAUSE,
    EventKind.RESUME,
}


class Told(NamedTuple):
    """One event of a queue."""

    queue: str
    kind: int
    group: str
    consumer: int
    seq: int
    is_kept: bool = False


class Both(QueueEvents):
    """Tells the referee of an event, and keeps it."""

    def __init__(self, driver: Driver, name: str) -> None:
        self.referee = driver.referee
        self.name = name
        self.told: list[Told] = []

    def record(self, kind: int, group: str, consumer: int, seq: int) -> None:
        self.referee.record(kind, group, consumer, seq)
        self.told.append(Told(self.name, kind, group, consumer, seq))

    def arrive(
        self, kind: int, group: str, seq: int, size: int, persistent: bool, message: Message | None
    ) -> None:
        self.referee.arrive(kind, group, seq, size, persistent, message)
        self.told.append(Told(self.name, kind, group, 0, seq, persistent))


class LoggedDriver(Driver):
    """A life that is written down; its policy is, too, as a broker does it."""

    def __init__(self, seed: int, strategy: str) -> None:
        super().__init__(seed, strategy)
        if seed % 2:  # where a consumer asks for more, owners are not judged
            self.has_priorities = self.has_claims = self.has_selectors = False
        self.both = Both(self, f"{strategy}.{seed}")
        self.queue.state.report_to(self.both)
        self._tell_policy()

    def on_change_strategy(self) -> None:
        if self.random.random() < 0.2:  # rarely, or hardly any life would be judged for owners
            super().on_change_strategy()
            self._tell_policy()

    def _tell_policy(self) -> None:
        self.both.record(EventKind.POLICY, self.queue.state.strategy.name, 0, 0)


def life(strategy: str, seed: int, events: int = EVENTS) -> list[Told]:
    """Play a life; return its events."""
    driver = LoggedDriver(seed, strategy)
    driver.play(events)
    return driver.both.told


def write_lives(directory: Path) -> None:
    """Write lives that go on side by side, in files that all of them reach into."""
    lives = [life(strategy, seed) for strategy in STRATEGIES for seed in range(LIVES)]
    told = [event for event in chain.from_iterable(zip_longest(*lives)) if event is not None]
    kinds = Counter(event.kind for event in told)
    missing = {KIND_NAMES[kind] for kind in set(EventKind) - OF_A_BROKER if not kinds[kind]}
    assert missing == set(), "nothing is said about what did not happen"
    assert set(STICKY) <= {event.queue.partition(".")[0] for event in told}
    log = log_in(directory)
    log.start()
    for number, (queue, kind, group, consumer, seq, is_kept) in enumerate(told, 1):
        if kind == EventKind.ENQUEUE:
            log.arrive(kind, queue, group, seq, persistent=is_kept)
        else:
            log.record(kind, queue, group, consumer, seq)
        if number % (len(told) // DAYS) == 0:
            log.close()
    log.close()


def found_in(out: Path) -> list[tuple[object, ...]]:
    rows = pq.read_table(out / "violations").to_pylist()
    return [tuple(row[name] for name in row if name != "evidence") for row in rows]


def test_every_life_audits_clean_at_once_and_day_by_day(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_lives(tmp_path / "all")
    code, said = run_job(spark, JOB, input=str(tmp_path / "all"), out=tmp_path / "out")
    assert (code, found_in(tmp_path / "out")[:5]) == (0, []), said
    files = sorted((tmp_path / "all").rglob("*.parquet"))
    assert len(files) >= DAYS
    (tmp_path / "log").mkdir()
    for file in files:
        file.rename(tmp_path / "log" / file.name)
        options = {"input": str(tmp_path / "log"), "state": str(tmp_path / "state")}
        code, said = run_job(spark, JOB, **options, out=tmp_path / "out")
        assert (code, found_in(tmp_path / "out")[:5]) == (0, []), said
