"""A message to very many readers goes in portions; each reader sees all in the order of sending."""

from __future__ import annotations

from covey.core.host.fan_out import MESSAGES_AN_ITEM
from tests.core.double import Person, Room, letter, places
from tests.doubles import Reader

PORTION = 3


class Hall(Room):
    """A broker that does three items a portion, and readers of topics."""

    def __init__(self) -> None:
        super().__init__()
        self.broker.jobs.allow(PORTION, 5.0, 10**6)
        self.people: list[Person] = []

    def hear(self, destination: str, count: int = 1) -> list[Reader]:
        """Let so many people read."""
        readers = []
        for _ in range(count):
            self.people.append(self.enter())
            readers.append(self.people[-1].read(destination))
        return readers

    def finish(self) -> None:
        while self.broker.jobs.is_any:
            self.broker.go_on(self.now)


def told(readers: list[Reader]) -> list[list[object]]:
    return [reader.names for reader in readers]


def test_few_readers_get_it_at_once() -> None:
    hall = Hall()
    readers = hall.hear("/topic/a", PORTION)
    hall.enter().send("/topic/a", "1")
    assert told(readers) == [["1"]] * PORTION
    assert not hall.broker.jobs.is_any


def test_very_many_get_it_portion_by_portion_and_its_sender_waits() -> None:
    hall = Hall()
    readers = hall.hear("/topic/a", 8)
    sender, other = hall.enter(), hall.enter()
    assert sender.send("/topic/a", "1") == ["1"]
    assert sum(reader.names == ["1"] for reader in readers) == PORTION
    assert (sender.session.must_wait, other.session.must_wait) == (True, False)
    assert [(job.verb, job.target) for job in hall.broker.jobs.running()] == [
        ("fan out", "topic a")
    ]
    hall.finish()
    assert told(readers) == [["1"]] * 8
    assert not sender.session.must_wait


def test_few_readers_get_very_many_messages_portion_by_portion() -> None:
    hall = Hall()
    readers = hall.hear("/topic/a", 2)
    for reader in readers:
        reader.is_presettled = False  # each message is a delivery of its own
    sender = hall.enter()
    count = 2 * PORTION * MESSAGES_AN_ITEM
    names = [str(number) for number in range(count)]
    for name in names:  # of one turn
        hall.broker.publishing.publish(sender.session, places("/topic/a"), letter(name))
    hall.broker.run(hall.now, sender.session)
    assert [len(reader.names) for reader in readers] == [count, 0]
    assert sender.session.must_wait
    hall.finish()
    assert told(readers) == [names, names]
    assert not sender.session.must_wait


def test_messages_of_several_senders_come_to_all_in_one_order() -> None:
    hall = Hall()
    readers = hall.hear("/topic/a", 10)
    for number in range(5):
        hall.enter().send("/topic/a", str(number))
    hall.finish()
    assert told(readers) == [["0", "1", "2", "3", "4"]] * 10


def test_a_reader_of_two_topics_sees_what_was_sent_first_first() -> None:
    hall = Hall()
    readers = hall.hear("/topic/*", 8)
    few = hall.hear("/topic/b", 1)
    for name in ("a", "b"):
        hall.broker.host.topic(name)
        hall.finish()  # it has met its readers, so no message has to wait for that
    hall.enter().send("/topic/a", "1")
    hall.enter().send("/topic/b", "2")
    hall.enter().send("/topic/a", "3")
    hall.finish()
    assert told(readers) == [["1", "2", "3"]] * 8
    assert told(few) == [["2"]]


def test_a_small_topic_does_not_wait_for_a_big_one_nor_overtake_it() -> None:
    hall = Hall()
    readers = hall.hear("/topic/a", 8)
    person = hall.people[7]
    both = person.read("/topic/b", "second")
    shared = hall.enter()
    one = shared.read("/topic/a,/topic/b")
    hall.enter().send("/topic/a", "1")
    assert one.names == []
    hall.enter().send("/topic/b", "2")
    assert (one.names, both.names) == (["1", "2"], ["2"])
    hall.finish()
    assert (told(readers), one.names) == ([["1"]] * 8, ["1", "2"])


def test_a_newcomer_gets_nothing_of_it_and_one_that_leaves_gets_all() -> None:
    hall = Hall()
    readers = hall.hear("/topic/a", 8)
    hall.enter().send("/topic/a", "1")
    leaving = hall.people[7]
    assert readers[7].names == []
    hall.broker.unsubscribe(leaving.session, "s", hall.now)
    assert readers[7].names == ["1"]
    late = hall.hear("/topic/a")
    hall.broker.drop(hall.people[6].session, hall.now)
    hall.finish()
    assert told([*readers[:6], readers[7]]) == [["1"]] * 7
    assert late[0].names == []
    hall.enter().send("/topic/a", "2")
    hall.finish()
    assert (told(readers[:6]), late[0].names) == ([["1", "2"]] * 6, ["2"])


def test_a_reader_that_does_not_keep_up_makes_the_sender_wait_in_a_later_portion_too() -> None:
    hall = Hall()
    hall.hear("/topic/a", 6)
    slow = hall.people[5].session.subscriptions["s"]
    slow.window.is_paused = True
    assert slow.feed is not None
    slow.feed.buffer_size = 0
    sender = hall.enter()
    sender.send("/topic/a", "1")
    hall.finish()
    assert sender.session.is_blocked
    assert "slow subscriber of topic a" in sender.session.blocked_on
    hall.broker.drop(hall.people[5].session, hall.now)
    hall.finish()
    assert not sender.session.must_wait
