"""audit finds every injected violation and nothing else, and says when the log has holes."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import suppress
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from covey.client.errors import ClientError
from covey.client.place import DEFAULT_PASSWORD, DEFAULT_USER, Place
from covey.config.settings import Settings
from covey.core.broker.broker import Broker
from covey.core.events.event import EventKind
from covey.core.events.event_log import EventLog
from covey.core.model.consumer import Consumer, Window
from covey.core.model.entry import Entry, Outcome
from covey.core.queue.queue import Queue
from covey.core.selector import compile_selector
from covey.groups import STRATEGIES
from covey.pipeline.datasource.client import QueueClient
from covey.pipeline.errors import PipelineError
from covey.pipeline.event_log.histories import Chapter, History
from covey.pipeline.jobs.audit import JOB
from covey.pipeline.jobs.audit_judge import Book, Judge, judge_rows
from tests.doubles import NOBODY, Letter, make_directory
from tests.e2e.support import HOST, TIMEOUT_S, BrokerProcess, running_broker
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
    queue = broker.host.queue(f"work.{strategy}")
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
            broker.host.delete_queue(queue.name, "for a test")
            queue = broker.host.queue(queue.name)
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
    code, _ = run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path / "out")
    found = pq.read_table(tmp_path / "out/violations").to_pylist()
    assert (code, found) == (0, [])
    kinds = pq.read_table(tmp_path / "log", columns=["kind"])["kind"].to_pylist()
    assert len(kinds) > 5000
    assert kinds.count(EventKind.DELETE) == len(STRATEGIES)
    assert kinds.count(EventKind.ASIDE) > 20


def test_queues_of_one_name_on_two_hosts_are_judged_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    hosts = [{"id": "a", "host_names": ["a"]}, {"id": "b", "host_names": ["b"]}]
    directory = make_directory(Settings.model_validate({"virtual_host": hosts}))
    log = log_in(tmp_path / "log")
    for broker in directory.brokers.values():
        broker.listen(log.log)
    for number in range(6):  # taken together they would share a group, and number messages twice
        for broker in directory.brokers.values():
            queue = broker.host.queue("work")
            if number == 0:
                queue.join(Hand(), 0.0)
            queue.enqueue(Letter(message_group=f"g{number % 2}"))
            broker.run(float(number))
    log.close()
    code, said = run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path / "out")
    assert (code, "every promise was kept" in said) == (0, True)
    rows = pq.read_table(tmp_path / "log", columns=["queue"]).to_pylist()
    assert {row["queue"] for row in rows} == {"", "a/work", "b/work"}


# What one run of the broker leaves, and what the next makes of it, by queue; and what is found.
BEFORE = "join 1, in 1 kept, in 2 kept, in 3 kept, in 4, out 1 to 1, ack 1 by 1, out 2 to 1"
OVER = {
    "fine": ("back 2 kept, back 3 kept, join 1, out 2 to 1, ack 2 by 1, out 3 to 1", ""),
    "again": ("back 1 kept, back 2 kept, back 3 kept", "duplicate 1"),
    "gone": ("back 3 kept, join 1, out 3 to 1, ack 3 by 1", "lost 2"),
    "turned": ("back 2 kept, back 3 kept, join 1, out 3 to 1, out 2 to 1", "order 2"),
    "made up": ("back 2 kept, back 3 kept, join 1, out 2 to 1, out 50 to 1", "phantom 50"),
    "numbered": ("back 2 kept, back 3 kept, in 2", "duplicate 2"),
    "empty": ("", "lost 2, lost 3"),
}


def write_two_runs(directory: Path, before: str = "r1", *, more: int = 0) -> None:
    """Write two runs with one store; the first has told `more` than the store knows."""
    log = log_in(directory, "r1")
    log.start()
    for queue in OVER:
        tell(log, queue, "g", BEFORE)
    position = 1 + len(OVER) * len(BEFORE.split(",")) - more
    log.close()
    log = log_in(directory, "r2")
    log.clock.now += 100.0
    log.start(before, position)
    for queue, (story, _) in OVER.items():
        tell(log, queue, "", "back 0 kept")
        if story:
            tell(log, queue, "g", story)
    log.close()


def found_in(out: Path) -> list[str]:
    rows = pq.read_table(out / "violations").to_pylist()
    return sorted(f"{row['queue']}: {row['violation']} {row['seq']}" for row in rows)


EXPECTED = sorted(
    f"{queue}: {one}" for queue, (_, found) in OVER.items() if found for one in found.split(", ")
)


def test_two_runs_with_one_store_are_judged_as_one_history(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_two_runs(tmp_path / "log")
    code, said = run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path / "out")
    assert found_in(tmp_path / "out") == EXPECTED
    assert (code, "of 2 runs: BROKEN: 2 duplicate, 3 lost, 1 order, 1 phantom" in said) == (1, True)


def test_a_host_that_goes_to_another_broker_and_back_is_one_history(
    spark: SparkSession, tmp_path: Path
) -> None:
    one, other = log_in(tmp_path / "log", "r1"), log_in(tmp_path / "log", "r2")
    one.start()
    tell(one, "q", "g", "in 1 kept, in 2 kept, in 3 kept, join 1, out 1 to 1, ack 1 by 1")
    other.clock.now += 10.0
    other.start("r1", 7)
    tell(other, "q", "", "back 0 kept")
    tell(other, "q", "g", "back 2 kept, back 3 kept, in 4 kept, join 1, out 2 to 1, ack 2 by 1")
    one.clock.now += 20.0
    one.start("r2", 8)
    tell(one, "q", "", "back 0 kept")
    tell(one, "q", "g", "back 3 kept, back 4 kept, join 2, out 3 to 2, ack 3 by 2, out 4 to 2")
    one.close()
    other.close()
    code, said = run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path / "out")
    assert (code, "23 events of 2 runs: every promise was kept" in said) == (0, True), said
    third = log_in(tmp_path / "log", "r3")
    third.clock.now += 30.0
    third.start("r1", 14)
    tell(third, "q", "", "back 0 kept")
    tell(third, "q", "g", "back 2 kept, join 1, out 2 to 1")
    third.close()
    run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path / "out")
    assert found_in(tmp_path / "out") == ["q: duplicate 2", "q: lost 4"]


def test_day_by_day_the_same_is_found_and_nothing_is_read_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_two_runs(tmp_path / "all")
    files = sorted((tmp_path / "all").rglob("*.parquet"))
    options = {"input": str(tmp_path / "log"), "out": tmp_path / "out"}
    found = []
    for file in files:
        place = tmp_path / "log" / file.name
        place.parent.mkdir(exist_ok=True)
        file.rename(place)
        run_job(spark, JOB, **options, state=str(tmp_path / "state"))
        found += found_in(tmp_path / "out")
    code, said = run_job(spark, JOB, **options, state=str(tmp_path / "state"))
    assert (code, said) == (0, f"audit: nothing new in {tmp_path / 'log'}\n")
    # What is still missing when the log ends is told with the next files, if it is missing then.
    log = log_in(tmp_path / "log", "r3")
    log.start("r2", 1000)
    log.close()
    run_job(spark, JOB, **options, state=str(tmp_path / "state"), follow=0.1, rounds=1)
    found += found_in(tmp_path / "out")
    assert sorted(found) == EXPECTED
    assert "covey_audit_broken" in (tmp_path / "out/audit.prom").read_text()
    kept = sorted(place.name for place in (tmp_path / "state").iterdir())
    assert [name.rstrip("0123456789") for name in kept] == ["groups-", "queues-", "state.json"]


def test_a_state_goes_on_in_the_middle_of_a_file_where_until_has_cut_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_two_runs(tmp_path / "log")
    options = {"input": str(tmp_path / "log"), "state": str(tmp_path / "state")}
    found = []
    for until in ("1970-01-01T00:16:40.010", "1970-01-01T00:16:40.030", ""):
        run_job(spark, JOB, **options, out=tmp_path / "out", until=until)
        found += found_in(tmp_path / "out")
    code, said = run_job(spark, JOB, **options, out=tmp_path / "out")
    assert (code, said) == (0, f"audit: nothing new in {tmp_path / 'log'}\n")
    log = log_in(tmp_path / "log", "r3")
    log.start("r2", 1000)
    log.close()
    run_job(spark, JOB, **options, out=tmp_path / "out")
    found += found_in(tmp_path / "out")
    assert sorted(found) == EXPECTED


def test_a_run_that_is_not_in_the_log_and_an_older_log_accuse_nobody(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_two_runs(tmp_path / "log", before="other")
    code, _ = run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path / "out")
    found = found_in(tmp_path / "out")
    # Within the second run alone, what it recovered is known.
    assert found == ["made up: phantom 50", "numbered: duplicate 2", "turned: order 2"]
    page = (tmp_path / "out/audit.html").read_text()
    assert "other is not in the log, but another run went on with its store" in page
    old = pq.ParquetFile(next((tmp_path / "log").rglob("*r1-*.parquet"))).read()
    (tmp_path / "old").mkdir()
    pq.write_table(old.select(old.column_names[:8]), tmp_path / "old" / "events-r1.parquet")
    code, _ = run_job(spark, JOB, input=str(tmp_path / "old"), out=tmp_path / "out")
    assert code == 0
    assert "each such run is judged by itself" in (tmp_path / "out/audit.html").read_text()


def test_a_gap_accuses_nobody_and_a_doubled_id_hides_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = log_in(tmp_path / "log")
    for seq in range(1, 41):
        tell(log, "q", f"g{seq % 3}", f"in {seq}, out {seq} to 7, ack {seq} by 7")
        log.flush()
        if seq % 10 == 0:
            log.log.taker.close()
    log.close()
    files = sorted((tmp_path / "log").rglob("*.parquet"))
    table = pq.ParquetFile(files[1]).read()
    eids = table["eid"].to_pylist()
    doubled = table.set_column(1, "eid", pa.array([eid if eid != 40 else 39 for eid in eids]))
    strange = doubled.set_column(3, "kind", pa.array([*doubled["kind"].to_pylist()[:-1], 99], "i1"))
    pq.write_table(strange, files[1])
    files[2].unlink()
    code, said = run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path / "out")
    assert (code, said) == (1, "audit: 90 events of 1 run: BROKEN: 2 gap\n")
    page = (tmp_path / "out/audit.html").read_text()
    assert "1 event ids are there twice" in page
    assert "1 events are of kinds that this Covey does not know (99)" in page
    (tmp_path / "log/events-copy.parquet").write_bytes(files[0].read_bytes())
    with pytest.raises(PipelineError, match="events of run r1 twice; is a file copied"):
        run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path / "out")


def test_one_long_group_is_judged_piece_by_piece(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_in(tmp_path / "log")
    for seq in range(1, 20_000):
        skipped = seq == 15_000
        tell(
            log, "q", "hot", f"in {seq}" if skipped else f"in {seq}, out {seq} to 7, ack {seq} by 7"
        )
    log.close()
    small = Judge(
        Book(
            [
                History(
                    0, "", "", (Chapter("r1", 1 << 40, 9, True, False, False, False, -1, ""),), ()
                )
            ]
        )
    )
    monkeypatch.setattr("covey.pipeline.jobs.audit_judge.PIECE_ROWS", 1000)
    rows = pq.ParquetFile(next((tmp_path / "log").rglob("*.parquet"))).read()
    count = rows.num_rows
    table = pa.table(
        {
            "slot": pa.array([1] * count, pa.int64()),
            "history": pa.array([0] * count, pa.int32()),
            "name": rows["queue"],
            "group_id": rows["group_id"],
            "part": pa.array([0] * count, pa.int32()),
            "pos": pa.array([eid + (1 << 40) for eid in rows["eid"].to_pylist()], pa.int64()),
            "kind": rows["kind"].cast(pa.int32()),
            "consumer": rows["consumer"],
            "seq": rows["seq"],
            "persistent": rows["persistent"],
            "state": pa.nulls(count, pa.string()),
        }
    )
    assert small.rest is None
    found = pa.Table.from_batches(list(judge_rows(table.to_batches(700), small.book)))
    assert [(row["violation"], row["seq"]) for row in found.to_pylist()] == [("lost", 15_000)]


def work(port: int, count: int, seed: int, kills: BrokerProcess | None) -> None:
    """Send and take persistent messages of a few groups; the broker may be killed meanwhile."""
    random = Random(seed)
    client = QueueClient(Place(HOST, port, DEFAULT_USER, DEFAULT_PASSWORD))
    try:
        for _ in range(count):
            group = f"g{random.randrange(5)}"
            client.post("/queue/work", [("message_group", group), ("persistent", "true")], b"x")
        client.confirm()
        client.subscribe("/queue/work", [("ack", "client-individual"), ("credit", "20,0")])
        for number in range(count // 2):
            delivery = client.message(10.0)
            assert delivery is not None
            client.ack(delivery)
            if kills is not None and number == count // 3:
                kills.signal(signal.SIGKILL)
    except (ClientError, OSError):
        assert kills is not None
    finally:
        with suppress(ClientError, OSError):
            client.close()


def test_a_broker_that_is_killed_audits_clean_and_a_planted_loss_is_caught(
    spark: SparkSession, tmp_path: Path
) -> None:
    arguments = ("--event-log", str(tmp_path / "log"))
    for run in range(3):
        with running_broker(tmp_path / "broker", arguments=arguments) as broker:
            work(broker.port, 300, run, broker if run < 2 else None)
            broker.signal(signal.SIGTERM)
            broker.process.wait(TIMEOUT_S)
    code, said = run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path / "out")
    assert (code, said) == (0, said), pq.read_table(tmp_path / "out/violations").to_pylist()[:3]
    assert "of 3 runs: every promise was kept" in said
    (database,) = (tmp_path / "broker/data").rglob("covey.db")
    connection = sqlite3.connect(database)
    connection.execute("delete from messages where id = (select max(id) from messages)")
    connection.commit()
    connection.close()
    with running_broker(tmp_path / "broker", arguments=arguments) as broker:
        broker.signal(signal.SIGTERM)
        broker.process.wait(TIMEOUT_S)
    code, said = run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path / "out")
    assert (code, "of 4 runs: BROKEN: 1 lost" in said) == (1, True), said
