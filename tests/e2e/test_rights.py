"""Rights: a declaration is authorised by everything that it causes, whichever way it comes in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pytest

from covey.config.queues import GroupSettings, QueueSettings
from covey.core.management.declaration import REACHING
from covey.core.naming.destination import Kind
from tests.e2e.ways import JOE, Rule, Ways
from tests.protocols.http.support import ADMIN

NAME: Final = "ok.x"
OWN: Final[tuple[Rule, ...]] = (
    ("manage", "**"),
    ("send,consume,create,destroy,browse", "queue:ok.**"),
)

# Options whose effect ends at the queue itself. One that names another destination, or implies
# one, has a row in `core.management.declaration.REACHING` and in CASES instead.
OF_THE_QUEUE_ALONE: Final = frozenset(
    "id quota quota_messages full_policy dlq_expired nak_limit redelivery_delay_ms"
    " redelivery_backoff redelivery_delay_max_ms round_robin auto_delete_after_s durable priorities"
    " lvq_key duplicate_window duplicate_window_s slow_consumer_policy groups delivery_deadline_s"
    " delivery_deadline_max_s deadline_action dead_letter_rest dead_letter_then".split()
)
OF_THE_GROUPS_ALONE: Final = frozenset(
    "strategy header default_group bucket_count cache_size ring_points lru_strict_activemq"
    " forget_idle_s consumers_before_dispatch time_before_dispatch_ms unsettled_max"
    " park_after_failures drain_limit_s sticky_return_s selector_order first_for_consumer"
    " rebalance_after_s rebalance_rate spill_after_ms count_idle_groups group_rate".split()
)


@dataclass(frozen=True)
class Case:
    """An option as a client writes it, and what it takes to set it."""

    option: str
    key: str
    value: str | bool
    needs: tuple[Rule, ...]
    can_change: bool = True

    def __str__(self) -> str:
        return f"{self.key}={self.value}"


MIRROR_NEEDS: Final = (("consume", "topic:ok.x"), ("send", "topic:ok.x"), ("create", "topic:ok.x"))
CASES: Final = (
    Case(
        "dlq",
        "alternate-exchange",
        "secret.y",
        (("send", "queue:secret.y"), ("create", "queue:secret.y")),
    ),
    Case(
        "dlq",
        "covey.dlq",
        "/queue/secret.y",
        (("send", "queue:secret.y"), ("create", "queue:secret.y")),
    ),
    Case(
        "dlq",
        "covey.dlq",
        "dead.*",
        (("send", "queue:dead.ok.x"), ("create", "queue:dead.ok.x")),
    ),
    Case("mirrored", "covey.mirrored", True, MIRROR_NEEDS, can_change=False),
)


def x_declare(ways: Ways, arguments: Mapping[str, object]) -> bool:
    written = json.dumps(arguments).replace('"', "'")
    peer = ways.amqp(JOE)
    peer.sender(f"{NAME}; {{create: always, node: {{x-declare: {{arguments: {written}}}}}}}")
    return not peer.conditions


def node_properties(ways: Ways, arguments: Mapping[str, object]) -> bool:
    written = json.dumps(arguments).replace('"', "'")
    peer = ways.amqp(JOE)
    peer.receiver(f"{NAME}; {{create: always, node: {{properties: {written}}}}}")
    return not peer.conditions


def managed(operation: str) -> Callable[[Ways, Mapping[str, object]], bool]:
    def declare(ways: Ways, arguments: Mapping[str, object]) -> bool:
        body = {"arguments": dict(arguments)}
        return ways.manage(operation, body, JOE, type="covey.queue", name=NAME) < 300

    return declare


def asked(method: str) -> Callable[[Ways, Mapping[str, object]], bool]:
    def declare(ways: Ways, arguments: Mapping[str, object]) -> bool:
        body = {"arguments": dict(arguments)}
        return ways.ask(method, f"/queues/{NAME}", JOE, json=body) < 300

    return declare


def imported(ways: Ways, arguments: Mapping[str, object]) -> bool:
    queues = [{"name": NAME, "arguments": dict(arguments)}]
    return ways.ask("POST", "/definitions", JOE, json={"version": 1, "queues": queues}) < 300


DECLARING: Final = {
    "x-declare": x_declare,
    "node properties": node_properties,
    "$management CREATE": managed("CREATE"),
    "HTTP PUT": asked("PUT"),
    "HTTP import": imported,
}
CHANGING: Final = {
    "$management UPDATE": managed("UPDATE"),
    "HTTP PATCH": asked("PATCH"),
    "HTTP import": imported,
}
WAYS: Final = [
    *[pytest.param(way, False, id=name) for name, way in DECLARING.items()],
    *[pytest.param(way, True, id=f"{name} of one that exists") for name, way in CHANGING.items()],
]
Declare = Callable[[Ways, Mapping[str, object]], bool]


def made(*rules: Rule, is_there: bool, **settings: object) -> Ways:
    ways = Ways(*OWN, *rules, **settings)
    if is_there:
        ways.host.declare(ways.host.queue(NAME, QueueSettings()))
    return ways


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize(("declare", "is_there"), WAYS)
def test_a_declaration_needs_every_right_to_what_it_causes(
    declare: Declare, is_there: bool, case: Case
) -> None:
    for missing in case.needs:
        granted = [need for need in case.needs if need != missing]
        ways = made(*granted, is_there=is_there)
        before = set(ways.host.queues), set(ways.host.topics)
        assert not declare(ways, {case.key: case.value}), missing
        told = [(line["verb"], line["destination"]) for line in ways.of("denied")]
        assert told == [missing]
        queues = {name for name in ways.host.queues if not name.startswith("temp.")}
        assert (queues, set(ways.host.topics)) == before
        if is_there:
            assert not getattr(ways.host.queues[NAME].settings, case.option)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize(("declare", "is_there"), WAYS)
def test_with_these_rights_it_is_done(declare: Declare, is_there: bool, case: Case) -> None:
    ways = made(*case.needs, is_there=is_there)
    assert declare(ways, {case.key: case.value}) == (case.can_change or not is_there)
    assert ways.of("denied") == []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_there_already_needs_no_right_to_create(case: Case) -> None:
    needs = [need for need in case.needs if need[0] != "create"]
    for way in DECLARING.values():
        ways = made(*needs, is_there=False)
        kind, _, name = needs[0][1].partition(":")
        if kind == Kind.QUEUE.value:
            ways.host.queue(name)
        else:
            ways.host.topic(name)
        assert way(ways, {case.key: case.value})


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_the_operators_file_gives_needs_no_right(case: Case) -> None:
    policy = {"id": "ok.**", case.option: case.value}
    for way in DECLARING.values():
        for arguments in ({}, {"qpid.max_count": 7}, {case.key: case.value}):
            ways = made(is_there=False, queue=[policy])
            assert way(ways, arguments)
            assert ways.of("denied") == []
            assert getattr(ways.host.queues[NAME].settings, case.option)


@pytest.mark.parametrize("way", CHANGING.values(), ids=list(CHANGING))
def test_who_changes_something_else_did_not_cause_what_the_queue_does(way: Declare) -> None:
    ways = Ways(*OWN)
    settings = QueueSettings(dlq="secret.y", mirrored=True)
    ways.host.declare(ways.host.queue(NAME, settings))
    assert way(ways, {"qpid.max_count": 7})
    assert ways.host.queues[NAME].settings.dlq == "secret.y"
    assert not way(ways, {"covey.dlq": "secret.z"})
    assert ways.host.queues[NAME].settings.dlq == "secret.y"


# Commands that put messages into another queue.

MOVING: Final[dict[str, Callable[[Ways, str], int]]] = {
    "HTTP, a group": lambda ways, to: ways.ask(
        "POST", f"/queues/{NAME}/groups/g/move", JOE, json={"to": to}
    ),
    "HTTP, messages": lambda ways, to: ways.ask(
        "POST", f"/queues/{NAME}/messages/move", JOE, json={"seqs": [1], "to": to}
    ),
    "$management, a group": lambda ways, to: ways.manage(
        "MOVE-GROUP", {}, JOE, type="covey.queue", name=NAME, group="g", to=to
    ),
    "$management, messages": lambda ways, to: ways.manage(
        "MOVE-MESSAGES", {"seqs": [1]}, JOE, type="covey.queue", name=NAME, to=to
    ),
}
TARGET: Final = "secret.y"
MAY_MOVE: Final[tuple[Rule, ...]] = (("manage", "queue:ok.**"), ("manage", f"queue:{TARGET}"))


@pytest.mark.parametrize("target", [TARGET, f"/queue/{TARGET}", "queue://secret.%79"])
@pytest.mark.parametrize("move", MOVING.values(), ids=list(MOVING))
def test_a_move_needs_the_right_to_manage_its_target(
    move: Callable[[Ways, str], int], target: str
) -> None:
    ways = Ways(MAY_MOVE[0])
    ways.http.send(NAME, "g")
    ways.host.queue(TARGET)
    assert move(ways, target) == 403
    assert [line["destination"] for line in ways.of("denied")] == [f"queue:{TARGET}"]
    assert ways.host.queues[NAME].state.index.count == 1
    ways = Ways(*MAY_MOVE)
    ways.http.send(NAME, "g")
    ways.host.queue(TARGET)
    assert move(ways, target) < 300
    assert ways.host.queues[TARGET].state.index.count == 1


@pytest.mark.parametrize("move", MOVING.values(), ids=list(MOVING))
def test_a_move_to_a_new_queue_needs_the_right_to_create_it(
    move: Callable[[Ways, str], int],
) -> None:
    ways = Ways(*MAY_MOVE)
    ways.http.send(NAME, "g")
    assert move(ways, TARGET) == 403
    assert TARGET not in ways.host.queues
    ways = Ways(*MAY_MOVE, ("create", f"queue:{TARGET}"))
    ways.http.send(NAME, "g")
    assert move(ways, TARGET) < 300


# A policy that is set at run time holds for the queues of all users.

PATTERN: Final = "ok.**"


def policy_put(ways: Ways, settings: Mapping[str, object], login: tuple[str, str]) -> int:
    return ways.ask("PUT", f"/policies/{PATTERN}", login, json={"settings": dict(settings)})


def policy_created(ways: Ways, settings: Mapping[str, object], login: tuple[str, str]) -> int:
    body = {"arguments": dict(settings)}
    return ways.manage("CREATE", body, login, type="covey.policy", name=PATTERN)


def policy_updated(ways: Ways, settings: Mapping[str, object], login: tuple[str, str]) -> int:
    first = {"arguments": {"quota_messages": 9}}
    assert ways.manage("CREATE", first, type="covey.policy", name=PATTERN) < 300
    body = {"arguments": dict(settings)}
    return ways.manage("UPDATE", body, login, type="covey.policy", name=PATTERN)


def policy_imported(ways: Ways, settings: Mapping[str, object], login: tuple[str, str]) -> int:
    policies = [{"name": PATTERN, "settings": dict(settings)}]
    return ways.ask("POST", "/definitions", login, json={"version": 1, "policies": policies})


SETTING = {
    "HTTP PUT": policy_put,
    "$management CREATE": policy_created,
    "$management UPDATE": policy_updated,
    "HTTP import": policy_imported,
}
SetPolicy = Callable[[Ways, Mapping[str, object], tuple[str, str]], int]


@pytest.mark.parametrize(("option", "value"), [("dlq", "secret.y"), ("mirrored", True)])
@pytest.mark.parametrize("way", SETTING.values(), ids=list(SETTING))
def test_only_an_admin_has_queues_feed_others_by_a_policy(
    way: SetPolicy, option: str, value: object
) -> None:
    ways = Ways(*OWN)
    assert way(ways, {option: value}, JOE) == 403
    assert [line["user"] for line in ways.of("denied")] == ["joe"]
    assert not getattr(ways.host.policies.queue(NAME), option)
    ways = Ways(*OWN)
    assert way(ways, {option: value}, ADMIN) < 300
    assert getattr(ways.host.policies.queue(NAME), option) == value


@pytest.mark.parametrize("way", SETTING.values(), ids=list(SETTING))
def test_who_manages_the_broker_sets_what_stays_in_the_queue(way: SetPolicy) -> None:
    ways = Ways(*OWN)
    assert way(ways, {"quota_messages": 7}, JOE) < 300
    assert ways.host.policies.queue(NAME).quota_messages == 7


def test_every_option_is_known_to_reach_another_destination_or_not_to() -> None:
    assert set(QueueSettings.model_fields) == OF_THE_QUEUE_ALONE | set(REACHING)
    assert set(GroupSettings.model_fields) == OF_THE_GROUPS_ALONE
    assert {case.option for case in CASES} == set(REACHING)
