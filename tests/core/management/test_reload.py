"""A reload: all of it or nothing, for open connections as for new ones."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from covey.config.queues import QueueSettings
from covey.config.settings import PermissionSettings, Settings, UserSettings
from covey.core.errors import RefusedError
from covey.core.management.admin import Admin
from covey.core.management.reload import reconfigure
from covey.core.model.entry import Outcome
from covey.core.security.users import Identity, Principal
from tests.core.double import Person, Room, places
from tests.core.support import shown

OPERATOR = Identity("root", (Principal("role", "admin"),))


def user(name: str, password: str = "x", *roles: str) -> UserSettings:
    return UserSettings(name=name, password=SecretStr(password), roles=roles)


def rule(who: str, may: str, on: str) -> PermissionSettings:
    return PermissionSettings.model_validate({"who": who, "may": may.split(","), "on": on})


def settings(**given: Any) -> Settings:
    return Settings.model_validate(given)


def make_room(*users: UserSettings, queues: tuple[QueueSettings, ...] = ()) -> Room:
    return Room(*queues, users=users or (user("ann"), user("bob")))


def enter(room: Room, name: str) -> Person:
    identity = room.broker.users.identity(name, is_loopback=True)
    return Person(room, room.broker.open(room.broker.host, identity, room.now))


def queue(name: str, **options: Any) -> QueueSettings:
    return QueueSettings.model_validate({"id": name, **options})


def test_new_permissions_hold_for_open_connections() -> None:
    room = make_room()
    ann = enter(room, "ann")
    ann.send("/queue/a")
    rules = (rule("ann", "*", "queue:b"),)
    reconfigure(
        [room.broker], settings(user=(user("ann"), user("bob")), permission=rules), room.now
    )
    with pytest.raises(RefusedError, match="may not send queue:a"):
        ann.send("/queue/a")
    ann.send("/queue/b")
    assert ann.kicks == []


def test_who_reads_what_they_may_no_longer_is_ended_others_go_on() -> None:
    room = make_room()
    ann, bob, carl = enter(room, "ann"), enter(room, "bob"), enter(room, "ann")
    room.broker.make_durable(carl.session, "d", places("/topic/a"), None, room.now)
    ann.read("/topic/a.*", "t")
    ann.send("/topic/a.b")
    bob.read("/queue/a")
    carl.read("/dsub/d")
    rules = (rule("*", "*", "queue:**"),)
    reconfigure(
        [room.broker], settings(user=(user("ann"), user("bob")), permission=rules), room.now
    )
    assert ann.kicks == carl.kicks == ["user ann may not read this any more"]
    assert bob.kicks == []


def test_who_is_gone_or_has_another_password_or_role_has_to_log_in_again() -> None:
    users = [user(name) for name in ("ann", "bob", "carl", "dora")]
    room = make_room(*users)
    people = {name: enter(room, name) for name in ("ann", "bob", "carl", "dora")}
    changed = (user("bob", "y"), user("carl", "x", "admin"), user("dora"))
    reconfigure([room.broker], settings(user=changed), room.now)
    kicked = [name for name, person in people.items() if person.kicks]
    assert kicked == ["ann", "bob", "carl"]
    with pytest.raises(RefusedError):
        room.broker.users.login("ann", "x", is_loopback=True)
    with pytest.raises(RefusedError):
        room.broker.users.login("bob", "x", is_loopback=True)
    assert room.broker.users.login("bob", "y", is_loopback=True).name == "bob"
    assert room.broker.users.login("dora", "x", is_loopback=True).name == "dora"


@pytest.mark.parametrize(
    "wrong",
    [
        {"permission": (rule("ann", "*", "queue:{(}"),)},
        {"user": (user("ann", "SCRAM-SHA-256$no"),)},
        {"queue": (queue("a..b"),)},
    ],
)
def test_what_makes_no_sense_changes_nothing(wrong: dict[str, Any]) -> None:
    room = make_room()
    ann = enter(room, "ann")
    before = room.broker.settings
    given = {"broker": {"connections_max": 1}, "user": (user("carl"),), **wrong}
    with pytest.raises(RefusedError):
        reconfigure([room.broker], settings(**given), room.now)
    assert room.broker.settings is before
    assert room.broker.limits.connections_max == 10_000
    assert ann.kicks == []
    assert room.broker.users.login("ann", "x", is_loopback=True).name == "ann"
    enter(room, "ann").send("/queue/a")


def test_limits_hold_at_once() -> None:
    room = make_room()
    people = (user("ann"), user("bob"))
    limits = {"connections_max": 1, "auto_create": False, "login_failures_max": 1}
    reconfigure([room.broker], settings(broker=limits, user=people), room.now)
    ann = enter(room, "ann")
    with pytest.raises(RefusedError, match="connections_max"):
        enter(room, "bob")
    with pytest.raises(RefusedError, match="there is no queue a"):
        ann.send("/queue/a")
    assert room.broker.users.throttle.failures_max == 1


def test_limits_that_queues_keep_hold_at_once_too() -> None:
    room = make_room()
    ann = enter(room, "ann")
    ann.send("/queue/a")
    limits = {"selectors_per_queue_max": 1, "group_id_length_max": 3, "delayed_max": 1}
    reconfigure([room.broker], settings(broker=limits, user=(user("ann"),)), room.now)
    ann.read("/queue/a", "one", selector="x = 1", credit=0)
    with pytest.raises(RefusedError, match="selectors"):
        ann.read("/queue/a", "two", selector="x = 2", credit=0)
    assert room.broker.host.queue("a").discipline.key.id_bytes_max == 3
    assert room.broker.publishing.arrivals.limits.delayed_max == 1


def test_queues_take_their_new_policy_declared_ones_keep_their_own() -> None:
    room = make_room()
    ann = enter(room, "ann")
    ann.send("/queue/a", "1")
    Admin(room.broker, room.broker.host, OPERATOR).declare("b", {}, room.now)
    policy = queue("*", quota_messages=1, full_policy="reject")
    people = (user("ann"), user("bob"))
    assert reconfigure([room.broker], settings(queue=(policy,), user=people), room.now) == []
    with pytest.raises(RefusedError, match="quota"):
        ann.send("/queue/a", "2")
    for number in range(3):
        ann.send("/queue/b", str(number))
    assert (room.depth("a"), room.depth("b")) == (1, 3)


def test_a_queue_whose_messages_stand_against_it_keeps_its_policy_and_that_is_told() -> None:
    room = make_room()
    ann = enter(room, "ann")
    ann.send("/queue/full")
    ann.read("/queue/empty")
    people = (user("ann"), user("bob"))
    policy = queue("**", groups={"header": "key"})
    (note,) = reconfigure([room.broker], settings(queue=(policy,), user=people), room.now)
    assert note.startswith("queue full holds 1 messages: groups.header")
    queues = room.broker.host.queues
    assert queues["full"].settings.groups.header is None
    assert queues["empty"].settings.groups.header == "key"


@pytest.mark.parametrize(
    ("changed", "is_asked"),
    [
        ({}, False),
        ({"user": (user("ann"),)}, False),
        ({"permission": (rule("ann", "*", "queue:a"),)}, False),
        ({"broker": {"work_portion": 1, "group_id_length_max": 7}}, True),
        ({"queue": (queue("a", nak_limit=7),)}, True),
        ({"topic": ({"id": "t"},)}, True),
    ],
)
def test_queues_are_asked_only_if_something_changed_that_they_see(
    changed: dict[str, Any], is_asked: bool
) -> None:
    portions: dict[str, object] = {"work_portion": 1}  # so that no reload is over at once
    people = (user("ann"), user("bob"))
    room = Room(queue("a", nak_limit=3), users=people, limits=portions)
    for name in ("ann", "bob"):
        enter(room, name).send(f"/queue/a.{name}")
    given = {"user": people, "queue": (queue("a", nak_limit=3),), "broker": portions}
    reconfigure([room.broker], settings(**given | changed), room.now)
    assert bool(room.broker.host.outdated) == is_asked


def test_a_queue_that_kept_its_policy_is_asked_again_though_nothing_changed() -> None:
    room = make_room()
    enter(room, "ann").send("/queue/a")
    new = settings(user=(user("ann"), user("bob")), queue=(queue("a", priorities=10),))
    assert reconfigure([room.broker], new, room.now)
    assert reconfigure([room.broker], new, room.now)
    reader = enter(room, "ann").read("/queue/a")
    for entry in list(reader.unsettled.values()):
        assert reader.queue is not None
        reader.queue.settle(entry, Outcome.ACCEPTED, room.now)
    room.broker.run(room.now)
    assert reconfigure([room.broker], new, room.now) == []
    assert room.broker.host.queue("a").settings.priorities == 10


def test_a_durable_subscription_takes_its_new_policy_and_limits() -> None:
    room = make_room()
    durable = room.broker.host.make_durable("d").queue
    changed = settings(
        queue=(queue("dsub:d", nak_limit=3, groups={"strategy": "simple"}),),
        broker={"group_id_length_max": 5},
    )
    assert reconfigure([room.broker], changed, room.now) == []
    assert (durable.nak_limit, shown(durable)["strategy"]) == (3, "simple")
    assert durable.discipline.key.id_bytes_max == 5
