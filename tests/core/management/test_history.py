"""History: samples by a clock that only the test moves; what is kept is bounded."""

from __future__ import annotations

from typing import Any

from covey.config.settings import Settings
from covey.core.broker.broker import Broker
from covey.core.broker.directory import Directory
from covey.core.management.history import (
    COARSE_MAX,
    FINE_MAX,
    QUEUE_COLUMNS,
    History,
    Measures,
    Ring,
    Series,
)
from covey.core.queue.queue import Queue


def make(history_queues_max: int = 100) -> tuple[Broker, History]:
    given = {"broker": {"history_queues_max": history_queues_max}}
    broker = Broker(Settings.model_validate(given))
    return broker, History(Directory.of(broker))


def sample(history: History, now: float, measures: Measures | None = None) -> int:
    return len(list(history.sample(measures or Measures(), now, 1_000_000 + now)))


def move(queue: Queue, enqueued: int, acked: int) -> None:
    queue.counters.enqueued += enqueued
    queue.counters.acked += acked


def read(series: Series | None, span_s: float = 600) -> Any:
    assert series is not None
    return series.read(span_s)


def test_a_ring_keeps_the_latest_in_order() -> None:
    ring = Ring(2, 3)
    for number in range(5):
        ring.add((float(number), number * 10.0))
    assert [list(row) for row in ring.latest(9)] == [[2, 20], [3, 30], [4, 40]]
    assert [list(row) for row in ring.latest(1)] == [[4, 40]]


def test_what_grows_is_told_as_a_rate_by_the_time_that_really_passed() -> None:
    broker, history = make()
    queue = broker.host.queue("q")
    move(queue, 1, 0)
    sample(history, 1)
    move(queue, 10, 4)
    sample(history, 2)
    move(queue, 30, 0)
    sample(history, 4)  # late: two seconds
    told = read(history.known(queue))
    assert told["enqueued"] == [10.0, 15.0]
    assert told["acknowledged"] == told["delivered"] == [4.0, 0.0]
    assert told["times"] == [1_000_002, 1_000_004]
    host = read(history.host(broker.host))
    assert host["enqueued"] == [10.0, 15.0]


def test_ten_minutes_are_kept_by_the_second_and_a_day_by_the_minute() -> None:
    series = Series(QUEUE_COLUMNS, 0.0)
    seconds = 86_400 + 7200
    for now in range(1, seconds, 5):
        series.add((now, 0, 0, 0, 0, 0, 0), now, now)
    fine, coarse = read(series, 600), read(series, 86_400)
    assert fine["step_s"] == 1.0
    assert len(fine["times"]) == FINE_MAX - 1  # the first has nothing to be compared with
    assert coarse["step_s"] == 60.0
    assert len(coarse["times"]) == COARSE_MAX - 1
    assert coarse["times"][-1] - coarse["times"][0] >= 86_400 - 180


def test_only_so_many_queues_have_a_history_and_who_is_looked_at_gets_one() -> None:
    broker, history = make(history_queues_max=2)
    queues = [broker.host.queue(f"q{number}") for number in range(4)]
    for queue in queues[:3]:
        move(queue, 1, 0)
    sample(history, 1)
    assert history.queues() == queues[:2]  # first come
    assert history.queue(queues[3], 5) is not None  # looked at: the longest quiet one goes
    assert len(history.queues()) == 2
    assert queues[3] in history.queues()


def test_no_queue_has_one_if_none_is_wanted() -> None:
    broker, history = make(history_queues_max=0)
    queue = broker.host.queue("q")
    move(queue, 1, 0)
    sample(history, 1)
    assert history.queue(queue, 1) is None
    assert history.owners(queue, 1) == []


def test_a_queue_that_is_gone_is_forgotten_and_its_counts_stay_in_the_totals() -> None:
    broker, history = make()
    host = broker.host
    move(host.queue("q"), 5, 5)
    sample(history, 1)
    host.delete_queue("q", "test")
    sample(history, 2)
    assert history.queues() == []
    assert read(history.host(host))["enqueued"] == [0.0]


def test_many_queues_are_walked_in_portions() -> None:
    broker, history = make()
    for number in range(2500):
        broker.host.queue(f"q{number}")
    assert sample(history, 1) == 3  # after 1000, after 2000, at the end


def test_what_the_server_measures_is_told() -> None:
    _, history = make()
    for now in (1.0, 2.0):
        sample(history, now, Measures(memory=5e6, turn_ms=1.25, store_ms=8, cpu=now / 4))
    told = read(history.broker)
    assert (told["memory"], told["turn_ms"], told["cpu"]) == ([5e6], [1.25], [0.25])
