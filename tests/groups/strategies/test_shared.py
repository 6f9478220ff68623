"""shared: owned while messages are unsettled (the Qpid page), and not a moment longer."""

from __future__ import annotations

from covey.groups.strategies.shared import Shared
from covey.groups.strategy import FREE


def taken() -> Shared:
    strategy = Shared()
    strategy.joined(1, 1)
    strategy.joined(2, 1)
    strategy.opened("A")
    strategy.took("A", 1)
    return strategy


def test_whoever_takes_a_free_group_owns_it() -> None:
    strategy = taken()
    assert strategy.owner("A") == 1
    assert strategy.owner("B") == FREE


def test_a_drained_group_is_free_for_anybody() -> None:
    strategy = taken()
    assert strategy.drained("A")
    assert (strategy.owner("A"), strategy.load(1)) == (FREE, 0)
    strategy.took("A", 2)
    assert strategy.owner("A") == 2


def test_a_group_without_messages_has_no_owner() -> None:
    strategy = taken()
    strategy.vanished("A")
    assert (strategy.owner("A"), strategy.tracked()) == (FREE, 0)


def test_a_close_message_frees_the_group() -> None:
    strategy = taken()
    strategy.closed("A")
    assert strategy.owner("A") == FREE


def test_memory_is_bounded_by_the_groups_that_are_held() -> None:
    strategy = taken()
    for i in range(10_000):
        group = f"cart-{i}"
        strategy.opened(group)
        strategy.took(group, 2)
        strategy.drained(group)
        strategy.vanished(group)
    assert strategy.tracked() == 1
    assert len(strategy.seats) == 1


def test_load_is_the_number_of_groups_held() -> None:
    strategy = taken()
    strategy.took("B", 1)
    assert (strategy.load(1), strategy.load(2)) == (2, 0)
    strategy.drained("B")
    assert strategy.load(1) == 1
