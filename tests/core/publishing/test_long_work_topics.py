"""A message to a topic that fills very many queues goes in portions, and all of them get it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from covey.config.queues import QueueSettings
from covey.core.errors import RefusedError
from covey.core.model.consumer import Window
from covey.core.model.entry import Outcome
from covey.core.model.message import RETAIN
from covey.core.naming.destination import Destination, Kind
from tests.core.double import Person, Room, letter, places
from tests.core.publishing.test_long_work import PORTION, Bureau
from tests.core.storage.sqlite.support import Note, bodies
from tests.core.support import Reader

COUNT = 10
TOPIC = (Destination(Kind.TOPIC, "t"),)


class Hall(Room):
    """A broker that does three items a portion, and a topic with ten durable subscriptions."""

    def __init__(self, *queues: QueueSettings, limits: dict[str, object] | None = None) -> None:
        super().__init__(*queues, limits=limits)
        self.people = [self.enter() for _ in range(2)]
        for number in range(COUNT):
            self.keep(f"d{number}")
        self.broker.jobs.allow(PORTION, 5.0, 10**6)

    def keep(self, name: str) -> None:
        session = self.people[0].session
        self.broker.make_durable(session, name, places("/topic/t"), None, self.now)

    def names(self, name: str) -> list[str]:
        """Return what a durable subscription holds, in order."""
        index = self.broker.host.durables[name].queue.state.index
        return [str(entry.content.lookup("name")) for entry in index]

    @property
    def all_names(self) -> list[list[str]]:
        return [self.names(f"d{number}") for number in range(COUNT)]

    def put(self, count: int) -> None:
        """Go on until so many durable subscriptions have the first message."""
        while sum(bool(names) for names in self.all_names) < count:
            self.broker.go_on(self.now)

    def finish(self) -> None:
        self.broker.go_on(self.now)
        while self.broker.jobs.is_any or self.broker.turns.is_due:
            self.broker.go_on(self.now)


def test_its_sender_alone_waits_and_is_told_when_all_have_it() -> None:
    hall = Hall()
    sender, other = hall.people
    done = sender.send("/topic/t", "a")
    assert [job.verb for job in hall.broker.jobs.running()] == ["send"]
    assert sender.session.must_wait
    hall.put(4)
    assert (done, sum(map(len, hall.all_names)) < COUNT) == ([], True)
    assert other.send("/queue/q", "b") == ["b"]
    hall.finish()
    assert (done, sender.session.must_wait) == (["a"], False)
    assert hall.all_names == [["a"]] * COUNT


def test_all_have_the_messages_of_several_senders_in_one_order() -> None:
    hall = Hall()
    first, second = hall.people
    reader = hall.enter().read("/topic/t")
    done = first.send("/topic/t", "a")
    hall.put(4)
    done += second.send("/topic/t", "b")
    assert second.session.must_wait
    hall.finish()
    assert hall.all_names == [["a", "b"]] * COUNT
    assert reader.names == ["a", "b"]
    assert not second.session.must_wait


def test_a_topic_with_few_queues_takes_a_message_at_once() -> None:
    hall = Hall()
    hall.broker.jobs.allow(COUNT, 5.0, 10**6)
    assert hall.people[0].send("/topic/t", "a") == ["a"]
    assert not hall.broker.jobs.is_any


def test_a_sender_that_goes_has_sent_it() -> None:
    for turns in range(8):
        hall = Hall()
        hall.people[1].send("/topic/t", "a")
        for _ in range(turns):
            hall.broker.go_on(hall.now)
        hall.broker.drop(hall.people[1].session, hall.now)
        hall.finish()
        assert hall.all_names == [["a"]] * COUNT


def test_who_comes_or_goes_meanwhile_hears_it_or_not_and_nobody_hears_it_twice() -> None:
    hall = Hall()
    hall.people[1].send("/topic/t", "old", retain=RETAIN)
    hall.finish()
    hall.people[1].send("/topic/t", "new", retain=RETAIN)
    while hall.names("d3") == ["old"]:
        hall.broker.go_on(hall.now)
    hall.broker.host.delete_durable("d9")
    hall.keep("late")
    reader = hall.enter().read("/topic/t")
    assert (hall.names("late"), reader.names) == (["old"], ["old"])
    hall.finish()
    assert [hall.names(f"d{number}") for number in range(9)] == [["old", "new"]] * 9
    assert (hall.names("late"), reader.names) == (["old", "new"], ["old", "new"])


def test_a_topic_that_is_deleted_meanwhile_is_free_again_for_who_sends_to_its_name() -> None:
    hall = Hall()
    hall.people[0].send("/topic/t", "a")
    hall.put(4)
    hall.broker.host.delete_topic("t")
    done = hall.people[1].send("/topic/t", "b")
    hall.finish()
    assert done == ["b"]
    assert not any(person.session.must_wait for person in hall.people)
    assert hall.all_names[0] == ["a", "b"]


def test_a_topic_that_is_deleted_and_cannot_be_made_again_leaves_no_queue_of_its_name() -> None:
    hall = Hall(limits={"topics_max": 2})
    sender = hall.people[0]
    begun = hall.broker.transactions.begin(sender.session, "t")
    for number in range(5):
        begun.send(places("/queue/q"), letter(f"{number}"))
    begun.send(places("/topic/gone"), letter("last"))
    told: list[str] = []
    hall.broker.transactions.commit(sender.session, "t", hall.now, partial(told.append, "t"))
    while hall.depth("q") == 0:
        hall.broker.go_on(hall.now)
    hall.broker.host.delete_topic("gone")
    hall.people[1].send("/topic/other", "x")
    hall.finish()
    assert told == ["t"]
    assert "gone" not in hall.broker.host.queues


# Room.


def crowded(policy: Literal["block", "reject"]) -> tuple[Hall, Person]:
    """Return a hall with a queue for one message, and somebody in it."""
    hall = Hall(QueueSettings(id="small", quota_messages=1, full_policy=policy))
    return hall, hall.people[0]


def test_a_composite_with_a_full_queue_leaves_nothing_and_its_sender_is_told() -> None:
    hall, sender = crowded("reject")
    sender.send("/queue/small", "x")
    sender.send("/topic/t,/queue/small", "a")
    hall.finish()
    assert hall.all_names == [[]] * COUNT
    assert len(sender.kicks) == 1
    assert "small is full" in sender.kicks[0]
    assert not hall.people[1].session.must_wait
    assert hall.people[1].send("/topic/t", "b") is not None
    hall.finish()
    assert hall.all_names == [["b"]] * COUNT


def test_it_waits_for_room_in_line_and_others_do_not_wait_for_it() -> None:
    hall, sender = crowded("block")
    sender.send("/queue/small", "x")
    done = sender.send("/topic/t,/queue/small", "a")
    for _ in range(20):
        hall.broker.go_on(hall.now)
    assert (sender.session.is_blocked, hall.all_names) == (True, [[]] * COUNT)
    hall.people[1].send("/topic/t", "b")
    for _ in range(20):
        hall.broker.go_on(hall.now)
    assert hall.all_names == [["b"]] * COUNT
    reading = hall.enter()
    reading.settle(reading.read("/queue/small"))
    hall.finish()
    assert (done, sender.session.must_wait) == (["a"], False)
    assert hall.all_names == [["b", "a"]] * COUNT


def test_a_sender_that_goes_while_it_waits_for_room_has_sent_nothing() -> None:
    for turns in (0, 20):
        hall, sender = crowded("block")
        sender.send("/queue/small", "x")
        sender.send("/topic/t,/queue/small", "a")
        for _ in range(turns):
            hall.broker.go_on(hall.now)
        hall.broker.drop(sender.session, hall.now)
        hall.finish()
        assert hall.all_names == [[]] * COUNT
        assert hall.broker.publishing.waiting_work.sessions() == []
        hall.people[1].send("/topic/t", "b")
        hall.finish()
        assert hall.all_names == [["b"]] * COUNT


def test_room_that_was_found_is_kept_until_the_message_is_there() -> None:
    hall, sender = crowded("reject")
    done = sender.send("/topic/t,/queue/small", "a")
    hall.put(1)
    with pytest.raises(RefusedError, match="is full"):
        hall.people[1].send("/queue/small", "x")
    hall.finish()
    assert (done, hall.depth("small")) == (["a"], 1)
    queue = hall.broker.host.queues["small"]
    assert (queue.promised, queue.promised_size) == (0, 0)


# Transactions, and the disk.


def test_a_short_commit_with_such_a_message_is_done_in_portions_too() -> None:
    hall, sender = crowded("reject")
    for is_full in (True, False):
        hall.people[1].send("/queue/in", "task")
        reader = sender.read("/queue/in", "in")
        begun = hall.broker.transactions.begin(sender.session, "t")
        begun.send(places("/topic/t"), letter("a"))
        begun.send(places("/queue/small"), letter("b"))
        begun.settle(reader.entries[-1], Outcome.ACCEPTED, hall.now)
        if is_full:
            hall.people[1].send("/queue/small", "x")
        told: list[str] = []
        done = partial(told.append, "t")
        hall.broker.transactions.commit(sender.session, "t", hall.now, done)
        hall.finish()
        assert sender.session.transactions == {}
        assert (len(sender.kicks), told) == ((1, []) if is_full else (1, ["t"]))
        assert hall.all_names == ([[]] * COUNT if is_full else [["a"]] * COUNT)
        hall.broker.unsubscribe(sender.session, "in", hall.now)
        assert hall.depth("in") == is_full
        taker = hall.enter()
        taker.settle(taker.read("/queue/small"))
        taker.settle(taker.read("/queue/in", "in"))
        hall.broker.drop(taker.session, hall.now)


def wide(directory: Path) -> Bureau:
    """Return a broker with a store and the topic."""
    house = Bureau(directory)
    for number in range(COUNT):
        house.broker.make_durable(house.session, f"d{number}", TOPIC, None, 0.0)
    house.rest()
    return house


def held(house: Bureau) -> list[list[bytes]]:
    """Read all durable subscriptions."""
    readers = [Reader(Window(10)) for _ in range(COUNT)]
    for number, reader in enumerate(readers):
        house.host.durables[f"d{number}"].queue.join(reader, house.now)
    house.rest()
    return [bodies(reader) for reader in readers]


def sent(house: Bureau) -> list[str]:
    """Send a message to the topic; the list tells when it is confirmed."""
    told: list[str] = []
    publish = house.broker.publishing.publish
    publish(house.session, TOPIC, Note(b"a"), lambda: told.append("a"))
    house.broker.run(house.now, house.session)
    return told


def test_a_kill_amid_leaves_nothing_of_it_and_one_after_it_was_confirmed_all_of_it(
    tmp_path: Path,
) -> None:
    for turns in range(12):
        house = wide(tmp_path / f"{turns}" / "1")
        told = sent(house)
        for _ in range(turns):
            house.broker.go_on(house.now)
            house.rest()
        was_told = bool(told)
        house = house.killed(tmp_path / f"{turns}" / "2")
        found = held(house)
        assert found in ([[]] * COUNT, [[b"a"]] * COUNT)
        assert found[0] or not was_told
        house.store.close()
    assert was_told
