"""Pages: a list that is walked in portions is the one made at once, whoever works meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from covey.core.management.catalogue import Catalogue
from covey.core.management.pages import Page, Walk, whole
from covey.core.queue.policy import park
from tests.core.double import Person, Room

KINDS = ("queue", "topic", "consumer", "connection", "group", "waiting", "parked")
PAGES = ((0, None), (0, 5), (3, 4), (7, 100), (500, 5))
QUEUES = 30


class House:
    """A virtual host with some of everything."""

    def __init__(self) -> None:
        self.room = Room()
        self.host = self.room.broker.host
        self.people = [self.room.enter() for _ in range(3)]
        for number in range(QUEUES):
            reader = self.people[number % 3]
            reader.read(f"/queue/q{number}" if number % 2 else f"/topic/t{number}", f"s{number}")
            queue = self.host.queue(f"q{number}")
            for group in range(300 if number == 1 else number % 4):
                queue.placement.lane_for(f"g{group}")
                if group % 3 == 0:
                    park(queue, f"g{group}", self.room.now + group, parked=True)

    def walk(self, kind: str, start: int, count: int | None) -> Walk:
        catalogue = Catalogue(self.room.broker, self.host)
        given = {kind: True} if kind in ("waiting", "parked") else {}
        return catalogue.walk("group" if given else kind, self.room.now, start, count, **given)

    def change(self, random: Random) -> None:
        """Let somebody come or go."""
        name = f"q{random.randrange(QUEUES)}"
        if random.random() < 0.5 and name in self.host.queues:
            self.host.delete_queue(name, "deleted")
        else:
            self.host.queue(name).placement.lane_for(f"h{random.randrange(9)}")
        leaver: Person = random.choice(self.people)
        self.room.broker.drop(leaver.session, self.room.now)


def in_portions(walk: Walk, between: Callable[[], None]) -> Page:
    """Do a walk, and something else after each step."""
    page = Page()
    for items in walk(page):
        assert items > 0
        between()
    return page


@pytest.mark.parametrize("kind", KINDS)
def test_pages_are_parts_of_the_whole_list(kind: str) -> None:
    house = House()
    rows, total = whole(house.walk(kind, 0, None))
    assert total == len(rows) > 0
    for start, count in PAGES:
        stop = None if count is None else start + count
        assert whole(house.walk(kind, start, count)) == (rows[start:stop], total)


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_in_portions_is_the_list_made_at_once(kind: str) -> None:
    house = House()
    page = in_portions(house.walk(kind, 0, 100), lambda: None)
    assert (page.rows, page.total) == whole(house.walk(kind, 0, 100))


@pytest.mark.parametrize("kind", KINDS)
def test_who_comes_or_goes_amid_a_list_does_not_harm_it(kind: str) -> None:
    for seed in range(20):
        house = House()
        random = Random(seed)
        before = {str(row["name"]) for row in whole(house.walk(kind, 0, None))[0]}
        page = in_portions(house.walk(kind, 0, 1000), partial(house.change, random))
        names = [str(row["name"]) for row in page.rows]
        assert len(names) == len(set(names))
        if kind not in ("group", "waiting", "parked"):
            assert set(names) <= before


def test_no_step_has_more_than_a_few_groups() -> None:
    house = House()
    for kind in ("group", "waiting", "parked"):
        assert max(house.walk(kind, 0, 1000)(Page())) <= 32
