"""Topics: everybody gets each message, and newcomers the retained one."""

from __future__ import annotations

from covey.core.message import FORGET_RETAINED, RETAIN
from tests.core.double import Room, letter


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


def test_publish_names_those_who_do_not_keep_up() -> None:
    room = Room()
    person = room.enter()
    person.read("/topic/a", "quick")
    slow = person.read("/topic/a", "slow", credit=0)
    topic = room.broker.hosts[0].topics["a"]
    assert topic.publish(letter("small")) == []
    assert [feed.consumer for feed in topic.publish(letter("big", size=10**6))] == [slow]
