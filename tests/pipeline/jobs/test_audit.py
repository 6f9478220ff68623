"""audit finds every injected violation and nothing else, and says when the log has holes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from covey.config.settings import Settings
from covey.core.broker.broker import Broker
from covey.core.events.event import EventKind
from covey.core.events.event_log import EventLog
from covey.core.model.consumer import Consumer, Window
from covey.core.model.entry import Entry, Outcome
from covey.core.queue.queue import Queue
from covey.core.selector import compile_selector
from covey.groups import STRATEGIES
from covey.pipeline.event_log.partition import pieces_of, runs_of
from covey.pipeline.event_log.reader import read_log
from covey.pipeline.jobs.audit import JOB, find_violations
from tests.doubles import NOBODY, Letter
from tests.pipeline.support import log_in, run_job, tell

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

# Group: its story, and what must be found.
LABELLED = {
    "fine": ("in 1, out 1 to 7, in 9, out 9 to 7, ack 1 by 7, ack 9 by 7", ""),
    "moved": ("in 2, out 2 to 7, ack 2 by 7, in 10, out 10 to 8, ack 10 by 8", ""),
    "two": ("in 3, in 11, out 3 to 7, out 11 to 8, ack 3 by 7, ack 11 by 8", "two-holders 11"),
    "turned": ("in 4, in 12, out 12 to 7, out 4 to 7, ack 12 by 7, ack 4 by 7", "order 4"),
    "gone": ("in 5, in 13, out 13 to 7, ack 13 by 7", "lost 5"),
    "twice": ("in 6, out 6 to 7, ack 6 by 7, out 6 to 7, ack 6 by 7", "duplicate 6"),
    "shared": ("in 14, out 14 to 7, out 14 to 8, ack 14 by 8", "duplicate 14"),
    "ghost": ("in 15, out 15 to 8, out 99 to 8, ack 15 by 8, ack 99 by 8", "phantom 99"),
    "zombie": (
        "in 16, out 16 to 9, leave 9, release 16 by 9, out 16 to 8, ack 16 by 9, ack 16 by 8",
        "zombie 16",
    ),
    "stepped over": ("aside 20, in 20, in 21, out 21 to 7, ack 21 by 7", ""),
    "left": ("in 17, join 10, out 17 to 10, leave 10", "lost 17"),
    "": ("in 18, in 19, out 19 to 7, out 18 to 8, ack 18 by 8, ack 19 by 7", ""),
}


def write_labelled(directory: Path, queues: int = 2) -> set[tuple[str, str, str]]:
    """Write every story in several queues, interleaved; give the (queue, group, found) expected."""
    log = log_in(directory)
    stories = [
        (f"q{number}", group, step)
        for number in range(queues)
        for group, (story, _) in LABELLED.items()
        for step in story.split(",")
    ]
    # Steps of one group keep their order, groups are mixed: as a busy broker would have it.
    order = Random(7)
    keys = {key: sorted(order.sample(range(10_000), 20)) for key in {one[:2] for one in stories}}
    timed = [(keys[queue, group].pop(0), queue, group, step) for queue, group, step in stories]
    for _, queue, group, step in sorted(timed):
        tell(log, queue, group, step)
    log.close()
    return {
        (f"q{number}", group, found)
        for number in range(queues)
        for group, (_, found) in LABELLED.items()
        if found
    }


def test_each_labelled_violation_is_found_with_its_evidence_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    expected = write_labelled(tmp_path / "log")
    code, said = run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path / "out")
    rows = pq.read_table(tmp_path / "out/violations").to_pylist()
    found = [(row["queue"], row["group_id"], f"{row['violation']} {row['seq']}") for row in rows]
    assert sorted(found) == sorted(expected)
    assert code == 1
    assert "BROKEN: 4 duplicate, 4 lost, 2 order, 2 phantom, 2 two-holders, 2 zombie" in said
    page = (tmp_path / "out/audit.html").read_text()
    assert page.count("two-holders: queue q") == 2
    assert "consumer 7 still held 1 of its group" in page
    assert '<td>lost</td><td class="number">4</td>' in page
    assert '<td>gap</td><td class="number">0</td>' in page
    assert "<svg" in page


class Hand(Consumer):
    """A consumer that settles some of what it holds when it is told to."""

    def __init__(self) -> None:
        super().__init__(NOBODY, Window(0, is_automatic=True))
        self.unsettled_max = 3

    def deliver(self, entry: Entry) -> None:
        pass


def churn(log: EventLog, strategy: str, seed: int) -> None:
    """Run a real broker whose consumers come and go in the middle of their work."""
    settings = Settings.model_validate(
        {"queue": [{"groups": {"strategy": strategy, "header": "team", "cache_size": 8}}]}
    )
    broker = Broker(settings)
    broker.listen(log)
    random = Random(f"{strategy} {seed}")
    queue = broker.hosts[0].queue(f"work.{strategy}")
    hands: list[Hand] = []
    red = compile_selector("colour = 'red'")
    for step in range(1500):
        chance = random.random()
        if chance < 0.5:
            team = random.choice("abcdefghijklmnop") if random.random() < 0.9 else None
            queue.enqueue(Letter(team=team, colour=random.choice(("red", "blue"))))
        elif chance < 0.55 and len(hands) < 5:
            hands.append(Hand())
            hands[-1].selector = red if random.random() < 0.4 else None
            queue.join(hands[-1], float(step))
        elif chance < 0.59 and hands:
            queue.leave(hands.pop(random.randrange(len(hands))), float(step))
        else:
            _settle_one(queue, hands, random, float(step))
        broker.run(float(step))
        if step == 1000:  # it goes away in the middle of its work, and another of its name comes
            broker.hosts[0].delete_queue(queue.name, "for a test")
            queue = broker.hosts[0].queue(queue.name)
            hands.clear()


def _settle_one(queue: Queue, hands: list[Hand], random: Random, now: float) -> None:
    held = [entry for hand in hands for entry in hand.unsettled.values()]
    if held:
        outcome = Outcome.ACCEPTED if random.random() < 0.7 else random.choice(tuple(Outcome))
        queue.settle(random.choice(held), outcome, now)


def test_a_real_broker_under_churn_audits_clean_whatever_the_strategy(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = log_in(tmp_path / "log")
    for strategy in STRATEGIES:
        churn(log.log, strategy, 1)
    log.close()
    pieces = pieces_of(str(tmp_path / "log"))
    runs = runs_of(pieces)
    assert runs[0].events > 5000
    kinds = read_log(spark, str(tmp_path / "log")).groupBy("kind").count().collect()
    counts = {row.kind: row["count"] for row in kinds}
    assert counts[EventKind.DELETE] == len(STRATEGIES)
    assert counts[EventKind.ASIDE] > 20
    find_violations(spark, pieces, runs, tmp_path)
    assert pq.read_table(sorted(tmp_path.glob("share-*.parquet"))).num_rows == 0


def test_queues_of_one_name_on_two_hosts_are_judged_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    hosts = [{"id": "a", "host_names": ["a"]}, {"id": "b", "host_names": ["b"]}]
    broker = Broker(Settings.model_validate({"virtual_host": hosts}))
    log = log_in(tmp_path / "log")
    broker.listen(log.log)
    for number in range(6):  # taken together they would share a group, and number messages twice
        for host in broker.hosts:
            queue = host.queue("work")
            if number == 0:
                queue.join(Hand(), 0.0)
            queue.enqueue(Letter(message_group=f"g{number % 2}"))
        broker.run(float(number))
    log.close()
    code, said = run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path / "out")
    assert (code, "every promise was kept" in said) == (0, True)
    rows = pq.read_table(tmp_path / "log", columns=["queue"]).to_pylist()
    assert {row["queue"] for row in rows} == {"work", "b/work"}
