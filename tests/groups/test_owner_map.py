"""OwnerMap: entries of consumers that left are not counted, not seen, and not kept for ever."""

from __future__ import annotations

import random

import pytest

from covey.groups.owner_map import DEAD_SPARED, SEATS_SPARED, OwnerMap
from covey.groups.strategy import FREE


class Plain(OwnerMap):
    """The map with nothing added."""

    name = "plain"


def test_load_follows_every_take_and_every_loss() -> None:
    owners = Plain()
    owners.joined(1, 1)
    owners.joined(2, 1)
    for group in ("a", "b", "c"):
        owners.took(group, 1)
    owners.took("c", 2)
    assert (owners.load(1), owners.load(2), owners.tracked()) == (2, 1, 3)
    owners.closed("a")
    assert (owners.load(1), owners.load(2), owners.tracked()) == (1, 1, 2)
    owners.reset()
    assert (owners.load(1), owners.load(2), owners.tracked()) == (0, 0, 0)
    assert owners.owner("b") == FREE


def test_taking_twice_counts_once() -> None:
    owners = Plain()
    owners.joined(1, 1)
    owners.took("a", 1)
    owners.took("a", 1)
    assert (owners.load(1), owners.tracked()) == (1, 1)


def test_joining_twice_keeps_what_is_owned() -> None:
    owners = Plain()
    owners.joined(1, 1)
    owners.took("a", 1)
    assert not owners.joined(1, 1)
    assert (owners.owner("a"), owners.load(1)) == (1, 1)


def test_an_owner_that_is_to_be_skipped_leaves_the_group_free_but_keeps_it() -> None:
    owners = Plain()
    owners.joined(1, 1)
    owners.took("a", 1)
    assert owners.owner("a", frozenset([1])) == FREE
    assert owners.owner("a", frozenset([2])) == 1


def test_a_dead_entry_is_dropped_when_read() -> None:
    owners = Plain()
    owners.joined(1, 1)
    owners.took("a", 1)
    owners.left(1)
    assert "a" in owners.seats
    assert owners.owner("a") == FREE
    assert "a" not in owners.seats


def test_a_group_of_a_dead_owner_can_be_taken_without_being_read() -> None:
    owners = Plain()
    owners.joined(1, 1)
    owners.took("a", 1)
    owners.left(1)
    owners.joined(2, 1)
    owners.took("a", 2)
    assert (owners.owner("a"), owners.load(2), owners.tracked()) == (2, 1, 1)


def test_dead_entries_never_outnumber_the_living_by_more_than_the_spared() -> None:
    owners = Plain()
    for consumer in range(1, 200):
        owners.joined(consumer, 1)
        for i in range(20):
            owners.took(f"{consumer}-{i}", consumer)
        if consumer > 3:
            owners.left(consumer - 3)
        while owners.tidy(7):
            pass
        assert len(owners.seats) <= 2 * owners.tracked() + DEAD_SPARED
    assert owners.tracked() == 60
    assert owners.owner("198-7") == 198


def test_a_stranger_cannot_take_a_group() -> None:
    with pytest.raises(AssertionError, match="consumer 9 takes 'a'"):
        Plain().took("a", 9)


def test_a_consumer_that_returns_adds_its_old_groups_to_its_new_ones() -> None:
    owners = Plain()
    owners.joined(1, 1)
    owners.joined(2, 1)
    owners.took("a", 1)
    owners.took("b", 2)
    owners.renamed(1, 2)
    assert (owners.owner("a"), owners.owner("b")) == (2, 2)
    assert (owners.load(1), owners.load(2), owners.tracked()) == (0, 2, 2)


def test_a_client_that_returns_again_and_again_leaves_no_seats_behind() -> None:
    owners = Plain()
    owners.joined(1, 1)
    owners.took("kept", 1)
    for number in range(2, 2000):
        owners.joined(number, 1)
        owners.took(f"own-{number % 5}", number)  # so the new number has a group already
        owners.renamed(number - 1, number)
        owners.tidy(1)
        assert owners.owner("kept") == number
    assert len(owners._sitting) <= 2 * SEATS_SPARED
    assert owners.load(1999) == owners.tracked() == 6
    owners.left(1999)
    assert (owners.tracked(), owners.owner("kept"), owners._sitting) == (0, FREE, {})


def test_random_comings_and_goings_end_as_a_plain_table_does() -> None:
    dice = random.Random(5)
    owners, table = Plain(), dict[str, int]()
    there: list[int] = []
    number = 0
    for _ in range(20_000):
        what = dice.randrange(10)
        if what == 0 or not there:
            number += 1
            owners.joined(number, 1)
            there.append(number)
        elif what == 1 and len(there) > 1:
            gone = there.pop(dice.randrange(len(there)))
            owners.left(gone)
            table = {key: owner for key, owner in table.items() if owner != gone}
        elif what == 2:
            old = there.pop(dice.randrange(len(there)))
            number += 1
            new = dice.choice([number, *there])
            owners.renamed(old, new)
            table = {key: new if owner == old else owner for key, owner in table.items()}
            there = [*{*there, new}]
        elif what == 3:
            key = str(dice.randrange(60))
            owners.forget(key)
            table.pop(key, None)
        elif what == 4:
            owners.tidy(dice.randrange(20))
        else:
            key, consumer = str(dice.randrange(60)), dice.choice(there)
            owners.took(key, consumer)
            table[key] = consumer
        assert owners.tracked() == len(table)
        assert {each: owners.load(each) for each in there} == {
            each: list(table.values()).count(each) for each in there
        }
        found = {key: owner for key, owner in owners.remembered() if owner != FREE}
        assert found == table
