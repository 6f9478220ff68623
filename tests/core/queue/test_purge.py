"""A purge in portions leaves what a purge at once would have left."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.management.admin import Admin
from covey.core.queue.purge import Purge
from tests.core.double import HeldStore, Room
from tests.core.storage.sqlite.support import ADMIN, House, bodies, snapshot
from tests.core.support import Bench
from tests.doubles import at_once


def step(purge: Purge, items: int) -> None:
    if purge.advance(items, None, 0.0):
        purge.finish()


def test_what_came_later_stays_and_nothing_is_handed_out_meanwhile() -> None:
    bench = Bench()
    bench.send_all("aabb")
    purge = Purge(bench.queue)
    step(purge, 2)
    bench.send("c")
    reader = bench.join()
    bench.pump()
    assert reader.got == []
    step(purge, 10)
    bench.pump()
    assert (purge.count, reader.got) == (4, [5])


def test_what_was_acquired_stays_though_it_comes_back_before_the_purge_gets_there() -> None:
    bench = Bench()
    reader = bench.join(3)
    bench.send_all("abcde")
    bench.pump()
    assert reader.got == [1, 2, 3]
    purge = Purge(bench.queue)
    step(purge, 1)
    bench.leave(reader)
    step(purge, 10)
    assert [entry.seq for entry in bench.queue.state.index] == [1, 2, 3]
    assert purge.count == 2


def test_two_purges_at_a_time_drop_each_message_once() -> None:
    bench = Bench()
    bench.send_all("abcdef")
    first, second = Purge(bench.queue), Purge(bench.queue)
    step(first, 2)
    step(second, 3)
    step(first, 10)
    step(second, 10)
    assert first.count + second.count == 6
    assert bench.queue.suspended == 0


def test_a_purge_of_a_queue_that_is_deleted_ends() -> None:
    bench = Bench()
    bench.send_all("abcdef")
    purge = Purge(bench.queue)
    step(purge, 2)
    bench.queue.is_ended = True
    step(purge, 10)
    assert (purge.is_over, purge.count) == (True, 2)


def test_each_portion_is_on_disk_before_the_next_and_the_answer_waits_for_the_last() -> None:
    store = HeldStore()
    room = Room(store=store, limits={"work_portion": 2})
    person = room.enter()
    for number in range(5):
        person.send("/queue/a", str(number), persistent=True)
    room.broker.go_on(room.now)
    store.write()
    queue = room.broker.host.queues["a"]
    purge = Purge(queue, session=person.session)
    told: list[str] = []
    purge.then(lambda: room.broker.promises.after(person.session, lambda: told.append("safe")))
    room.broker.jobs.begin(purge)
    while room.broker.jobs.is_any:
        room.broker.go_on(room.now)
    room.broker.run(room.now)
    assert (purge.count, len(store.deleted), told) == (5, 5, [])
    store.write()
    assert told == ["safe"]


def test_delayed_messages_go_too() -> None:
    room = Room()
    person = room.enter()
    person.send("/queue/a", "now")
    person.send("/queue/a", "later", due_ms=room.broker.clock.wall_ms + 60_000)
    queue = room.broker.host.queues["a"]
    assert at_once(Purge(queue)).count == 2
    assert (queue.timers.delayed.count, queue.timers.delayed.size) == (0, 0)


@pytest.mark.parametrize("verb", ["purge", "delete"])
def test_a_kill_leaves_what_was_not_yet_removed_and_a_confirmed_one_stays_done(
    tmp_path: Path, verb: str
) -> None:
    house = House(tmp_path / "running")
    sent = [f"{number}".encode() for number in range(9)]
    for body in sent:
        house.send("a", body, "g")
    house.rest()
    broker = house.broker
    broker.jobs.allow(2, 5.0, 10**6)
    admin = Admin(broker, house.host, ADMIN, session=house.session)
    told: list[str] = []
    if verb == "purge":
        admin.purge("a", 0.0).then(lambda: _when_safe(house, told))
    else:
        admin.delete("queue", "a", 0.0)
        _when_safe(house, told)
    lengths = []
    for number in range(20):
        is_confirmed = bool(told)
        left = House(snapshot(house.directory, tmp_path / f"killed {number}"))
        reader = left.reader("a")
        left.rest()
        found = bodies(reader)
        assert found == sent[len(sent) - len(found) :], "what is left is whole and in order"
        assert not (is_confirmed and found), "what was confirmed stays done"
        lengths.append(len(found))
        left.store.close()
        if is_confirmed:
            break
        broker.go_on(0.0)
        house.rest()
    house.store.close()
    assert told == ["safe"]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] == 0
    assert len(set(lengths)) > (2 if verb == "purge" else 0)


def _when_safe(house: House, told: list[str]) -> None:
    house.broker.promises.after(house.session, lambda: told.append("safe"))
