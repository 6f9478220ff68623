"""Last-value queues: the newest message of each key, never one that somebody holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.config.queues import FullPolicy, QueueSettings
from covey.config.settings import Settings
from covey.core.errors import RefusedError
from covey.core.model.entry import Outcome
from covey.core.queue.discipline import DEAD_SPARED
from covey.core.queue.policy import change_policy
from covey.core.selector import Value
from tests.core.double import Person, Room, places
from tests.core.storage.sqlite.support import House, Note, bodies
from tests.core.support import depth
from tests.doubles import Letter


class Price(Note):
    """A note about one stock."""

    def __init__(self, stock: str, price: str) -> None:
        super().__init__(price.encode())
        self.stock = stock

    def lookup(self, name: str) -> Value:
        return self.stock if name == "stock" else None


def room_of(full_policy: FullPolicy = "block", quota_messages: int = 0, quota: int = 0) -> Room:
    settings = QueueSettings(
        id="a",
        lvq_key="stock",
        full_policy=full_policy,
        quota_messages=quota_messages,
        quota=quota,
    )
    return Room(settings)


def quote(person: Person, stock: str | int | None, name: str, *, size: int = 1) -> None:
    message = Letter(size, name=name, stock=stock)
    room = person.room
    room.broker.publishing.publish(person.session, places("/queue/a"), message)
    room.broker.run(room.now)


def read(person: Person) -> list[object]:
    return person.read("/queue/a").names


def test_a_newer_value_replaces_the_older_one_and_comes_last() -> None:
    admin = room_of().enter()
    for stock, name in (("x", "x1"), ("y", "y1"), ("x", "x2")):
        quote(admin, stock, name)
    assert read(admin) == ["y1", "x2"]
    assert admin.session.host.queues["a"].counters.dropped == 1


def test_messages_without_the_key_are_left_alone() -> None:
    admin = room_of().enter()
    for name in ("1", "2"):
        quote(admin, None, name)
    assert read(admin) == ["1", "2"]


def test_a_number_and_its_text_are_one_key() -> None:
    admin = room_of().enter()
    quote(admin, 7, "old")
    quote(admin, "7", "new")
    assert read(admin) == ["new"]


def test_an_acquired_message_is_not_replaced_but_dropped_when_it_comes_back() -> None:
    admin = room_of().enter()
    quote(admin, "x", "x1")
    reader = admin.read("/queue/a", credit=1)
    quote(admin, "x", "x2")
    assert admin.room.depth("a") == 2
    admin.settle(reader, Outcome.RELEASED)
    assert admin.room.depth("a") == 1
    assert read_more(admin) == ["x2"]


def read_more(admin: Person) -> list[object]:
    return admin.read("/queue/a", "second").names


def test_a_message_that_comes_back_with_no_newer_one_stays() -> None:
    admin = room_of().enter()
    quote(admin, "x", "x1")
    reader = admin.read("/queue/a", credit=1)
    admin.settle(reader, Outcome.FAILED)
    assert read_more(admin) == ["x1"]


@pytest.mark.parametrize("policy", ["block", "reject", "drop head", "drop tail"])
def test_a_full_queue_takes_a_newer_value_in_place_of_the_older(policy: FullPolicy) -> None:
    admin = room_of(policy, quota_messages=2).enter()
    for stock, name in (("x", "x1"), ("y", "y1"), ("x", "x2"), ("y", "y2")):
        quote(admin, stock, name)
    assert not admin.session.is_blocked
    assert read(admin) == ["x2", "y2"]


def test_drop_tail_keeps_the_older_value_if_the_newer_is_too_large() -> None:
    admin = room_of("drop tail", quota=10).enter()
    quote(admin, "x", "small", size=5)
    quote(admin, "x", "large", size=11)
    assert read(admin) == ["small"]


def test_keys_without_a_message_are_forgotten() -> None:
    admin = room_of().enter()
    reader = admin.read("/queue/a")
    for number in range(3 * DEAD_SPARED):
        quote(admin, str(number), "x")
        admin.settle(reader)
    values = admin.session.host.queues["a"].discipline.last_values
    assert values is not None
    assert len(values._newest) <= DEAD_SPARED + 1


def test_values_are_replaced_over_a_restart(tmp_path: Path) -> None:
    settings = Settings(queue=(QueueSettings(id="a", lvq_key="stock"),))
    house = House(tmp_path, settings)
    for stock, price in (("x", "1"), ("y", "1")):
        house.publish("a", Price(stock, price))
    house.rest()
    house = house.restart()
    house.publish("a", Price("x", "2"))
    house.rest()
    house = house.restart()
    reader = house.reader("a")
    house.rest()
    assert bodies(reader) == [b"1", b"2"]
    house.store.close()


def test_a_delayed_value_replaces_when_its_time_comes(tmp_path: Path) -> None:
    house = House(tmp_path, Settings(queue=(QueueSettings(id="a", lvq_key="stock"),)))
    late = Price("x", "late")
    late.due_ms = 5000
    house.publish("a", late)
    house.publish("a", Price("x", "early"))
    house.rest()
    assert depth(house.queue("a")) == 1
    house.now = 6.0
    house.broker.tick(6.0)
    house.rest()
    reader = house.reader("a")
    house.rest()
    assert bodies(reader) == [b"late"]
    house.store.close()


def test_groups_mean_nothing_there_and_the_key_changes_on_an_empty_queue_only() -> None:
    admin = room_of().enter()
    quote(admin, "x", "x1")
    queue = admin.session.host.queues["a"]
    with pytest.raises(RefusedError, match="lvq_key can change only while it is empty"):
        change_policy(queue, QueueSettings(id="a"), admin.room.broker.limits, admin.room.now)
    with pytest.raises(ValueError, match=r"groups\.header cannot be used with lvq_key"):
        QueueSettings.model_validate({"id": "a", "lvq_key": "k", "groups": {"header": "g"}})
