"""A topic meets very many listeners in portions; its messages wait, and nobody else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.model.message import RETAIN
from covey.core.naming.destination import Destination, Kind
from tests.core.double import Room, letter, places
from tests.core.security.test_permissions import person, rule
from tests.core.storage.sqlite.support import House, Note, snapshot
from tests.core.support import depth
from tests.doubles import Reader

PORTION = 3


class Hall(Room):
    """A broker that does three items a portion."""

    def __init__(self) -> None:
        super().__init__()
        self.broker.jobs.allow(PORTION, 5.0, 10**6)

    def hear(self, destination: str, count: int = 1) -> list[Reader]:
        """Let so many people read."""
        return [self.enter().read(destination) for _ in range(count)]

    def keep(self, destination: str, count: int) -> list[str]:
        """Make so many durable subscriptions; return their names."""
        person = self.enter()
        names = [f"d{number}" for number in range(count)]
        for name in names:
            self.broker.make_durable(person.session, name, places(destination), None, self.now)
        self.finish()
        return names

    def kept(self, name: str) -> list[object]:
        """Tell what a durable subscription holds."""
        queue = self.broker.host.durable(name).queue
        return [entry.content.lookup("name") for entry in queue.state.index]

    def finish(self) -> None:
        """Do all that is under way."""
        while self.broker.jobs.is_any or self.broker.turns.is_any_dirty:
            self.broker.go_on(self.now)


def told(readers: list[Reader]) -> list[list[object]]:
    return [reader.names for reader in readers]


def test_the_first_message_of_a_new_topic_waits_until_all_are_met() -> None:
    hall = Hall()
    readers = hall.hear("/topic/**", 10)
    sender, other = hall.enter(), hall.enter()
    done = sender.send("/topic/a", "1")
    assert (done, told(readers), sender.session.must_wait) == ([], [[]] * 10, True)
    assert [(job.verb, job.target) for job in hall.broker.jobs.running()] == [("meet", "topic a")]
    assert "topic a" in sender.session.blocked_on
    assert other.send("/queue/q", "x") == ["x"]
    turns = 0
    while not done:
        hall.broker.go_on(hall.now)
        turns += 1
    assert turns == 3  # 10 listeners, and the first 3 were met at once
    hall.finish()
    assert (done, told(readers), sender.session.must_wait) == (["1"], [["1"]] * 10, False)


def test_few_are_met_at_once() -> None:
    hall = Hall()
    readers = hall.hear("/topic/**", PORTION)
    assert hall.enter().send("/topic/a", "1") == ["1"]
    assert (told(readers), hall.broker.jobs.is_any) == ([["1"]] * PORTION, False)


def test_a_topic_that_is_in_use_meets_only_those_that_came_since() -> None:
    hall = Hall()
    readers = hall.hear("/topic/**", 10)
    sender = hall.enter()
    sender.send("/topic/a", "1")
    hall.finish()
    late = hall.hear("/topic/*", 2)
    hall.broker.jobs.portion = 12  # so that the message itself reaches all in one portion
    assert sender.send("/topic/a", "2") == ["2"]
    hall.broker.jobs.portion = PORTION
    more = hall.hear("/topic/a*", 8)
    sender.send("/topic/a", "3")
    assert [job.total for job in hall.broker.jobs.running()] == [8]
    hall.finish()
    assert told(readers) == [["1", "2", "3"]] * 10
    assert told(late) == [["2", "3"]] * 2
    assert told(more) == [["3"]] * 8


def test_messages_of_all_senders_wait_in_line_for_it() -> None:
    hall = Hall()
    readers = hall.hear("/topic/**", 10)
    done = [hall.enter().send("/topic/a", str(number)) for number in range(4)]
    assert done == [[]] * 4
    hall.finish()
    assert told(readers) == [["0", "1", "2", "3"]] * 10
    assert done == [["0"], ["1"], ["2"], ["3"]]


def test_durable_subscriptions_by_pattern_are_met_in_portions_and_have_the_first_message() -> None:
    hall = Hall()
    names = hall.keep("/topic/a.**", 10)
    done = hall.enter().send("/topic/a.b", "1")
    assert done == []
    hall.finish()
    assert done == ["1"]
    assert [hall.kept(name) for name in names] == [["1"]] * 10


def test_who_goes_or_changes_its_wishes_meanwhile_is_left_out() -> None:
    hall = Hall()
    readers = hall.hear("/topic/**", 6)
    leaving = hall.enter()
    gone = leaving.read("/topic/**")
    names = hall.keep("/topic/**", 3)
    done = hall.enter().send("/topic/a", "1")
    hall.broker.unsubscribe(leaving.session, "s", hall.now)
    person = hall.enter()
    hall.broker.make_durable(person.session, names[1], places("/topic/other"), None, hall.now)
    hall.broker.host.delete_durable(names[2])
    hall.finish()
    assert (done, told(readers), gone.names) == (["1"], [["1"]] * 6, [])
    assert (hall.kept(names[0]), hall.kept(names[1])) == (["1"], [])
    assert hall.broker.host.topics["a"].audience == 7


def test_who_comes_meanwhile_hears_it_too() -> None:
    hall = Hall()
    readers = hall.hear("/topic/**", 8)
    done = hall.enter().send("/topic/a", "1", retain=RETAIN)
    named, by_pattern = hall.hear("/topic/a")[0], hall.hear("/topic/**")[0]
    hall.finish()
    assert (done, told([*readers, named, by_pattern])) == (["1"], [["1"]] * 10)


def test_the_retained_message_comes_before_the_next_to_each_of_them() -> None:
    hall = Hall()
    sender = hall.enter()
    sender.send("/topic/a", "kept", retain=RETAIN)
    names = hall.keep("/topic/**", 8)
    sender.send("/topic/a", "1")
    hall.finish()
    assert [hall.kept(name) for name in names] == [["kept", "1"]] * 8


def test_the_rights_that_hold_when_its_turn_comes_are_what_counts() -> None:
    hall = Hall()
    readers = [person(hall, "ann", rule("ann", "*")).read("/topic/**") for _ in range(8)]
    hall.enter().send("/topic/a", "1")
    person(hall, "ann", rule("ann", "*", "queue:**"), rule("admin", "*"))
    hall.finish()
    assert told(readers) == [["1"]] * 3 + [[]] * 5


def test_an_unused_topic_is_not_swept_away_while_it_is_held() -> None:
    hall = Hall()
    hall.enter().send("/topic/a", "before")
    readers = hall.hear("/topic/**", 8)
    hall.now += 10_000.0
    hall.broker.turn(hall.now)
    done = hall.enter().send("/topic/a", "1")
    assert hall.broker.host.topics["a"].is_held
    hall.broker.host.remove_topic_if_unused("a")
    hall.finish()
    assert (done, told(readers)) == (["1"], [["1"]] * 8)


def test_a_topic_that_is_deleted_meanwhile_is_made_again_by_the_message() -> None:
    hall = Hall()
    readers = hall.hear("/topic/**", 8)
    done = hall.enter().send("/topic/a", "1")
    hall.broker.host.delete_topic("a")
    hall.finish()
    assert (done, told(readers)) == (["1"], [["1"]] * 8)


def test_a_sender_that_goes_takes_its_message_along_and_the_others_go_on() -> None:
    hall = Hall()
    readers = hall.hear("/topic/**", 8)
    first, second = hall.enter(), hall.enter()
    first.send("/topic/a", "1")
    second.send("/topic/a", "2")
    hall.broker.drop(first.session, hall.now)
    hall.finish()
    assert told(readers) == [["2"]] * 8


@pytest.mark.parametrize("count", [2, 9])
def test_a_commit_waits_for_it_with_all_of_its_messages(count: int) -> None:
    hall = Hall()
    readers = hall.hear("/topic/**", 8)
    person = hall.enter()
    begun = hall.broker.transactions.begin(person.session, "t")
    for number in range(count):
        begun.send(places(f"/topic/{'ab'[number % 2]}"), letter(str(number)))
    done: list[str] = []
    hall.broker.transactions.commit(person.session, "t", hall.now, lambda: done.append("t"))
    assert (done, told(readers)) == ([], [[]] * 8)
    hall.finish()
    assert done == ["t"]
    for reader in readers:
        assert sorted(map(str, reader.names)) == [str(number) for number in range(count)]


def test_a_kill_amid_it_leaves_the_message_to_none_of_them(tmp_path: Path) -> None:
    house = House(tmp_path / "1")
    house.broker.jobs.allow(PORTION, 5.0, 10**6)
    for number in range(8):
        name = f"d{number}"
        house.broker.make_durable(house.session, name, places("/topic/**"), None, house.now)
    house.rest()
    told: list[str] = []
    target = (Destination(Kind.TOPIC, "a"),)
    house.broker.publishing.publish(house.session, target, Note(b"1"), lambda: told.append("1"))
    for portion in range(2):
        house.rest()
        killed = House(snapshot(house.directory, tmp_path / f"killed {portion}"))
        assert (told, sum(depth(queue) for queue in killed.host.all_queues())) == ([], 0)
        killed.store.close()
        house.broker.go_on(house.now)
    house.rest()
    while house.broker.jobs.is_any:
        house.broker.go_on(house.now)
        house.rest()
    killed = House(snapshot(house.directory, tmp_path / "2"))
    assert (told, sum(depth(queue) for queue in killed.host.all_queues())) == (["1"], 8)
    killed.store.close()
    house.store.close()
