"""A reload of very many queues goes in portions, and holds at once."""

from __future__ import annotations

from pydantic import SecretStr

from covey.config.queues import QueueSettings
from covey.config.settings import Settings, UserSettings
from covey.core.errors import RefusedError
from covey.core.host.subscription import Subscription
from covey.core.management.overlay import overlay_of
from covey.core.management.reload import reconfigure
from covey.core.model.consumer import Window
from tests.core.double import Person, Room, places
from tests.doubles import Reader


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


def test_the_rights_of_a_wide_subscription_are_checked_in_portions() -> None:
    ann = UserSettings(name="ann", password=SecretStr("x"))
    room = Room(users=(ann,), limits={"work_portion": 10})
    identity = room.broker.users.identity("ann", is_loopback=True)
    person = Person(room, room.broker.open(room.broker.host, identity, room.now))
    for number in range(50):
        person.send(f"/queue/a.{number}", "1")
    person.send("/queue/a.z.last", "1")
    window = Window(1)
    wide = Subscription(person.session, "s", window, lambda: Reader(window, person.session))
    room.broker.subscribe(person.session, wide, places("/queue/a.**"), room.now)
    while room.broker.jobs.is_any:
        room.broker.go_on(room.now)
    given = {"broker": {"work_portion": 10}, "user": (ann,)}
    narrow = {"who": "ann", "may": ["*"], "on": "queue:a.*"}  # all but the last
    reconfigure([room.broker], Settings.model_validate({**given, "permission": [narrow]}), room.now)
    portions = 0
    while not person.kicks and room.broker.jobs.is_any:
        portions += 1
        room.broker.go_on(room.now)
    assert portions >= 4
    assert person.kicks == ["user ann may not read this any more"]


def test_a_new_user_lets_no_queue_look_for_its_policy_again() -> None:
    room = Room(limits={"work_portion": 1})
    person = room.enter()
    for number in range(5):
        person.send(f"/queue/a.{number}", "1")
    overlay = overlay_of(room.broker)
    overlay.put("user", "joe", {"password": "x"}, room.now)
    assert not room.broker.host.outdated
    overlay.put("policy", "a.*", {"nak_limit": 3}, room.now)
    assert room.broker.host.outdated
