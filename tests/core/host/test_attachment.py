"""Wide subscriptions come and go in portions, and miss nothing meanwhile."""

from __future__ import annotations

from random import Random

import pytest

from covey.core.host.subscription import Durable, Subscription
from covey.core.model.consumer import Window
from covey.core.model.message import FORGET_RETAINED, RETAIN
from tests.core.double import Person, Room, places
from tests.doubles import Listener, Reader

PORTION = 10


def make_room(count: int) -> tuple[Room, Person]:
    room = Room(limits={"work_portion": PORTION})
    person = room.enter()
    for number in range(count):
        person.send(f"/queue/wide.{number}", str(number))
    return room, person


class Wide:
    """A subscription with a reader in each queue."""

    def __init__(self, person: Person, destination: str, credit: int = 1000) -> None:
        self.person = person
        self.readers: list[Reader] = []
        self.window = Window(credit)
        self.subscription = Subscription(person.session, "wide", self.window, self.make)
        broker = person.room.broker
        self.job = broker.subscribe(
            person.session,
            self.subscription,
            places(destination),
            person.room.now,
            is_waited_for=True,
        )
        broker.run(person.room.now, person.session)

    def make(self) -> Reader:
        reader = Reader(self.window, self.person.session)
        self.readers.append(reader)
        return reader

    def names(self) -> list[object]:
        return [name for reader in self.readers for name in reader.names]


def finish(room: Room) -> int:
    """Do all portions; give how many there were."""
    portions = 0
    while room.broker.jobs.is_any:
        room.broker.go_on(room.now)
        portions += 1
    room.broker.go_on(room.now)
    return portions


def test_a_wide_subscription_reads_from_all_and_waits_for_none() -> None:
    room, _person = make_room(45)
    wide = Wide(room.enter(), "/queue/wide.*")
    assert not wide.job.is_over
    assert wide.person.session.must_wait
    assert len(wide.readers) == PORTION
    finish(room)
    assert wide.job.is_over
    assert not wide.person.session.must_wait
    assert sorted(wide.names(), key=str) == sorted([str(n) for n in range(45)])


def test_a_queue_that_is_made_meanwhile_is_read_once() -> None:
    room, person = make_room(45)
    wide = Wide(room.enter(), "/queue/wide.*")
    person.send("/queue/wide.new", "new")
    room.broker.host.delete_queue("wide.44", "gone")
    finish(room)
    assert wide.names().count("new") == 1
    assert len(wide.readers) == 45


def test_who_goes_half_way_gives_back_all_it_held() -> None:
    room, _person = make_room(45)
    wide = Wide(room.enter(), "/queue/wide.*")
    room.broker.go_on(room.now)
    held = len(wide.names())
    assert 0 < held < 45
    room.broker.drop(wide.person.session, room.now)
    finish(room)
    assert wide.job.is_over and len(wide.names()) == held
    other = Wide(room.enter(), "/queue/wide.*")
    finish(room)
    assert len(other.names()) == 45


def test_after_an_unsubscribe_nothing_comes_though_it_is_under_way() -> None:
    room, person = make_room(45)
    wide = Wide(room.enter(), "/queue/wide.*", credit=100)
    finish(room)
    for reader in wide.readers:
        wide.person.settle(reader)
    leave = room.broker.unsubscribe(wide.person.session, "wide", room.now)
    assert not leave.is_over
    for number in range(45):
        person.send(f"/queue/wide.{number}", "late")
    finish(room)
    assert "late" not in wide.names()
    assert leave.is_over
    assert not wide.window.consumers


def test_credit_goes_round_the_queues_of_a_wide_subscription() -> None:
    room, _person = make_room(200)
    wide = Wide(room.enter(), "/queue/wide.*", credit=1)
    finish(room)
    seen = len(wide.names())
    assert seen == 1
    while len(wide.names()) < 200:
        wide.window.grant(1, 0)
        room.broker.run(room.now)
        assert len(wide.names()) == seen + 1
        seen += 1


