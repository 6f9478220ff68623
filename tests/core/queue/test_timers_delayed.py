"""Delayed delivery: outside the queue until the time has come, restarts included."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.config.queues import QueueSettings
from covey.config.settings import BrokerSettings, Settings
from covey.core.errors import RefusedError
from covey.core.management.admin import Admin
from tests.core.double import Room
from tests.core.storage.sqlite.support import ADMIN, House, Note, bodies
from tests.core.support import depth


def late(body: bytes, due_s: float, group: str = "", *, persistent: bool = True) -> Note:
    note = Note(body, group, persistent=persistent)
    note.due_ms = int(due_s * 1000)
    return note


def wait(house: House, now: float) -> None:
    house.now = now
    house.broker.tick(now)
    house.rest()


def test_a_message_is_not_there_before_its_time(tmp_path: Path) -> None:
    house = House(tmp_path)
    reader = house.reader("a")
    house.publish("a", late(b"later", 10.0), "later")
    house.publish("a", Note(b"now"))
    house.rest()
    assert bodies(reader) == [b"now"]
    assert house.receipts == ["later"]
    assert house.queue("a").timers.delayed.count == 1
    wait(house, 9.9)
    assert bodies(reader) == [b"now"]
    wait(house, 10.0)
    assert bodies(reader) == [b"now", b"later"]
    assert house.queue("a").timers.delayed.count == 0
    house.store.close()


def test_it_gets_its_number_when_it_is_due(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.publish("a", late(b"later", 10.0))
    house.publish("a", Note(b"1"))
    house.rest()
    house.publish("a", Note(b"2"))
    wait(house, 10.0)
    reader = house.reader("a")
    house.rest()
    assert bodies(reader) == [b"1", b"2", b"later"]
    assert reader.got == sorted(reader.got)
    house.store.close()


def test_what_is_due_comes_by_time_and_by_arrival_within_one(tmp_path: Path) -> None:
    house = House(tmp_path)
    for body, due in ((b"c", 6.0), (b"a", 5.0), (b"d", 6.0), (b"b", 5.0)):
        house.publish("a", late(body, due, "g"))
    reader = house.reader("a")
    wait(house, 7.0)
    assert bodies(reader) == [b"a", b"b", b"c", b"d"]
    house.store.close()


def test_a_persistent_one_survives_a_restart_and_others_do_not(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.publish("a", late(b"kept", 10.0, "g"))
    house.publish("a", late(b"gone", 10.0, persistent=False))
    house.rest()
    house = house.restart()
    reader = house.reader("a")
    house.rest()
    assert house.queue("a").timers.delayed.count == 1
    assert bodies(reader) == []
    wait(house, 10.0)
    assert bodies(reader) == [b"kept"]
    assert reader.entries[0].lane.name == "g"
    house.settle(reader.entries[0])
    house.rest()
    house = house.restart()
    assert depth(house.queue("a")) == 0
    assert house.queue("a").timers.delayed.count == 0
    house.store.close()


def test_it_survives_a_restart_after_it_came_due(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.publish("a", late(b"x", 5.0))
    house.rest()
    wait(house, 6.0)
    house = house.restart()
    reader = house.reader("a")
    house.rest()
    assert bodies(reader) == [b"x"]
    house.store.close()


def test_new_ones_after_a_restart_do_not_take_the_place_of_old_ones(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.publish("a", late(b"1", 10.0))
    house.rest()
    house = house.restart()
    house.publish("a", late(b"2", 10.0))
    house.rest()
    house = house.restart()
    reader = house.reader("a")
    wait(house, 10.0)
    assert bodies(reader) == [b"1", b"2"]
    house.store.close()


def test_one_that_is_due_and_expired_in_the_same_tick_comes_in_and_expires(tmp_path: Path) -> None:
    house = House(tmp_path)
    note = late(b"x", 5.0)
    note.expires_ms = 5500
    house.publish("a", note)
    reader = house.reader("a")
    wait(house, 8.0)
    counts = house.queue("a").counters
    assert (counts.enqueued, counts.expired, bodies(reader)) == (1, 1, [])
    house.store.close()


def test_a_time_that_has_passed_delays_nothing() -> None:
    room = Room()
    admin = room.enter()
    reader = admin.read("/queue/a")
    admin.send("/queue/a", "x", due_ms=int(room.now * 1000))
    assert reader.names == ["x"]


def test_it_counts_for_the_quota_until_it_is_consumed() -> None:
    room = Room(QueueSettings(id="a", quota_messages=1, full_policy="reject"))
    admin = room.enter()
    admin.send("/queue/a", "x", due_ms=200_000)
    with pytest.raises(RefusedError, match="it holds 1 messages"):
        admin.send("/queue/a", "y")
    room.wait(150.0)
    assert room.depth("a") == 1
    with pytest.raises(RefusedError):
        admin.send("/queue/a", "y")


@pytest.mark.parametrize(
    ("limits", "name"),
    [({"delayed_max": 1}, "delayed_max"), ({"delayed_memory_max": 1}, "delayed_memory_max")],
)
def test_how_much_may_wait_is_bounded(limits: dict[str, object], name: str) -> None:
    room = Room(limits=limits)
    admin = room.enter()
    admin.send("/queue/a", "x", due_ms=200_000)
    with pytest.raises(RefusedError, match=name):
        admin.send("/queue/a", "y", due_ms=200_000)
    assert admin.send("/queue/a", "z") == ["z"]


def test_a_queue_on_which_one_waits_is_not_swept_away() -> None:
    room = Room()
    room.enter().send("/queue/a", "x", due_ms=1_000_000)
    room.wait(100.0)
    room.wait(100.0)
    assert room.broker.host.queues["a"].timers.delayed.count == 1


def test_the_admin_sees_and_purges_them(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.publish("a", late(b"x", 10.0))
    house.publish("a", late(b"y", 10.0, persistent=False))
    house.rest()
    admin = Admin(house.broker, house.host, ADMIN)
    assert admin.read("queue", "a", 0.0)["delayed"] == 2
    with pytest.raises(RefusedError, match="holds 2 messages"):
        admin.delete("queue", "a", 0.0, if_empty=True)
    assert admin.purge("a", 0.0).count == 2
    house.rest()
    house = house.restart()
    assert house.queue("a").timers.delayed.count == 0
    house.store.close()


def test_a_deleted_queue_takes_them_along(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.publish("a", late(b"x", 10.0))
    house.rest()
    house.host.delete_queue("a", "test")
    wait(house, 11.0)
    house = house.restart()
    wait(house, 20.0)
    assert depth(house.queue("a")) == 0
    house.store.close()


def test_many_that_are_due_at_once_come_in_portions(tmp_path: Path) -> None:
    house = House(tmp_path, Settings(broker=BrokerSettings(memory_window_queue=0)))
    for number in range(2500):
        house.publish("a", late(b"%d" % number, 5.0))
    house.rest()
    reader = house.reader("a", 5000)
    for second in range(6, 12):
        wait(house, float(second))
    assert bodies(reader) == [b"%d" % number for number in range(2500)]
    house.store.close()


def test_a_clock_that_is_set_back_makes_it_later_and_one_set_forward_brings_all_in_order(
    tmp_path: Path,
) -> None:
    house = House(tmp_path)
    reader = house.reader("a")
    for due in (20.0, 10.0, 30.0):
        house.publish("a", late(b"%d" % due, due))
    house.rest()
    house.broker.clock.offset = -3600.0
    wait(house, 40.0)
    assert bodies(reader) == []
    assert house.broker.tick(41.0) <= 46.0  # it looks again though the time lies far ahead
    house.broker.clock.offset = 3600.0
    wait(house, 42.0)
    assert bodies(reader) == [b"10", b"20", b"30"]
    house.store.close()
