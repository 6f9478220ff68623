"""simple: sticky for the life of the consumer (ActiveMQ's message groups page)."""

from __future__ import annotations

import pytest

from covey.groups.strategies import simple
from covey.groups.strategies.simple import SimpleMap
from covey.groups.strategy import FREE


def taken(*groups: str) -> SimpleMap:
    strategy = SimpleMap()
    strategy.joined(1, 1)
    for group in groups:
        strategy.opened(group)
        strategy.took(group, 1)
    return strategy


def aged(strategy: SimpleMap) -> int:
    """Let time pass once; return how many groups were forgotten."""
    before = strategy.tracked()
    strategy.age()
    while strategy.tidy(2):
        pass
    return before - strategy.tracked()


def test_a_group_stays_with_its_consumer_when_drained_and_when_empty() -> None:
    strategy = taken("IBM")
    assert not strategy.drained("IBM")
    strategy.vanished("IBM")
    assert strategy.owner("IBM") == 1


def test_a_join_moves_nothing() -> None:
    strategy = taken("IBM")
    assert not strategy.joined(2, 1)
    assert strategy.owner("IBM") == 1


def test_closing_a_group_frees_that_one_alone() -> None:
    strategy = taken("IBM", "MSFT")
    strategy.closed("IBM")
    assert (strategy.owner("IBM"), strategy.owner("MSFT")) == (FREE, 1)
    assert strategy.load(1) == 1


def test_rebalance_frees_all_groups_and_keeps_the_consumers() -> None:
    strategy = taken("IBM", "MSFT")
    strategy.reset()
    assert (strategy.owner("IBM"), strategy.owner("MSFT"), strategy.load(1)) == (FREE, FREE, 0)
    strategy.took("IBM", 1)
    assert strategy.owner("IBM") == 1


def test_any_text_is_a_group() -> None:
    strategy = taken("IBM_NASDAQ_20/4/05", "\N{SNOWMAN}")
    assert strategy.owner("IBM_NASDAQ_20/4/05") == 1
    assert strategy.owner("\N{SNOWMAN}") == 1


def test_the_least_loaded_of_the_present_is_known_by_load() -> None:
    strategy = SimpleMap()
    for consumer in (1, 2, 3):
        strategy.joined(consumer, 1)
    for i in range(9):
        strategy.took(f"group-{i}", min((1, 2, 3), key=strategy.load))
    assert [strategy.load(consumer) for consumer in (1, 2, 3)] == [3, 3, 3]
    strategy.joined(4, 1)
    assert min((1, 2, 3, 4), key=strategy.load) == 4, "a late arrival gets the next group"


def test_an_idle_group_is_forgotten_at_the_second_turn_of_the_clock() -> None:
    strategy = taken("IBM")
    strategy.vanished("IBM")
    assert aged(strategy) == 0
    assert strategy.owner("IBM") == 1
    assert aged(strategy) == 1
    assert (strategy.owner("IBM"), strategy.load(1), strategy.tracked()) == (FREE, 0, 0)


def test_a_message_in_between_starts_the_idle_clock_anew() -> None:
    strategy = taken("IBM")
    strategy.vanished("IBM")
    aged(strategy)
    strategy.opened("IBM")
    strategy.vanished("IBM")
    assert aged(strategy) == 0
    assert aged(strategy) == 1


def test_a_group_with_messages_is_never_forgotten() -> None:
    strategy = taken("IBM")
    assert [aged(strategy), aged(strategy), aged(strategy)] == [0, 0, 0]
    assert strategy.owner("IBM") == 1


def test_a_closed_group_that_is_taken_again_is_not_aged_by_its_old_clock() -> None:
    strategy = taken("IBM")
    strategy.vanished("IBM")
    strategy.closed("IBM")
    strategy.took("IBM", 1)
    assert [aged(strategy), aged(strategy)] == [0, 0]
    assert strategy.owner("IBM") == 1


def test_memory_of_departed_consumers_is_given_back_without_the_clock() -> None:
    strategy = SimpleMap()
    for consumer in range(1, 101):
        strategy.joined(consumer, 1)
        for i in range(50):
            group = f"{consumer}-{i}"
            strategy.opened(group)
            strategy.took(group, consumer)
            strategy.vanished(group)
        strategy.left(consumer)
        while strategy.tidy(10):
            pass
    assert strategy.tracked() == 0
    assert len(strategy.seats) <= 64
    assert len(strategy._idle) <= 64


def test_the_idle_clock_keeps_no_name_of_a_group_that_is_forgotten_or_was_never_owned() -> None:
    strategy = taken("IBM")
    strategy.vanished("IBM")
    strategy.opened("never taken")
    strategy.vanished("never taken")
    assert strategy._idle == {"IBM"}
    aged(strategy)
    aged(strategy)
    assert strategy._idle | strategy._idle_before | strategy._overdue == set()


def test_groups_are_forgotten_a_few_at_a_time_and_not_if_they_come_again() -> None:
    names = [f"group-{number}" for number in range(10)]
    strategy = taken(*names)
    for name in names:
        strategy.vanished(name)
    strategy.age()
    strategy.age()
    strategy.opened("group-3")
    assert [strategy.tidy(4), strategy.tracked()] == [True, 6]
    while strategy.tidy(4):
        pass
    assert list(strategy.remembered()) == [("group-3", 1)]


def test_names_that_are_used_once_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simple, "IDLE_KEPT", 100)
    strategy = taken("busy")
    most = 0
    for number in range(1000):
        name = f"group-{number}"
        strategy.opened(name)
        strategy.took(name, 1)
        strategy.vanished(name)
        strategy.tidy(5)
        most = max(most, strategy.tracked())
        newest = max(0, number - 99)
        assert all(strategy.owner(f"group-{each}") == 1 for each in range(newest, number + 1))
    assert 100 <= most <= 202
    assert strategy.owner("busy") == 1
