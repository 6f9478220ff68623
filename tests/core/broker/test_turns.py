"""Turns: only queues whose time has come are looked at."""

from __future__ import annotations

from random import Random

import pytest

from covey.core.broker import turns
from covey.core.queue.queue import Queue
from tests.core.double import Room


class Counted:
    """Counts how often queues were asked for their deadline."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        original = Queue.next_deadline

        def counted(queue: Queue, now: float, wall_ms: int) -> float:
            self.count += 1
            return original(queue, now, wall_ms)

        monkeypatch.setattr(Queue, "next_deadline", counted)


def test_queues_whose_time_has_not_come_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(Queue.next_deadline, "__code__"):
        pytest.skip("a compiled class cannot be watched")
    room = Room()
    room.wait(1.0)
    person = room.enter()
    for number in range(100):
        soon = room.broker.clock.wall_ms + (2_000 if number == 7 else 1_000_000)
        person.send(f"/queue/a.{number}", "1", expires_ms=soon)
    counted = Counted(monkeypatch)
    for _ in range(10):
        room.wait(1.0)
    assert room.depth("a.7") == 0
    assert counted.count < 20


def test_a_wall_clock_that_jumps_expires_at_once() -> None:
    room = Room()
    room.wait(1.0)
    person = room.enter()
    for number in range(10):
        person.send(f"/queue/a.{number}", "1", expires_ms=room.broker.clock.wall_ms + 3_600_000)
    room.wait(1.0)
    assert room.depth("a.3") == 1
    room.broker.clock.offset += 3600.0
    room.wait(1.0)
    room.wait(1.0)
    assert [room.depth(f"a.{number}") for number in range(10)] == [0] * 10


@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_and_goes_each_message_ends_in_time(seed: int) -> None:
    dice = Random(seed)
    room = Room()
    room.wait(1.0)
    person = room.enter()
    ends: dict[str, list[int]] = {f"a.{number}": [] for number in range(20)}
    for _ in range(200):
        name = dice.choice(list(ends))
        if dice.random() < 0.8:
            end = room.broker.clock.wall_ms + dice.randrange(1, 30_000)
            person.send(f"/queue/{name}", "1", expires_ms=end)
            ends[name].append(end)
        else:
            room.wait(dice.random() * 3)
            room.broker.tick(room.now)
            now_ms = room.broker.clock.wall_ms
            for each, times in ends.items():
                assert room.depth(each) >= len([end for end in times if end > now_ms])
                late = len([end for end in times if end > now_ms - 1_500])
                assert room.depth(each) <= late, (each, now_ms, times)


def test_very_many_queues_whose_time_comes_at_once_are_looked_at_in_portions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "DUE_AT_ONCE", 3)
    room = Room()
    room.wait(1.0)
    person = room.enter()
    for number in range(10):
        person.send(f"/queue/a.{number}", "1", expires_ms=room.broker.clock.wall_ms + 1000)
    room.wait(2.0)
    assert 0 < sum(room.depth(f"a.{number}") for number in range(10)) <= 7
    for _ in range(3):
        room.wait(0.0)
    assert sum(room.depth(f"a.{number}") for number in range(10)) == 0
