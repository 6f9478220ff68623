"""Who may do what: rules, their patterns, and what a pattern never means."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from covey.config.settings import PermissionSettings, UserSettings
from covey.core.errors import RefusedError
from covey.core.security.permissions import Access, Permission, compile_permissions
from tests.core.double import Person, Room, places

VERBS = ("connect", "create", "send", "consume", "browse", "destroy", "manage")


def rule(who: str, may: str, on: str = "**") -> PermissionSettings:
    verbs = tuple(may.split(","))
    return PermissionSettings.model_validate({"who": who, "may": verbs, "on": on})


def access(name: str, *rules: PermissionSettings, roles: tuple[str, ...] = ()) -> Access:
    made = Access(frozenset([f"user:{name}", *[f"role:{role}" for role in roles]]))
    made.apply(compile_permissions(rules))
    return made


def person(room: Room, name: str, *rules: PermissionSettings) -> Person:
    """Let a user in under these rules, which hold for everybody from now on."""
    user = UserSettings(name=name, password=SecretStr("x"))
    room.broker.users.apply((user,), rules)
    identity = room.broker.users.identity(name, is_loopback=True)
    return Person(room, room.broker.open(room.broker.host, identity, room.now))


@pytest.mark.parametrize("verb", VERBS)
def test_without_a_rule_everything_but_manage_is_allowed(verb: str) -> None:
    assert access("ann").allows(verb, "queue:a") == (verb != "manage")


@pytest.mark.parametrize("verb", VERBS)
def test_with_a_rule_for_somebody_else_nothing_is_allowed(verb: str) -> None:
    assert not access("ann", rule("bob", "*")).allows(verb, "queue:a")


@pytest.mark.parametrize(
    ("who", "is_for_ann"),
    [("ann", True), ("*", True), ("role:dev", True), ("dev", False), ("role:ann", False)],
)
def test_a_rule_names_a_user_a_role_or_everybody(who: str, is_for_ann: bool) -> None:
    assert access("ann", rule(who, "send"), roles=("dev",)).allows("send", "queue:a") == is_for_ann


def test_a_user_called_like_a_role_is_not_one() -> None:
    assert not access("role:admin", rule("role:admin", "send")).allows("send", "queue:a")


def test_everybody_is_everybody_who_has_logged_in() -> None:
    nobody = Access(frozenset(["role:anonymous"]))
    nobody.apply(compile_permissions([rule("*", "send")]))
    assert not nobody.allows("send", "queue:a")
    nobody.apply(compile_permissions([rule("role:anonymous", "send")]))
    assert nobody.allows("send", "queue:a")


@pytest.mark.parametrize(
    ("on", "destination", "allowed"),
    [
        ("orders.**", "queue:orders.eu", True),
        ("orders.**", "topic:orders.eu.de", True),
        ("orders.**", "queue:orders", False),
        ("orders.**", "queue:ordersx.eu", False),
        ("queue:orders.*", "topic:orders.eu", False),
        ("queue:orders.*", "queue:orders.eu.de", False),
        ("dsub:app-*", "dsub:app-1", True),
        ("queue:{[a-c]+}.x", "queue:abc.x", True),
        ("queue:{[a-c]+}.x", "queue:abd.x", False),
        ("queue:a/b", "queue:a%2Fb", True),
    ],
)
def test_a_rule_is_about_destinations_of_a_kind_and_a_pattern(
    on: str, destination: str, allowed: bool
) -> None:
    assert access("ann", rule("ann", "send", on)).allows("send", destination) == allowed


def test_to_connect_no_destination_is_needed_to_manage_the_broker_all_are() -> None:
    some = access("ann", rule("ann", "connect,manage", "queue:a.**"))
    assert some.allows("connect", "broker")
    assert some.allows("manage", "queue:a.b")
    assert not some.allows("manage", "queue:b")
    assert not some.allows("manage", "connection")
    assert access("ann", rule("ann", "manage")).allows("manage", "connection")


@pytest.mark.parametrize(
    ("on", "pattern", "covered"),
    [
        ("a.**", "a.b.**", True),
        ("a.**", "a.*", True),
        ("a.**", "a.**", True),
        ("a.*", "a.b*", True),
        ("a.*", "a.**", False),
        ("a.**", "**", False),
        ("a.**", "*.b", False),
        ("a.b*", "a.*", False),
        ("a.*.c", "a.*.c", True),
        ("a.*.c", "a.**", False),
    ],
)
def test_a_rule_covers_only_patterns_that_mean_nothing_else(
    on: str, pattern: str, covered: bool
) -> None:
    assert Permission(rule("ann", "consume", on)).covers("consume", "topic", pattern) == covered


@pytest.mark.parametrize("on", ["a..b", "queue:{(}", "a,b", "queue:"])
def test_a_pattern_that_makes_no_sense_is_refused_and_named(on: str) -> None:
    with pytest.raises(RefusedError, match="permission on"):
        Permission(rule("ann", "send", on))


def test_a_wildcard_subscription_reads_only_what_its_user_may_now_and_later() -> None:
    room = Room()
    room.enter().send("/queue/a.secret", "no")
    reading = rule("ann", "connect,consume", "queue:a.open.*")
    ann = person(room, "ann", reading, rule("ann", "consume", "topic:a.open.*"))
    queues = ann.read("/queue/a.**", "q")
    topics = ann.read("/topic/a.**", "t")
    other = room.enter()
    for name in ("a.secret", "a.open.x", "a.later"):
        other.send(f"/queue/{name}", f"queue {name}")
        other.send(f"/topic/{name}", f"topic {name}")
    assert queues.names == ["queue a.open.x"]
    assert topics.names == ["topic a.open.x"]


def test_a_wildcard_that_can_mean_nothing_allowed_is_refused() -> None:
    ann = person(Room(), "ann", rule("ann", "connect,consume", "topic:**"))
    with pytest.raises(RefusedError, match="ann may not consume queue:a"):
        ann.read("/queue/a.*")


def test_a_durable_wildcard_needs_a_rule_that_covers_it() -> None:
    room = Room()
    ann = person(room, "ann", rule("ann", "*", "dsub:**"), rule("ann", "*", "topic:a.**"))
    with pytest.raises(RefusedError, match="may not consume"):
        room.broker.make_durable(ann.session, "d", places("/topic/**"), None, room.now)
    room.broker.make_durable(ann.session, "d", places("/topic/a.b.*"), None, room.now)


def test_to_change_what_a_durable_subscription_hears_is_to_create_it() -> None:
    room = Room()
    room.broker.make_durable(room.enter().session, "d", places("/topic/a"), None, room.now)
    ann = person(room, "ann", rule("ann", "consume"))
    room.broker.make_durable(ann.session, "d", places("/topic/a"), None, room.now)
    room.enter().send("/topic/b")
    with pytest.raises(RefusedError, match="may not create dsub:d"):
        room.broker.make_durable(ann.session, "d", places("/topic/b"), None, room.now)


def test_first_use_makes_a_destination_only_for_who_may_create_it() -> None:
    room = Room()
    ann = person(room, "ann", rule("ann", "send,consume"))
    for use in (ann.send, ann.read):
        with pytest.raises(RefusedError, match="ann may not create queue:new"):
            use("/queue/new")
    room.enter().send("/queue/new", "there now")
    ann.send("/queue/new")
    assert room.depth("new") == 2


def test_a_queue_that_went_away_is_created_anew_only_by_who_may() -> None:
    room = Room()
    room.enter().send("/queue/new")
    ann = person(room, "ann", rule("ann", "send"))
    ann.send("/queue/new")
    room.broker.host.delete_queue("new", "test")
    with pytest.raises(RefusedError, match="may not create"):
        ann.send("/queue/new")


def test_without_auto_create_only_what_is_declared_can_be_used() -> None:
    room = Room(limits={"auto_create": False})
    ann = room.enter()
    for place in ("/queue/new", "/topic/new"):
        with pytest.raises(RefusedError, match="there is no"):
            ann.send(place)
        with pytest.raises(RefusedError, match="there is no"):
            ann.read(place)
    own = f"/queue/temp.default.{ann.session.id}.x"
    ann.read(own)
    ann.send(own)


def test_a_composite_with_one_forbidden_part_reaches_none() -> None:
    room = Room()
    ann = person(room, "ann", rule("ann", "send,create", "queue:open"))
    with pytest.raises(RefusedError, match="may not send queue:secret"):
        ann.send("/queue/open,/queue/secret")
    assert room.depth("open") == 0


def test_another_connections_temporary_queue_is_closed_to_whoever_may_read_everything() -> None:
    room = Room()
    ann = person(room, "ann", rule("ann", "*"))
    bob = room.enter("bob")
    bob.read(f"/queue/temp.default.{bob.session.id}.x")
    with pytest.raises(RefusedError, match="can be read by the connection that made it"):
        ann.read(f"/queue/temp.default.{bob.session.id}.x")
