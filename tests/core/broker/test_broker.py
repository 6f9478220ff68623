"""The front door: connections come and go, turns are run, time passes, a name has one holder."""

from __future__ import annotations

import pytest

from covey.config.queues import GroupSettings, QueueSettings
from covey.config.settings import Settings, VirtualHostSettings
from covey.core.broker.broker import Claims
from covey.core.errors import RefusedError
from covey.core.events.event import EventKind
from covey.core.security.users import Identity
from tests.core.double import Room, letter, places
from tests.core.support import shown
from tests.doubles import Events, OneForAll, make_directory


def test_the_first_host_serves_those_who_name_none() -> None:
    hosts = (
        VirtualHostSettings(id="one", host_names=("a.example",)),
        VirtualHostSettings(id="two", host_names=("B.example",)),
    )
    directory = make_directory(Settings(virtual_host=hosts))
    assert directory.named(None).host.id == "one"
    assert directory.named("b.EXAMPLE").host.id == "two"
    with pytest.raises(RefusedError, match=r"host name c\.example"):
        directory.named("c.example")


def test_a_host_that_nobody_serves_is_unavailable() -> None:
    directory = make_directory(Settings())
    directory.brokers.clear()
    with pytest.raises(RefusedError, match="default is not served now") as caught:
        directory.named(None)
    assert caught.value.code == "unavailable"


def test_limits_count_for_all_brokers_of_a_process_together() -> None:
    hosts = tuple([VirtualHostSettings(id=name, host_names=(name,)) for name in ("one", "two")])
    given = {"virtual_host": hosts, "broker": {"connections_max": 3, "connections_per_user_max": 2}}
    directory = make_directory(Settings.model_validate(given))
    one, two = directory.brokers.values()
    first = one.open(one.host, Identity("ann"), 0.0)
    second = two.open(two.host, Identity("ann"), 0.0)
    assert first.id != second.id
    with pytest.raises(RefusedError, match="connections_per_user_max"):
        two.open(two.host, Identity("ann"), 0.0)
    one.open(one.host, Identity("bob"), 0.0)
    with pytest.raises(RefusedError, match="connections_max"):
        two.open(two.host, Identity("carl"), 0.0)
    one.drop(first, 0.0)
    two.open(two.host, Identity("carl"), 0.0)


@pytest.mark.parametrize("limit", ["connections_max", "connections_per_user_max"])
def test_connections_are_limited(limit: str) -> None:
    room = Room(limits={limit: 2})
    first = room.enter()
    room.enter()
    with pytest.raises(RefusedError, match=limit):
        room.enter()
    room.broker.drop(first.session, room.now)
    room.enter()


def test_subscriptions_are_limited_and_have_one_name_each() -> None:
    person = Room(limits={"subscriptions_max": 1}).enter()
    person.read("/queue/a", "s")
    with pytest.raises(RefusedError, match="s exists already"):
        person.read("/queue/b", "s")
    with pytest.raises(RefusedError, match="subscriptions_max"):
        person.read("/queue/b", "t")


def test_drop_gives_everything_back_once() -> None:
    room = Room()
    person, other = room.enter(), room.enter()
    reader = person.read("/queue/a")
    other.send("/queue/a", "1")
    other.send("/queue/a", "2")
    transaction = room.broker.transactions.begin(person.session, "t")
    transaction.send(places("/queue/b"), letter("never"))
    for _ in range(2):
        room.broker.drop(person.session, room.now)
    room.broker.run(room.now)
    assert reader.is_gone
    assert other.read("/queue/a").names == ["1", "2"]
    assert room.depth("b") == 0
    assert room.broker.sessions == {other.session.id: other.session}


def test_a_refused_subscription_leaves_nothing_behind() -> None:
    room = Room()
    person = room.enter()
    with pytest.raises(RefusedError, match="no durable subscription x"):
        person.read("/queue/a,/dsub/x", "s")
    assert person.session.subscriptions == {}
    assert shown(room.broker.host.queues["a"])["consumers"] == 0


def test_unsubscribing_something_unknown_is_refused() -> None:
    room = Room()
    with pytest.raises(RefusedError, match="no subscription s"):
        room.broker.unsubscribe(room.enter().session, "s", room.now)


