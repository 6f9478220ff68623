"""The model does what the real queue does with the same arrivals; its figures mean something."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from random import Random

import pytest

from covey.config.queues import QueueSettings
from covey.core.model.consumer import Consumer, Window
from covey.core.model.entry import Entry, Outcome
from covey.core.queue.owner import Unowned
from covey.core.queue.queue import Queue
from covey.groups.key import GroupKey
from covey.groups.simulation.load import Load
from covey.groups.simulation.parts import Lane, Worker
from covey.groups.simulation.queue import SimulatedQueue
from covey.pipeline.jobs.plan_rehearsal import Policy, default_policies
from tests.doubles import NOBODY, Letter

POLICIES = default_policies().split(",")


def load_of(count: int, groups: int, seed: int = 1) -> Load:
    random = Random(seed)
    return Load(
        [index * 0.001 for index in range(count)],
        [random.expovariate(1 / 0.004) for _ in range(count)],
        [f"g{int(random.paretovariate(0.5)) % groups}" for _ in range(count)],
    )


class Clerk(Consumer):
    """Works through what it gets, one after the other, as a model's worker does."""

    def __init__(self, replay: Replay, credit: int) -> None:
        super().__init__(NOBODY, Window(0, is_automatic=True))
        self.replay = replay
        self.unsettled_max = credit
        self.held: deque[Entry] = deque()

    def deliver(self, entry: Entry) -> None:
        self.replay.taken.append((entry.seq - 1, self.id))
        self.held.append(entry)
        if len(self.held) == 1:
            self.start()

    def start(self) -> None:
        replay = self.replay
        replay.started += 1
        service = replay.load.services[self.held[0].seq - 1]
        heappush(replay.finishes, (replay.now + service, replay.started, self))


class Replay:
    """The real queue, driven by the same clock as the model."""

    def __init__(self, load: Load, policy: Policy, credit: int) -> None:
        self.load = load
        self.credit = credit
        self.queue = Queue("work", QueueSettings(), policy.strategy(), GroupKey(), Unowned())
        self.taken: list[tuple[int, int]] = []
        self.finishes: list[tuple[float, int, Clerk]] = []
        self.clerks: list[Clerk] = []
        self.started = 0
        self.now = 0.0

    def join(self) -> None:
        clerk = Clerk(self, self.credit)
        self.clerks.append(clerk)
        self.queue.join(clerk, self.now)

    def leave_first(self) -> None:
        clerk = self.clerks.pop(0)
        self.queue.leave(clerk, self.now)

    def play(self, workers: int) -> None:
        span = self.load.times[-1]
        for _ in range(workers):
            self.join()
        changes = [(span / 3, self.join), (span * 2 / 3, self.leave_first)]
        names = [self.load.names[number] for number in self.load.groups]
        arrivals = deque(zip(self.load.times, names, strict=True))
        while arrivals or self.finishes:
            arrival = arrivals[0][0] if arrivals else float("inf")
            finish = self.finishes[0][0] if self.finishes else float("inf")
            if changes and changes[0][0] <= min(arrival, finish):
                self.now, change = changes.pop(0)
                change()
            elif arrival <= finish:
                self.now, group = arrivals.popleft()
                letter = Letter()
                letter.group = group
                self.queue.enqueue(letter)
            else:
                self._finish()
            while self.queue.pump(self.now, 0, 1000):
                pass

    def _finish(self) -> None:
        self.now, _, clerk = heappop(self.finishes)
        if clerk.is_gone:
            return
        entry = clerk.held.popleft()
        if clerk.held:
            clerk.start()
        self.queue.settle(entry, Outcome.ACCEPTED, self.now)


class Watched(SimulatedQueue):
    """A model that writes down who took what."""

    def __init__(self, load: Load, policy: Policy, credit: int) -> None:
        super().__init__(load, policy.strategy(), credit=credit, speed=1.0)
        self.taken: list[tuple[int, int]] = []

    def deliver(self, lane: Lane, worker: Worker) -> None:
        self.taken.append((lane.messages.first, worker.id))
        super().deliver(lane, worker)


@pytest.mark.parametrize("credit", [1, 5])
@pytest.mark.parametrize(
    "policy", ["simple", "lru:500", "hash-buckets:8", "consistent-hash:10", "shared"]
)
def test_the_model_hands_out_what_the_real_queue_does(policy: str, credit: int) -> None:
    load = load_of(1500, 200)
    model = Watched(load, Policy.parse(policy), credit)
    model.play(3)
    real = Replay(load, Policy.parse(policy), credit)
    real.play(3)
    assert len(model.taken) >= 1500
    assert sorted(model.taken) == sorted(real.taken)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_message_is_finished_in_order_whatever_the_policy(policy: str) -> None:
    load = load_of(2000, 50)
    result = SimulatedQueue(load, Policy.parse(policy).strategy(), credit=4, speed=2.0).play(4)
    assert result.messages == 2000
    assert result.order_lost == 0
    assert result.makespan_s >= max(load.times) / 2.0


def test_more_speed_leaves_less_time_between_arrivals() -> None:
    load = load_of(500, 50)
    slow = SimulatedQueue(load, Policy.parse("simple").strategy(), credit=1, speed=1.0).play(4)
    fast = SimulatedQueue(load, Policy.parse("simple").strategy(), credit=1, speed=100.0).play(4)
    assert fast.wait_mean_s > slow.wait_mean_s


def test_a_sticky_policy_moves_nothing_on_a_join_and_the_leavers_groups_on_a_leave() -> None:
    result = SimulatedQueue(
        load_of(2000, 50), Policy.parse("simple").strategy(), credit=1, speed=1.0
    ).play(3)
    assert result.moved_up == 0
    assert 0 < result.moved_down < 50


def test_one_group_keeps_one_worker_busy_and_messages_without_a_group_all() -> None:
    count = 300
    one = Load([0.0] * count, [0.01] * count, ["g"] * count)
    none = Load([0.0] * count, [0.01] * count, [""] * count)
    alone = SimulatedQueue(one, Policy.parse("simple").strategy(), credit=1, speed=1.0).play(4)
    spread = SimulatedQueue(none, Policy.parse("simple").strategy(), credit=1, speed=1.0).play(4)
    assert alone.makespan_s == pytest.approx(3.0)
    assert spread.makespan_s == pytest.approx(0.75, rel=0.05)
    assert alone.balance > 3.5
    assert spread.balance < 1.1
