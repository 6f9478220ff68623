"""A reload of very many queues goes in portions, and holds at once."""

from __future__ import annotations

from covey.config.queues import QueueSettings
from covey.config.settings import Settings
from covey.core.errors import RefusedError
from covey.core.management.reload import reconfigure
from tests.core.double import Room


def test_a_queue_takes_its_new_policy_when_it_is_touched_or_reached() -> None:
    room = Room(limits={"work_portion": 10})
    person = room.enter()
    for number in range(50):
        person.send(f"/queue/a.{number}", "1")
    told: list[list[str]] = []
    narrow = QueueSettings(id="a.*", quota_messages=1, full_policy="reject")
    changed = Settings.model_validate({"broker": {"work_portion": 10}, "queue": (narrow,)})
    reconfigure([room.broker], changed, room.now, told.append)
    queues = room.broker.host.queues
    assert told == []
    assert queues["a.49"].settings.quota_messages == 0
    try:
        person.send("/queue/a.49", "2")
    except RefusedError as error:
        assert "quota" in error.text
    else:
        raise AssertionError("it was taken by the old policy")
    assert queues["a.48"].settings.quota_messages == 0
    while room.broker.jobs.is_any:
        room.broker.go_on(room.now)
    assert told == [[]]
    assert all(queues[f"a.{number}"].settings.quota_messages == 1 for number in range(50))
    assert not room.broker.host.outdated


def test_what_stands_against_it_is_told_at_the_end() -> None:
    room = Room(limits={"work_portion": 10})
    person = room.enter()
    for number in range(30):
        person.send(f"/queue/a.{number}", "1")
    told: list[list[str]] = []
    keyed = QueueSettings(id="a.*", lvq_key="k")
    changed = Settings.model_validate({"broker": {"work_portion": 10}, "queue": (keyed,)})
    reconfigure([room.broker], changed, room.now, told.append)
    while room.broker.jobs.is_any:
        room.broker.go_on(room.now)
    assert len(told) == 1 and len(told[0]) == 30
    assert room.broker.host.queues["a.1"].takes_all