def test_a_long_turn_is_cut_and_goes_on() -> None:
    room = Room(limits={"dispatch_budget": 10})
    woken: list[int] = []
    room.broker.wake = lambda: woken.append(1)
    person = room.enter()
    for number in range(25):
        person.send("/queue/a", str(number))
    reader = person.read("/queue/a")
    assert (len(reader.names), len(woken)) == (10, 1)
    room.broker.run(room.now)
    room.broker.run(room.now)
    assert len(reader.names) == 25


def test_time_alone_expires_messages_and_sweeps_queues() -> None:
    room = Room()
    person = room.enter()
    person.send("/queue/a", "x", expires_ms=int((room.now + 1) * 1000))
    room.wait(3)
    assert room.depth("a") == 0
    assert "a" in room.broker.host.queues
    room.wait(40)
    assert room.broker.host.queues == {}


def test_the_wall_clock_is_the_monotonic_one_plus_an_offset() -> None:
    broker = Room().broker
    broker.clock.offset = 1000.0
    broker.turn(2.5)
    assert (broker.now, broker.clock.wall_ms) == (2.5, 1002500)
    assert broker.clock.wall_ms_at(3.0) == 1003000


def test_events_of_all_queues_go_to_one_sink() -> None:
    room = Room()
    person = room.enter()
    person.send("/queue/before", "1")
    events = Events()
    room.broker.listen(OneForAll(events))
    person.send("/queue/before", "2")
    person.send("/queue/after", "3")
    assert len(events.kinds(EventKind.ENQUEUE)) == 2


def test_a_durable_subscription_listens_to_topics_only() -> None:
    room = Room()
    person = room.enter()
    with pytest.raises(RefusedError, match="queue:a is not one"):
        room.broker.make_durable(person.session, "d", places("/queue/a"), None, room.now)
    room.broker.make_durable(person.session, "d", places("/topic/a"), None, room.now)
    person.send("/topic/a", "x")
    assert person.read("/dsub/d").names == ["x"]


def test_expired_backlog_makes_room_for_those_who_wait() -> None:
    room = Room(QueueSettings(id="a", quota_messages=1))
    person = room.enter()
    person.send("/queue/a", "1", expires_ms=int((room.now + 1) * 1000))
    done = person.send("/queue/a", "2")
    assert done == []
    room.wait(3)
    assert done == ["2"]


# Claims: a name has one holder, and the newest claim wins.

NAME = ("host", "user", "client", "link")


def test_a_claim_ends_whoever_has_the_name() -> None:
    claims = Claims()
    ended: list[str] = []
    for who in ("old", "new"):
        claims.evict(NAME)
        claims.hold(NAME, lambda who=who: ended.append(who))  # type: ignore[misc]
    assert ended == ["old"]
    claims.evict(NAME)
    assert ended == ["old", "new"]
    assert len(claims) == 0


def test_names_of_others_are_theirs() -> None:
    claims = Claims()
    ended: list[str] = []
    claims.hold(NAME, lambda: ended.append("mine"))
    claims.evict(("host", "user", "client", "other"))
    assert ended == []


def test_who_lost_a_name_cannot_give_it_back_for_the_new_holder() -> None:
    claims = Claims()
    ended: list[str] = []

    def old() -> None:
        ended.append("old")

    def new() -> None:
        ended.append("new")

    claims.hold(NAME, old)
    claims.evict(NAME)
    claims.hold(NAME, new)
    claims.release(NAME, old)
    assert len(claims) == 1
    claims.release(NAME, new)
    assert len(claims) == 0


def test_what_is_due_before_the_next_tick_is_asked_for_sooner() -> None:
    room = Room(QueueSettings(id="q", groups=GroupSettings(group_rate=2)))
    asked: list[float] = []
    room.broker.look_sooner = lambda: asked.append(room.now)
    person = room.enter()
    reader = person.read("/queue/q")
    assert room.broker.tick(room.now) > room.now + 0.5
    for name in ("1", "2", "3"):
        person.send("/queue/q", name, group="a")
    assert (reader.names, asked) == (["1"], [room.now])
    room.now += 0.5
    assert room.broker.tick(room.now) == room.now + 0.5  # what the tick itself has made due
    assert reader.names == ["1", "2"]
