"""Topics: everybody gets each message, and newcomers the retained one."""

from __future__ import annotations

from covey.config.settings import BrokerSettings
from covey.core.model.message import FORGET_RETAINED, RETAIN
from tests.core.double import Person, Room, letter, places


def test_every_subscriber_gets_each_message_and_nobody_keeps_it() -> None:
    room = Room()
    person = room.enter()
    person.send("/topic/a", "early")
    readers = [person.read("/topic/a", name) for name in ("1", "2")]
    person.send("/topic/a", "x")
    assert [reader.names for reader in readers] == [["x"], ["x"]]


def test_a_newcomer_gets_the_retained_message_first() -> None:
    person = Room().enter()
    person.send("/topic/a", "old", retain=RETAIN)
    person.send("/topic/a", "new", retain=RETAIN)
    person.send("/topic/a", "plain")
    reader = person.read("/topic/a")
    person.send("/topic/a", "live")
    assert reader.names == ["new", "live"]


def test_a_pattern_gets_what_each_topic_retained() -> None:
    person = Room().enter()
    for name in ("a", "b"):
        person.send(f"/topic/x.{name}", name, retain=RETAIN)
    assert sorted(map(str, person.read("/topic/x.*").names)) == ["a", "b"]


def test_forgetting_is_a_message_too() -> None:
    person = Room().enter()
    person.send("/topic/a", "old", retain=RETAIN)
    reader = person.read("/topic/a", "1")
    person.send("/topic/a", "bye", retain=FORGET_RETAINED)
    assert reader.names == ["old", "bye"]
    assert person.read("/topic/a", "2").names == []


def test_one_who_listens_twice_hears_once() -> None:
    person = Room().enter()
    reader = person.read("/topic/a,/topic/*")
    person.send("/topic/a", "x")
    assert reader.names == ["x"]


def gather(person: Person, destination: str, *names: str, **options: int) -> None:
    """Publish within one turn, which goes on."""
    for name in names:
        message = letter(name, **options)
        person.room.broker.publishing.publish(person.session, places(destination), message)


def test_what_comes_in_a_row_is_handed_out_at_the_end_of_the_turn() -> None:
    person = Room().enter()
    reader = person.read("/topic/a")
    gather(person, "/topic/a", "1", "2")
    assert reader.names == []
    person.room.broker.run(person.room.now)
    assert reader.names == ["1", "2"]


def test_what_is_gathered_is_bounded() -> None:
    person = Room().enter()
    reader = person.read("/topic/a")
    gather(person, "/topic/a", "1", "2", "3", size=BrokerSettings().topic_batch // 2)
    assert reader.names == ["1", "2", "3"]


def test_a_reader_of_two_topics_sees_the_order_of_sending() -> None:
    person = Room().enter()
    reader = person.read("/topic/x.*")
    for number, name in enumerate("abba"):
        gather(person, f"/topic/x.{name}", str(number))
    person.room.broker.run(person.room.now)
    assert reader.names == ["0", "1", "2", "3"]


def test_who_comes_or_goes_within_the_turn_hears_what_is_sent_meanwhile() -> None:
    person = Room().enter()
    first = person.read("/topic/a", "first")
    gather(person, "/topic/a", "1", retain=RETAIN)
    second = person.read("/topic/a", "second")
    gather(person, "/topic/a", "2")
    person.room.broker.unsubscribe(person.session, "first", person.room.now)
    gather(person, "/topic/a", "3")
    person.room.broker.run(person.room.now)
    assert (first.names, second.names) == (["1", "2"], ["1", "2", "3"])


def test_every_sender_of_what_a_slow_reader_has_yet_to_read_waits_for_it() -> None:
    room = Room()
    reader, *senders = room.enter(), room.enter(), room.enter()
    slow = reader.read("/topic/a", "slow", credit=0)
    for sender in senders:
        gather(sender, "/topic/a", "small")
    room.broker.run(room.now)
    assert not any(sender.session.is_blocked for sender in senders)
    for sender in senders:
        gather(sender, "/topic/a", "big", size=10**6)
    room.broker.run(room.now)
    assert all(sender.session.is_blocked for sender in senders)
    slow.window.grant(4, 0)
    assert not any(sender.session.is_blocked for sender in senders)
