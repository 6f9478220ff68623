"""QueueFactory: what a new queue is given and counts from, and what an end does to others."""

from __future__ import annotations

import pytest

from covey.config.queues import QueueSettings
from covey.config.settings import Settings
from covey.core.host import queue_factory as numbers
from covey.core.host.queue_factory import Numbers
from covey.core.management.reload import reconfigure
from tests.core.double import Room, letter


def test_a_queue_that_comes_back_goes_on_counting_unless_it_was_temporary() -> None:
    room = Room()
    host = room.broker.host
    for name, number in (("a", 2), ("temp.default.1.x", 1)):
        queue = host.queue(name)
        queue.owner.put(queue, letter("x"))
        host.delete_queue(name, "gone")
        assert host.queue(name).next_seq == number


def test_deleting_a_queue_tells_its_consumers() -> None:
    room = Room()
    reader = room.enter().read("/queue/a")
    room.broker.host.delete_queue("a", "queue a was deleted")
    assert (reader.reason, reader.is_gone) == ("queue a was deleted", True)


def test_who_waits_for_room_in_a_queue_that_ends_goes_on_to_a_new_one() -> None:
    room = Room(QueueSettings(quota_messages=1))
    person = room.enter()
    person.send("/queue/a", "lost")
    waiting = person.send("/queue/a", "saved")
    assert waiting == []
    room.broker.host.delete_queue("a", "gone")
    room.broker.run(room.now)
    assert (waiting, room.depth("a")) == (["saved"], 1)


def test_new_queue_has_the_limits_of_the_last_reload() -> None:
    room = Room()
    few = Settings.model_validate({"broker": {"selectors_per_queue_max": 3}})
    reconfigure([room.broker], few, room.now)
    assert room.broker.host.queue("a").membership.selectors_max == 3


# Where names go on counting, and what happens to those that were forgotten.


def test_a_name_goes_on_where_it_stopped_and_a_new_one_begins_at_one() -> None:
    known = Numbers()
    assert known.keep("a", 8) == ""
    assert (known.take("a"), known.take("b")) == (8, 1)


def test_a_forgotten_name_begins_above_all_it_ever_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "REMEMBERED_MAX", 2)
    known = Numbers()
    known.keep("a", 8)
    known.keep("b", 5)
    assert known.keep("c", 3) == "a"
    assert (known.take("a"), known.take("new"), known.take("b")) == (8, 8, 5)


def test_a_restart_brings_names_and_the_floor_back() -> None:
    known = Numbers()
    known.recall("a", 4, is_floor=False)
    known.recall("", 9, is_floor=True)
    known.recall("", 7, is_floor=True)
    assert (known.take("a"), known.take("b")) == (4, 9)
