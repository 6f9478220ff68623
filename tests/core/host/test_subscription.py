"""Subscriptions: one window over many sources, and a clean end."""

from __future__ import annotations

from covey.core.host.subscription import Subscription, settle
from covey.core.model.consumer import Consumer, Window
from covey.core.model.entry import Outcome
from covey.core.model.message import RETAIN
from covey.core.selector import Selector
from tests.core.double import Person, Room, places
from tests.core.support import selector_of
from tests.doubles import Reader


def subscribe(person: Person, destination: str, credit: int) -> tuple[Window, list[Reader]]:
    """Subscribe with a reader for each source."""
    window = Window(credit)
    readers: list[Reader] = []

    def make() -> Consumer:
        readers.append(Reader(window, person.session))
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
    assert not window.consumers
    assert all(reader.is_gone for reader in readers)
    assert room.broker.host.topics["a"].audience == 0


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


# Durable subscriptions: what they hear, when it changes, and what the retained message does.


def bind(person: Person, topics: str, selector: Selector | None = None) -> None:
    room = person.room
    room.broker.make_durable(person.session, "d", places(topics), selector, room.now)


def test_it_hears_its_topics_while_nobody_reads() -> None:
    person = Room().enter()
    bind(person, "/topic/a,/topic/b.*")
    for name in ("a", "b.later", "c"):
        person.send(f"/topic/{name}", name)
    assert person.read("/dsub/d").names == ["a", "b.later"]


def test_rebinding_hears_the_new_topics_and_no_others() -> None:
    person = Room().enter()
    bind(person, "/topic/a,/topic/x.*")
    bind(person, "/topic/b")
    for name in ("a", "b", "x.1"):
        person.send(f"/topic/{name}", name)
    assert person.read("/dsub/d").names == ["b"]


def test_what_was_queued_before_a_change_stays() -> None:
    person = Room().enter()
    bind(person, "/topic/a")
    person.send("/topic/a", "old")
    bind(person, "/topic/a", selector_of("name = 'new'"))
    person.send("/topic/a", "old")
    person.send("/topic/a", "new")
    assert person.read("/dsub/d").names == ["old", "new"]


def test_the_retained_message_comes_once_for_each_new_topic() -> None:
    person = Room().enter()
    for name in ("a", "b"):
        person.send(f"/topic/{name}", name, retain=RETAIN)
    bind(person, "/topic/a")
    bind(person, "/topic/a")
    bind(person, "/topic/a,/topic/b")
    assert person.read("/dsub/d").names == ["a", "b"]


def test_destroying_it_forgets_everything() -> None:
    room = Room()
    person = room.enter()
    bind(person, "/topic/a,/topic/b.*")
    reader = person.read("/dsub/d")
    room.broker.host.delete_durable("d")
    assert reader.reason == "durable subscription d was destroyed"
    assert room.broker.host.topics["a"].audience == 0
    person.send("/topic/b.x", "unheard")
    assert room.broker.host.topics["b.x"].audience == 0