def test_a_new_queue_is_found_by_very_many_before_it_hands_out() -> None:
    room = Room(limits={"work_portion": PORTION})
    watchers = [Wide(room.enter(), "/queue/wide.*") for _ in range(35)]
    person = room.enter()
    person.send("/queue/wide.a", "1")
    assert sum(len(each.names()) for each in watchers) == 0
    finish(room)
    assert [len(each.readers) for each in watchers] == [1] * 35
    assert sum(len(each.names()) for each in watchers) == 1


def test_what_a_consumer_held_returns_in_order_in_portions() -> None:
    room = Room(limits={"work_portion": PORTION})
    person = room.enter()
    for number in range(100):
        person.send("/queue/a", str(number))
    holder = room.enter()
    held = holder.read("/queue/a")
    assert len(held.got) == 100
    other = room.enter().read("/queue/a", "other")
    room.broker.drop(holder.session, room.now)
    room.broker.run(room.now)
    assert other.got == []
    assert finish(room) > 5
    assert other.got == list(range(1, 101))
    assert isinstance(holder.session.client, Listener)


def test_a_connection_may_not_have_too_much_work_under_way() -> None:
    room, _ = make_room(45)
    room.broker.jobs.allow(PORTION, 5.0, 40)
    person = room.enter()
    try:
        Wide(person, "/queue/wide.*")
    except Exception as error:
        assert "session_work_max" in str(error)
    else:
        raise AssertionError("it was let in")


def heard(durable: Durable) -> dict[str, list[object]]:
    """Tell what a durable subscription's queue holds of each topic, in order."""
    found: dict[str, list[object]] = {}
    for entry in durable.queue.state.index:
        name = str(entry.content.lookup("name"))
        found.setdefault(name.partition(" ")[0], []).append(name)
    return found


def introduced(seed: int, portion: int) -> tuple[dict[str, list[object]], int]:
    """Let a durable subscription come, change and hear; return what it holds, and the portions."""
    dice = Random(seed)
    room = Room(limits={"work_portion": portion})
    person, host = room.enter(), room.broker.host
    names = [f"{dice.choice('ab')}.{number}" for number in range(30)]
    for name in names:
        person.send(f"/topic/{name}", f"{name} 0", retain=RETAIN)
    durable = host.make_durable("d")
    host.bind(durable, places("/topic/a.*"))
    portions = 0
    for number in range(1, 40):
        name = dice.choice(names)
        kind = dice.choice([0, 0, RETAIN, FORGET_RETAINED])
        if number == 10:
            host.bind(durable, places("/topic/a.*,/topic/b.*"))
        person.send(f"/topic/{name}", f"{name} {number}", retain=kind)
        if dice.random() < 0.5 and room.broker.jobs.is_any:
            room.broker.go_on(room.now)
            portions += 1
    while room.broker.jobs.is_any:
        room.broker.go_on(room.now)
        portions += 1
    assert not durable.heard_before
    assert durable.queue.suspended == 0
    return heard(durable), portions


@pytest.mark.parametrize("seed", range(30))
def test_a_durable_subscription_is_introduced_in_portions_as_if_at_once(seed: int) -> None:
    at_once, none = introduced(seed, 1_000_000)
    assert none == 0
    for portion in (1, 7):
        in_portions, count = introduced(seed, portion)
        assert count > 1
        assert in_portions == at_once


def test_a_durable_subscription_that_is_deleted_meanwhile_leaves_nothing_behind() -> None:
    room = Room(limits={"work_portion": PORTION})
    person, host = room.enter(), room.broker.host
    for number in range(50):
        person.send(f"/topic/a.{number}", "0", retain=RETAIN)
    host.bind(host.make_durable("d"), places("/topic/a.*"))
    assert [job.verb for job in room.broker.jobs.running()] == ["introduce"]
    host.delete_durable("d")
    while room.broker.jobs.is_any:
        room.broker.go_on(room.now)
    assert not any(topic.bindings for topic in host.topics.values())
