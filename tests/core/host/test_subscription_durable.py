"""Durable subscriptions: what they hear, when it changes, and what the retained message does."""

from __future__ import annotations

from covey.core.model.message import RETAIN
from covey.core.selector import Selector
from tests.core.double import Person, Room, places
from tests.core.support import selector_of


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
    room.broker.hosts[0].delete_durable("d")
    assert reader.reason == "durable subscription d was destroyed"
    assert room.broker.hosts[0].topics["a"].audience == 0
    person.send("/topic/b.x", "unheard")
    assert room.broker.hosts[0].topics["b.x"].audience == 0
