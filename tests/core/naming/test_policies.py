"""Policies: the first entry that matches a name, found without looking at all of them."""

from __future__ import annotations

from random import Random

import pytest

from covey.config.settings import Settings
from covey.core.naming.destination import Syntax
from covey.core.naming.pattern import Pattern
from covey.core.naming.policies import Policies

PARTS = ("a", "b", "c", "*", "**", "a*", "{[ab]}")


def ids(dice: Random, count: int) -> list[str]:
    found = [".".join(dice.choices(PARTS, k=dice.randrange(1, 4))) for _ in range(count)]
    return list(dict.fromkeys(found))


def matches(pattern: str, name: str) -> bool:
    (destination,) = Syntax().parse("/queue/" + pattern, allow_patterns=True)
    return Pattern(destination).matches(name)


@pytest.mark.parametrize("seed", range(30))
def test_a_walk_through_all_entries_in_their_order_finds_the_same(seed: int) -> None:
    dice = Random(seed)
    queues, durables, topics = (ids(dice, dice.randrange(0, 12)) for _ in range(3))
    told = [{"id": each, "nak_limit": 1} for each in queues]
    told += [{"id": f"dsub:{each}", "nak_limit": 1} for each in durables]
    policies = Policies(
        Settings.model_validate({"queue": told, "topic": [{"id": each} for each in topics]})
    )
    for _ in range(100):
        name = ".".join(dice.choices("abc", k=dice.randrange(1, 4)))
        assert policies.queue(name).id == first(queues, name)
        assert policies.durable(name).id == first([f"dsub:{each}" for each in durables], name)
        assert policies.topic(name).id == first(topics, name)


def first(entries: list[str], name: str) -> str:
    for entry in entries:
        if matches(entry.removeprefix("dsub:"), name):
            return entry
    return "**"
