"""Consumers are counted, for their users and in all; nobody gets more of them than is allowed."""

from __future__ import annotations

import pytest

from covey.config.settings import Settings
from covey.core.errors import RefusedError
from covey.core.host.subscription import Subscription
from covey.core.management.reload import reconfigure
from covey.core.model.consumer import Consumer, Window
from tests.core.double import Person, Room, places
from tests.doubles import Heard, Reader

PORTION = 10


class Den(Room):
    """A broker with an operator's ears."""

    def __init__(self, **limits: object) -> None:
        super().__init__(limits={"work_portion": PORTION, **limits})
        self.heard = Heard()
        self.broker.host.audit = self.heard

    def fill(self, count: int) -> None:
        for number in range(count):
            self.broker.host.queue(f"many.{number}")

    def finish(self) -> None:
        self.broker.go_on(self.now)
        while self.broker.jobs.is_any or self.broker.turns.is_any_dirty:
            self.broker.go_on(self.now)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Tell how many consumers are counted: in all, of ann, of bob."""
        consumers = self.broker.host.consumers
        return consumers.count, consumers.of("ann"), consumers.of("bob")


class Wide:
    """A subscription of somebody who ends it when told to."""

    def __init__(self, person: Person, destination: str, name: str = "s") -> None:
        self.person = person
        self.told: list[RefusedError] = []
        self.window = Window(1000)
        self.subscription = Subscription(person.session, name, self.window, self.make)
        self.subscription.lost = self.told.append
        room = person.room
        self.job = room.broker.subscribe(
            person.session, self.subscription, places(destination), room.now
        )

    def make(self) -> Consumer:
        return Reader(self.window, self.person.session)

    def leave(self) -> None:
        room = self.person.room
        room.broker.unsubscribe(self.person.session, self.subscription.name, room.now)


def test_each_queue_that_a_subscription_reads_counts_until_it_is_left() -> None:
    den = Den()
    den.fill(35)
    ann, bob = den.enter("ann"), den.enter("bob")
    wide = Wide(ann, "/queue/many.*")
    assert den.counts == (PORTION, PORTION, 0)
    den.finish()
    Wide(bob, "/queue/many.1,/queue/many.2")
    assert den.counts == (37, 35, 2)
    wide.leave()
    assert 0 < den.counts[1] < 35
    den.finish()
    assert den.counts == (2, 0, 2)
    den.broker.drop(bob.session, den.now)
    assert den.counts == (0, 0, 0)


def test_who_has_all_that_one_user_may_have_gets_no_more_and_others_do() -> None:
    den = Den(consumers_per_user_max=2)
    den.fill(3)
    ann = den.enter("ann")
    Wide(ann, "/queue/many.0,/queue/many.1")
    with pytest.raises(RefusedError, match="user ann has 2 consumers already") as caught:
        Wide(den.enter("ann"), "/queue/many.2")
    assert (caught.value.code, "consumers_per_user_max" in caught.value.text) == ("limit", True)
    Wide(den.enter("bob"), "/queue/many.0")
    assert den.counts == (3, 2, 1)


def test_all_together_have_no_more_than_the_virtual_host_may_have() -> None:
    den = Den(consumers_max=3)
    Wide(den.enter("ann"), "/queue/a,/queue/b")
    Wide(den.enter("bob"), "/queue/a")
    with pytest.raises(RefusedError, match="there are 3 consumers already"):
        Wide(den.enter("bob"), "/queue/b")


def test_a_wide_subscription_over_the_limit_is_refused_as_a_whole() -> None:
    den = Den(consumers_per_user_max=5)
    den.fill(8)
    with pytest.raises(RefusedError, match="consumers_per_user_max"):
        Wide(den.enter("ann"), "/queue/many.*")
    den.finish()
    assert den.counts == (0, 0, 0)


def test_one_that_finds_out_late_ends_and_gives_everything_back() -> None:
    den = Den(consumers_per_user_max=25)
    den.fill(40)
    wide = Wide(den.enter("ann"), "/queue/many.*")
    den.finish()
    assert ([error.code for error in wide.told], den.counts) == (["limit"], (25, 25, 0))
    wide.leave()
    den.finish()
    assert den.counts == (0, 0, 0)


def test_a_new_queue_ends_what_would_miss_it_and_the_audit_tells() -> None:
    den = Den(consumers_per_user_max=2)
    den.fill(2)
    wide, named = Wide(den.enter("ann"), "/queue/many.*"), Wide(den.enter("bob"), "/queue/many.*")
    other = Wide(den.enter("bob"), "/queue/other.*")
    maker = den.enter("bob")
    assert maker.send("/queue/many.new", "1") == ["1"]
    assert [len(each.told) for each in (wide, named, other)] == [1, 1, 0]
    assert [line[:2] for line in den.heard.all] == [
        ("subscription ended", "ann"),
        ("subscription ended", "bob"),
    ]
    assert "cannot read the new queue many.new: user ann has 2" in str(den.heard.all[0])
    wide.leave()
    named.leave()
    assert den.counts == (0, 0, 0)


def test_browsers_and_readers_of_durable_subscriptions_count_and_feeds_do_not() -> None:
    den = Den()
    ann = den.enter("ann")
    den.broker.make_durable(ann.session, "d", places("/topic/**"), None, den.now)
    Wide(ann, "/dsub/d", "durable")
    Wide(ann, "/topic/a,/topic/b.*", "feed")
    den.enter().send("/topic/b.1", "x")
    assert den.counts == (1, 1, 0)
    window = Window(10)
    looker = Subscription(ann.session, "look", window, lambda: look(window))
    den.broker.subscribe(ann.session, looker, places("/queue/q"), den.now, is_browser=True)
    den.broker.run(den.now)
    assert den.counts == (2, 2, 0)
    den.broker.unsubscribe(ann.session, "look", den.now)
    den.broker.unsubscribe(ann.session, "feed", den.now)
    assert den.counts == (1, 1, 0)


def look(window: Window) -> Reader:
    reader = Reader(window)
    reader.is_browser = True
    return reader


def test_a_reader_counts_while_its_subscription_keeps_it_though_its_queue_is_deleted() -> None:
    den = Den()
    wide = Wide(den.enter("ann"), "/queue/a,/queue/b")
    den.broker.host.delete_queue("a", "gone")
    assert den.counts == (2, 2, 0)
    wide.leave()
    assert den.counts == (0, 0, 0)


def test_a_reader_that_a_queue_refuses_does_not_count() -> None:
    den = Den(selectors_per_queue_max=1)
    ann = den.enter("ann")
    ann.read("/queue/a", selector="name = 'x'")
    with pytest.raises(RefusedError, match="selectors_per_queue_max"):
        den.enter("ann").read("/queue/a", selector="name = 'y'")
    assert den.counts == (1, 1, 0)


def test_another_limit_holds_from_a_reload_on() -> None:
    den = Den(consumers_per_user_max=1)
    Wide(den.enter("ann"), "/queue/a")
    with pytest.raises(RefusedError, match="consumers_per_user_max"):
        Wide(den.enter("ann"), "/queue/a")
    changed = Settings.model_validate({"broker": {"consumers_per_user_max": 2}})
    reconfigure([den.broker], changed, den.now)
    Wide(den.enter("ann"), "/queue/a")
    assert den.counts == (2, 2, 0)
