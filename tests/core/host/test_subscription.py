"""Subscriptions: one window over many sources, and a clean end."""

from __future__ import annotations

from covey.core.host.subscription import Subscription, settle
from covey.core.model.consumer import Consumer, Window
from covey.core.model.entry import Outcome
from tests.core.double import Person, Reader, Room, places


def subscribe(person: Person, destination: str, credit: int) -> tuple[Window, list[Reader]]:
    """Subscribe with a reader for each source."""
    window = Window(credit)
    readers: list[Reader] = []

    def make() -> Consumer:
        readers.append(Reader(person.session, window))
        return readers[-1]

    subscription = Subscription(person.session, "s", window, make)
    room = person.room
    room.broker.subscribe(person.session, subscription, places(destination), room.now)
    room.broker.run(room.now)
    return window, readers


def test_all_sources_share_one_window() -> None:
    person = Room().enter()
    window, readers = subscribe(person, "/queue/a,/queue/b,/topic/c", 2)
    for destination in ("/queue/a", "/queue/b", "/topic/c"):
        person.send(destination, destination)
    assert [name for reader in readers for name in reader.names] == ["/queue/a", "/queue/b"]
    window.grant(1, 0)
    assert readers[2].names == ["/topic/c"]


def test_topics_share_one_consumer_and_queues_have_one_each() -> None:
    person = Room().enter()
    _, readers = subscribe(person, "/topic/a,/topic/b,/queue/a,/queue/a,/queue/b", 9)
    assert len(readers) == 3


def test_detaching_lets_go_of_everything() -> None:
    room = Room()
    person = room.enter()
    window, readers = subscribe(person, "/topic/a,/queue/a", 9)
    room.broker.unsubscribe(person.session, "s", room.now)
    assert window.consumers == []
    assert all(reader.is_gone for reader in readers)
    assert room.broker.hosts[0].topics["a"].audience == 0


def test_settle_finds_where_an_entry_came_from() -> None:
    room = Room()
    person = room.enter()
    _, readers = subscribe(person, "/topic/a,/queue/a", 9)
    person.send("/topic/a,/queue/a", "x")
    for reader in readers:
        settle(reader.entries[0], Outcome.ACCEPTED, room.now)
        settle(reader.entries[0], Outcome.ACCEPTED, room.now)
    assert [reader.unsettled for reader in readers] == [{}, {}]
    assert room.depth("a") == 0
