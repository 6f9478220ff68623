"""A subscription that cannot read all that it must ends, and nobody else is harmed by it."""

from __future__ import annotations

import pytest

from covey.core.errors import RefusedError
from covey.core.host.subscription import Subscription
from covey.core.model.consumer import Window
from tests.core.double import Person, Room, places
from tests.core.support import selector_of
from tests.doubles import Heard, Reader

PORTION = 10


class Den(Room):
    """A broker whose queues bear two selectors, with an operator's ears."""

    def __init__(self, **limits: object) -> None:
        super().__init__(limits={"selectors_per_queue_max": 2, "work_portion": PORTION, **limits})
        self.heard = Heard()
        self.broker.host.audit = self.heard

    def fill(self, count: int) -> None:
        for number in range(count):
            self.broker.host.queue(f"many.{number}")

    def finish(self) -> None:
        self.broker.go_on(self.now)
        while self.broker.jobs.is_any or self.broker.turns.is_any_dirty:
            self.broker.go_on(self.now)


class Wish:
    """What somebody subscribes to, with what the client is told of its end."""

    def __init__(self, person: Person, destination: str, selector: str = "") -> None:
        self.person = person
        self.told: list[RefusedError] = []
        self.readers: list[Reader] = []
        self.window = Window(1000)
        self.selector = selector_of(selector)
        self.subscription = Subscription(person.session, "s", self.window, self.make)
        self.subscription.lost = self.told.append
        room = person.room
        self.job = room.broker.subscribe(
            person.session, self.subscription, places(destination), room.now
        )

    def make(self) -> Reader:
        reader = Reader(self.window, self.person.session)
        reader.selector = self.selector
        self.readers.append(reader)
        return reader

    def leave(self) -> None:
        """Do what a protocol does once it has told its client."""
        room = self.person.room
        room.broker.unsubscribe(self.person.session, "s", room.now)


def test_a_new_queue_that_some_cannot_read_is_made_and_handed_out() -> None:
    den = Den()
    wishes = [Wish(den.enter(f"u{n}"), "/queue/a.*", f"name = 'm{n}'") for n in range(4)]
    sender = den.enter()
    assert sender.send("/queue/a.1", "m1") == ["m1"]
    den.finish()
    assert [len(wish.told) for wish in wishes] == [0, 0, 1, 1]
    assert wishes[1].readers[0].names == ["m1"]
    error = wishes[2].told[0]
    assert error.code == "limit"
    assert "subscription s ends: it cannot read the new queue a.1" in error.text
    assert "selectors_per_queue_max" in error.text
    told = [line for line in den.heard.all if line[0] == "subscription ended"]
    assert [line[1] for line in told] == ["u2", "u3"]


def test_who_is_told_once_meets_no_other_queue() -> None:
    den = Den()
    wishes = [Wish(den.enter(), "/queue/a.*", f"name = 'm{n}'") for n in range(3)]
    sender = den.enter()
    sender.send("/queue/a.1", "x")
    sender.send("/queue/a.2", "x")
    assert [len(wish.told) for wish in wishes] == [0, 0, 1]
    wishes[2].leave()
    den.finish()
    assert den.broker.host.patterns == 2


def test_a_wide_subscription_that_is_refused_at_once_reads_nothing() -> None:
    den = Den()
    den.fill(5)
    for number in range(2):
        Wish(den.enter(), "/queue/many.4", f"name = 'm{number}'")
    person = den.enter()
    with pytest.raises(RefusedError, match=r"many\.4"):
        Wish(person, "/queue/many.*", "name = 'x'")
    den.finish()
    assert not person.session.subscriptions
    queues = den.broker.host.queues.values()
    assert sum(len(queue.state.consumers) for queue in queues) == 2


def test_one_that_is_refused_late_is_told_and_its_session_lives() -> None:
    den = Den()
    den.fill(35)
    for number in range(2):
        Wish(den.enter(), "/queue/many.34", f"name = 'm{number}'")
    wish = Wish(den.enter(), "/queue/many.*", "name = 'x'")
    assert not wish.job.is_over
    den.finish()
    assert [error.code for error in wish.told] == ["limit"]
    assert wish.person.kicks == []
    wish.leave()
    den.finish()
    queues = den.broker.host.queues.values()
    assert sum(len(queue.state.consumers) for queue in queues) == 2


def test_one_that_a_new_queue_refuses_while_it_subscribes_goes_no_further() -> None:
    den = Den()
    den.fill(35)
    others = [Wish(den.enter(), "/queue/many.n*", f"name = 'm{number}'") for number in range(2)]
    wish = Wish(den.enter(), "/queue/many.*", "name = 'x'")
    den.enter().send("/queue/many.new", "m1")
    den.finish()
    assert [len(each.told) for each in [wish, *others]] == [1, 0, 0]
    assert wish.job.is_over
    assert sum(reader.queue is not None for reader in wish.readers) == PORTION


def test_without_a_protocol_that_knows_better_the_connection_ends() -> None:
    den = Den()
    people = [den.enter() for _ in range(3)]
    for number, person in enumerate(people):
        person.read("/queue/a.*", selector=f"name = '{number}'")
    den.enter().send("/queue/a.1", "x")
    assert [len(person.kicks) for person in people] == [0, 0, 1]


def test_a_queue_that_something_unforeseen_befalls_does_not_stand_still_for_ever() -> None:
    den = Den()
    broken = Wish(den.enter(), "/queue/a.*")

    def make() -> Reader:
        raise ArithmeticError

    broken.subscription.make = make
    with pytest.raises(ArithmeticError):
        den.enter().send("/queue/a.1", "x")
    assert not den.broker.host.queues["a.1"].suspended
