"""A paused queue: who waits, who is told no, what goes on, and what a restart keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.config.queues import QueueSettings
from covey.core.dispatch.state import ParkRecord
from covey.core.errors import RefusedError
from covey.core.events.event import EventKind
from covey.core.management.admin import Admin
from covey.core.management.waiting import longest_waits, why_waits
from covey.core.model.entry import Outcome
from covey.core.naming.destination import Destination, Kind
from covey.core.queue.policy import pause
from tests.core.double import Person, Room
from tests.core.storage.sqlite.support import ADMIN, House, bodies
from tests.core.support import Bench

ADMIN_RECORD = ParkRecord("ann", 1, "tidy up")


def _admin(room: Room) -> Admin:
    return Admin(room.broker, room.broker.host, ADMIN)


def _pause(person: Person, way: str = "both", why: str = "") -> str:
    room = person.room
    paused = _admin(room).pause("a", way, room.now, why)
    room.broker.run(room.now)
    return paused


def _resume(person: Person, way: str = "both") -> str:
    room = person.room
    paused = _admin(room).resume("a", way, room.now)
    room.broker.run(room.now)
    return paused


def test_nothing_is_handed_out_and_what_is_held_may_be_settled() -> None:
    person = Room().enter()
    reader = person.read("/queue/a", credit=1)
    person.send("/queue/a", "1", group="g")
    person.send("/queue/a", "2", group="g")
    assert _pause(person, "out") == "out"
    person.settle(reader)
    reader.window.count = 10
    person.send("/queue/a", "3", group="g")
    assert [entry.seq for entry in reader.entries] == [1]
    assert _resume(person) == ""
    person.room.broker.host.queues["a"].credit_changed(reader)
    person.room.broker.run(person.room.now)
    assert [entry.seq for entry in reader.entries] == [1, 2, 3]


def test_what_comes_back_while_the_queue_is_paused_goes_out_first_afterwards() -> None:
    person = Room().enter()
    reader = person.read("/queue/a")
    person.send("/queue/a", "1", group="g")
    _pause(person, "out")
    person.send("/queue/a", "2", group="g")
    person.settle(reader, Outcome.RELEASED)
    assert reader.delivered == 1
    _resume(person, "out")
    assert [entry.seq for entry in reader.entries] == [1, 1, 2]


def test_browsers_look_at_a_paused_queue() -> None:
    bench = Bench()
    bench.send_all("AB")
    bench.send()
    pause(bench.queue, "out", bench.now, ADMIN_RECORD)
    browser, reader = bench.browse(), bench.join()
    bench.pump()
    assert (browser.delivered, reader.delivered) == (3, 0)
    pause(bench.queue, "out", bench.now, None)
    bench.pump()
    assert reader.delivered == 3
    kinds = [bench.events.kinds(EventKind.PAUSE), bench.events.kinds(EventKind.RESUME)]
    assert [len(found) for found in kinds] == [1, 1]


def test_a_producer_waits_in_its_place_and_goes_on() -> None:
    room = Room()
    first, second = room.enter(), room.enter()
    first.send("/queue/a", "0")
    assert _pause(first, "in", "stock-taking") == "in"
    waiting = [first.send("/queue/a", "1"), second.send("/queue/a", "2")]
    assert waiting == [[], []]
    assert first.session.blocked_on == ("queue a takes nothing in: paused by admin: stock-taking")
    reader = first.read("/queue/a")
    assert reader.delivered == 1
    _resume(first, "in")
    assert waiting == [["1"], ["2"]]
    assert [entry.seq for entry in reader.entries] == [1, 2, 3]


def test_a_queue_that_rejects_tells_its_producers_no() -> None:
    person = Room(QueueSettings(full_policy="reject")).enter()
    person.send("/queue/a", "1")
    _pause(person, "in")
    with pytest.raises(RefusedError, match="queue a takes nothing in: paused by admin"):
        person.send("/queue/a", "2")


@pytest.mark.parametrize("policy", ["drop head", "drop tail"])
def test_no_message_is_dropped_for_a_pause(policy: str) -> None:
    settings = QueueSettings.model_validate({"quota_messages": 1, "full_policy": policy})
    room = Room(settings)
    person = room.enter()
    person.send("/queue/a", "1")
    _pause(person, "in")
    assert person.send("/queue/a", "2") == []
    assert room.depth("a") == 1
    assert room.broker.host.queues["a"].counters.dropped == 0


def test_who_reads_the_queue_waits_to_send_to_it_all_the_same() -> None:
    person = Room(QueueSettings(quota_messages=1)).enter()
    person.read("/queue/a")
    person.send("/queue/a", "1")
    _pause(person, "in")
    assert person.send("/queue/a", "2") == []


def test_a_topics_producer_waits_for_a_paused_subscription() -> None:
    room = Room()
    host = room.broker.host
    person = room.enter()
    host.bind(host.make_durable("d"), (Destination(Kind.TOPIC, "t"),))
    _admin(room).pause("/dsub/d", "in", room.now)
    waiting = person.send("/topic/t", "1")
    assert (waiting, _admin(room).read("subscription", "d", room.now)["paused"]) == ([], "in")
    _admin(room).resume("/dsub/d", "in", room.now)
    room.broker.run(room.now)
    assert (waiting, host.durable("d").queue.counters.enqueued) == (["1"], 1)


def test_a_message_whose_time_comes_is_let_in() -> None:
    room = Room()
    person = room.enter()
    person.send("/queue/a", "later", due_ms=room.broker.clock.wall_ms + 1000)
    _pause(person, "in")
    room.wait(2)
    assert room.depth("a") == 1


def test_every_group_says_why_it_waits() -> None:
    bench = Bench()
    reader = bench.join(1)
    bench.send_all("AAB")
    bench.pump()
    pause(bench.queue, "out", bench.now, ADMIN_RECORD)
    lanes = bench.queue.state.lanes
    assert why_waits(bench.queue, lanes["B"]) == "the queue is paused by ann: tidy up"
    assert longest_waits(bench.queue, lanes.values(), bench.now, 10)[1] == 2
    bench.settle(reader)
    assert why_waits(bench.queue, lanes["A"]) == "the queue is paused by ann: tidy up"


def test_each_way_is_stopped_and_let_go_by_itself_and_tells_who() -> None:
    room = Room()
    person = room.enter()
    person.send("/queue/a", "1")
    _pause(person, "in", "one")
    assert _pause(person, "out", "two") == "both"
    found = _admin(room).read("queue", "a", room.now)
    assert found["paused"] == "both"
    assert isinstance(found["pauses"], list)
    assert [each["why"] for each in found["pauses"]] == ["one", "two"]
    assert _resume(person, "in") == "out"
    assert _resume(person, "out") == ""


def test_what_is_no_way_and_too_long_a_reason_are_refused() -> None:
    person = Room().enter()
    person.send("/queue/a", "1")
    with pytest.raises(RefusedError, match="a queue is paused in, out, both, not 'up'"):
        _pause(person, "up")
    with pytest.raises(RefusedError, match="1024 characters at most"):
        _pause(person, "in", "x" * 1025)
    with pytest.raises(RefusedError, match="there is no queue"):
        _admin(person.room).pause("none", "in", person.room.now)


def test_a_restart_keeps_the_pause_and_a_deleted_queue_takes_it_along(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.send("q", b"x", "A")
    house.rest()
    Admin(house.broker, house.host, ADMIN).pause("q", "both", 0.0, "power")
    house.rest()
    house = house.restart()
    reader = house.reader("q")
    house.send("q", b"y", receipt="r")
    house.rest()
    assert (bodies(reader), house.receipts) == ([], [])
    assert house.queue("q").pause.records()[1][1].why == "power"
    Admin(house.broker, house.host, ADMIN).resume("q", "out", 0.0)
    house.rest()
    assert bodies(reader) == [b"x"]
    house.host.delete_queue("q", "gone")
    house.rest()
    assert (house.receipts, house.queue("q").pause.way) == (["r"], "")
    house = house.restart()
    assert house.queue("q").pause.way == ""
    house.store.close()


def test_an_unused_queue_stays_while_it_is_paused() -> None:
    room = Room(QueueSettings(auto_delete_after_s=1))
    person = room.enter()
    reader = person.read("/queue/a")
    person.send("/queue/a", "1")
    person.settle(reader)
    _pause(person, "in")
    room.broker.drop(person.session, room.now)
    room.wait(100)
    room.broker.host.sweep()
    room.broker.run(room.now)
    assert "a" in room.broker.host.queues
