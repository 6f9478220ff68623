"""Priority queues: the highest first, the oldest first within one, returns at their place."""

from __future__ import annotations

from random import Random

import pytest

from covey.config.queues import QueueSettings
from covey.core.dispatch import level
from covey.core.dispatch.level import TODO_MAX, rank_of
from covey.core.model.entry import Entry, Outcome
from tests.core.support import Bench
from tests.doubles import Letter, Reader


class Desk(Bench):
    """A priority queue on a table."""

    def __init__(self, priorities: int = 10) -> None:
        super().__init__(settings=QueueSettings(priorities=priorities))

    def put(self, priority: int, group: str = "", **properties: str) -> Entry:
        message = Letter(1, **properties)
        message.priority = priority
        message.group = group
        return self.queue.enqueue(message)


def read_one(desk: Desk, reader: Reader) -> int:
    reader.window.count += 1
    desk.queue.credit_changed(reader)
    desk.pump()
    return reader.got[-1]


@pytest.mark.parametrize(
    ("levels", "ranks"),
    [
        (10, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
        (2, [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]),
        (3, [2, 2, 2, 2, 1, 0, 0, 0, 0, 0]),
        (5, [4, 4, 4, 3, 2, 1, 0, 0, 0, 0]),
    ],
)
def test_few_levels_tell_the_middle_priorities_apart(levels: int, ranks: list[int]) -> None:
    assert [rank_of(priority, levels) for priority in range(10)] == ranks


def test_the_highest_priority_goes_first_and_the_oldest_within_one() -> None:
    desk = Desk()
    for priority in (4, 9, 0, 9, 4):
        desk.put(priority)
    reader = desk.join()
    desk.pump()
    assert reader.got == [2, 4, 1, 5, 3]


def test_messages_that_came_before_any_consumer_are_all_seen() -> None:
    desk = Desk(priorities=2)
    desk.put(9)
    desk.put(0)
    desk.leave(desk.join(0))
    desk.put(9)
    reader = desk.join()
    desk.pump()
    assert reader.got == [1, 3, 2]


def test_a_returned_message_goes_back_to_its_place_in_its_level() -> None:
    desk = Desk()
    for priority in (4, 4, 9):
        desk.put(priority)
    reader = desk.join(2)
    desk.pump()
    assert reader.got == [3, 1]
    desk.put(9)
    desk.settle(reader, 1, outcome=Outcome.RELEASED)
    assert [read_one(desk, reader) for _ in range(3)] == [4, 1, 2]


def test_each_view_has_its_own_way_through_the_levels() -> None:
    desk = Desk()
    for priority, colour in ((0, "red"), (9, "blue"), (9, "red"), (0, "blue")):
        desk.put(priority, colour=colour)
    red = desk.join(selector="colour = 'red'")
    every = desk.join(0)
    desk.pump()
    assert red.got == [3, 1]
    assert [read_one(desk, every) for _ in range(2)] == [2, 4]


def test_between_views_the_priority_decides_before_the_age() -> None:
    desk = Desk()
    desk.put(0, colour="red")
    desk.put(9, colour="blue")
    order: list[int] = []
    for colour in ("red", "blue"):
        reader = desk.join(selector=f"colour = '{colour}'")
        reader.got = order
    desk.pump()
    assert order == [2, 1]


def test_a_group_id_means_nothing_on_a_priority_queue() -> None:
    desk = Desk()
    desk.put(0, "g")
    desk.put(9, "g")
    readers = [desk.join(1), desk.join(1)]
    desk.pump()
    assert sorted(reader.got for reader in readers) == [[1], [2]]
    assert desk.groups() == {}


def test_messages_whose_time_ran_out_are_dropped_on_every_level() -> None:
    desk = Desk()
    for priority in (0, 9):
        message = Letter()
        message.priority = priority
        message.expires_ms = desk.wall_ms + 500
        desk.queue.enqueue(message)
    desk.wait(2.0)
    assert desk.shown()["messages"] == 0
    assert desk.queue.counters.expired == 2


def test_a_long_backlog_is_not_listed_beside_the_index() -> None:
    bench = Bench()
    count = TODO_MAX + 1000
    for _ in range(count):
        bench.send()
    assert len(bench.queue.state.default_view.todo) == TODO_MAX
    reader = bench.join(0)
    other = bench.join(0, selector="colour = 'red'")
    bench.pump()
    assert reader.view is not None
    assert other.view is not None
    assert not reader.view.todo  # nobody has credit: nothing was looked at again
    bench.leave(other)
    reader.window.grant(2 * count, 0)
    bench.queue.credit_changed(reader)
    bench.pump()
    for _ in range(10):
        bench.send()
    bench.pump()
    assert reader.got == list(range(1, count + 11))


@pytest.mark.parametrize("todo_max", [TODO_MAX, 3, 0])
@pytest.mark.parametrize("seed", range(20))
def test_random_traffic_always_goes_out_by_priority_and_age(
    seed: int, todo_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list sorted by hand is the judge."""
    monkeypatch.setattr(level, "TODO_MAX", todo_max)
    random = Random(seed)
    desk = Desk(priorities=random.choice([1, 2, 3, 10]))
    pending: dict[int, Entry] = {}
    reader = desk.join(0)
    for _ in range(200):
        action = random.choice(["put", "put", "read", "return", "accept"])
        if action == "put":
            entry = desk.put(random.randrange(10))
            pending[entry.seq] = entry
        elif action == "read" and pending:
            best = min(pending.values(), key=lambda entry: (entry.lane.rank, entry.seq))
            assert read_one(desk, reader) == best.seq
            del pending[best.seq]
        elif reader.held():
            seq = random.choice(reader.held())
            entry = reader.unsettled[seq]
            if action == "return":
                pending[seq] = entry
                desk.settle(reader, seq, outcome=Outcome.RELEASED)
            else:
                desk.settle(reader, seq)
