"""QueueFactory: what a new queue is given, and what becomes of those around one that ends."""

from __future__ import annotations

from covey.config.queues import QueueSettings
from covey.config.settings import Settings
from covey.core.management.reload import reconfigure
from tests.core.double import Room, letter


def test_a_queue_that_comes_back_goes_on_counting_unless_it_was_temporary() -> None:
    room = Room()
    host = room.broker.hosts[0]
    for name, number in (("a", 2), ("temp.default.1.x", 1)):
        queue = host.queue(name)
        queue.owner.put(queue, letter("x"))
        host.delete_queue(name, "gone")
        assert host.queue(name).next_seq == number


def test_deleting_a_queue_tells_its_consumers() -> None:
    room = Room()
    reader = room.enter().read("/queue/a")
    room.broker.hosts[0].delete_queue("a", "queue a was deleted")
    assert (reader.reason, reader.is_gone) == ("queue a was deleted", True)


def test_who_waits_for_room_in_a_queue_that_ends_goes_on_to_a_new_one() -> None:
    room = Room(QueueSettings(quota_messages=1))
    person = room.enter()
    person.send("/queue/a", "lost")
    waiting = person.send("/queue/a", "saved")
    assert waiting == []
    room.broker.hosts[0].delete_queue("a", "gone")
    room.broker.run(room.now)
    assert (waiting, room.depth("a")) == (["saved"], 1)


def test_new_queue_has_the_limits_of_the_last_reload() -> None:
    room = Room()
    few = Settings.model_validate({"broker": {"selectors_per_queue_max": 3}})
    reconfigure(room.broker, few, room.now)
    assert room.broker.hosts[0].queue("a").membership.selectors_max == 3
