"""Routes: every row of the table, asked by everybody."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from covey.config.queues import QueueSettings
from covey.core.management.overlay import overlay_of
from covey.core.naming.destination import Destination, Kind
from covey.core.security.users import Identity
from covey.protocols.http.answer import STATUS
from covey.protocols.http.console.assets import release
from covey.protocols.http.console.events import MEDIA_TYPE as EVENTS
from covey.protocols.http.routes import ROUTES
from covey.protocols.http.routing import Need, Route
from tests.core.support import depth, groups_shown
from tests.doubles import Endless, KnownCluster
from tests.protocols.http.support import ADMIN, PLAIN, USERS, WRONG, World, make_settings

# What a row needs of the body and of the path, to be done by somebody who may.
BODIES = {
    "QueueBody": {"arguments": {}},
    "ReasonBody": {"reason": "r"},
    "MoveSpaceBody": {"node": "here"},
    "DrainBody": {"draining": True},
    "PauseBody": {"way": "in", "reason": "r"},
    "WayBody": {"way": "in"},
    "HeldBody": {"held": "leave"},
    "MoveGroupBody": {"to": "new.here"},
    "BuryGroupBody": {"reason": "r"},
    "RetryBody": {"count": 1},
    "SeqsBody": {"seqs": [1]},
    "MoveSeqsBody": {"seqs": [1], "to": "new.here"},
    "BurySeqsBody": {"seqs": [1]},
    "MessageBody": {"body": "hello"},
    "DefinitionsBody": {"queues": [{"name": "defined"}]},
    "SignInBody": {"name": ADMIN[0], "password": ADMIN[1]},
    "UserBody": {"password": "new", "roles": []},
    "PermissionBody": {"who": ["worker"], "may": ["send"]},
    "PolicyBody": {"settings": {"quota_messages": 7}},
}
RUN_TIME: dict[str, dict[str, object]] = {
    "user": {"password": "a"},
    "permission": {"who": ["admin"], "may": ["send"], "on": "x"},
    "policy": {"quota_messages": 3},
}
STRANGERS = {"nobody": None, "wrong": WRONG}
LOGINS = {"nobody": None, "wrong": WRONG, "plain": PLAIN, "admin": ADMIN}

# Who may, by what a row needs.
MAY = {
    Need.NOTHING: ("nobody", "wrong", "plain", "admin"),
    Need.OPEN: ("nobody", "wrong", "plain", "admin"),
    Need.LOGIN: ("plain", "admin"),
    Need.SOME: ("admin",),
    Need.SEND: ("plain", "admin"),
    Need.BROWSE: ("plain", "admin"),
    Need.MANAGE: ("admin",),
}


@pytest.fixture
def world() -> World:
    """One of everything a path may name."""
    world = World()
    world.send("here", "g")
    world.host.queues["here"].apply(QueueSettings(dlq="dead"))
    reader = world.read("here")
    topic = Destination(Kind.TOPIC, "here")
    world.host.topic("here")
    world.broker.make_durable(reader, "here", (topic,), None, time.monotonic())
    world.broker.jobs.begin(Endless())
    world.broker.shared.cluster = KnownCluster()
    return world


def set_at_run_time(world: World, kind: str) -> None:
    """Set an entry by the name that paths have; a permission would deny all others."""
    if kind in RUN_TIME:
        overlay_of(world.broker).put(kind, "here", RUN_TIME[kind], time.monotonic())


def path_of(route: Route, world: World) -> str:
    name = "here"
    if route.method == "PUT":
        name = "new"
    elif "/connections/" in route.path:
        name = str(next(iter(world.broker.sessions)))
    elif route.entity == "job":
        name = "1"
    elif "/sessions/" in route.path:
        signed_in = world.app.console.sessions.begin(Identity("admin"), time.monotonic())[1]
        name = str(signed_in.number)
    elif route.media_type == EVENTS:
        world.app.console.streams.end()  # a stream begins and ends at once
    names = {
        "name": name,
        "group": "g",
        "consumer": "1",
        "seq": "1",
        "release": release(),
        "file": "main.js",
    }
    return re.sub(r"\{(\w+)\}", lambda place: names[place[1]], route.path)


@pytest.mark.parametrize("who", LOGINS)
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method}-{route.path}")
def test_a_route_is_open_to_whom_the_table_says(world: World, route: Route, who: str) -> None:
    body = None if route.body is None else BODIES[route.body.__name__]
    set_at_run_time(world, route.entity if route.path.endswith("{name}") else "")
    answer = world.ask(route.method, path_of(route, world), LOGINS[who], json=body)
    if who in MAY[route.need]:
        assert answer.status_code == route.status, answer.text
        if route.status != 204:
            assert answer.headers["content-type"].startswith(route.media_type)
    elif who in STRANGERS:
        assert (answer.status_code, answer.json()["code"]) == (401, "login")
        assert answer.headers["www-authenticate"].startswith("Basic ")
    else:
        assert (answer.status_code, answer.json()["code"]) == (403, "denied")


def snapshot(world: World) -> object:
    host = world.host
    return (
        {name: depth(queue) for name, queue in host.queues.items()},
        [(each["group"], each["parked"]) for each in groups_shown(host.queues["here"])],
        list(host.topics),
        list(host.durables),
        set(host.declared),
        [one.is_retiring for one in host.queues["here"].state.consumers.values()],
        [overlay_of(world.broker).describe(kind) for kind in RUN_TIME],
    )


@pytest.mark.parametrize("who", ["nobody", "wrong", "plain"])
@pytest.mark.parametrize(
    "route",
    [one for one in ROUTES if one.method != "GET" and one.need is Need.MANAGE],
    ids=lambda route: f"{route.method}-{route.path}",
)
def test_who_may_not_manage_changes_nothing(world: World, route: Route, who: str) -> None:
    before = snapshot(world)
    body = None if route.body is None else BODIES[route.body.__name__]
    world.ask(route.method, path_of(route, world), LOGINS[who], json=body)
    assert snapshot(world) == before


def test_no_row_stands_twice() -> None:
    rows = [(route.method, route.path) for route in ROUTES]
    assert len(set(rows)) == len(rows)


def test_only_probes_and_the_way_in_are_open_to_strangers() -> None:
    assert [route.path for route in ROUTES if route.need is Need.NOTHING] == ["/livez", "/readyz"]
    assert [(route.method, route.path) for route in ROUTES if route.need is Need.OPEN] == [
        ("GET", "/"),
        ("GET", "/console/{release}/{file}"),
        ("POST", "/api/v1/session"),
    ]


def test_a_broker_that_cannot_take_messages_is_alive_but_not_ready(world: World) -> None:
    world.why_unready = "the store failed"
    assert world.ask("GET", "/livez", None).status_code == 200
    answer = world.ask("GET", "/readyz", None)
    assert (answer.status_code, answer.json()) == (503, {"status": "the store failed"})


def test_what_the_store_has_lost_is_told_to_strangers_without_names(world: World) -> None:
    assert world.ask("GET", "/readyz", None).json() == {"status": "ok"}
    world.broker.commits.store.damages.append("message 7 of queue payroll cannot be read")
    world.broker.commits.store.losses.append("batches 3 to 5 cannot be found")
    answer = world.ask("GET", "/readyz", None)
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ok",
        "damages": 1,
        "lost": ["batches 3 to 5 cannot be found"],
    }


def test_every_refusal_of_the_core_has_a_status() -> None:
    codes = "invalid not-found exists denied limit full conflict store-failed internal-error"
    assert set(codes.split()) <= set(STATUS)


def test_every_row_stands_in_the_manual() -> None:
    manual = (Path(__file__).parents[3] / "docs/http.md").read_text()
    for route in ROUTES:
        (line,) = [one for one in manual.splitlines() if one.startswith(f"| `{route.path}` |")]
        _, _, methods, needs, *_ = line.split("|")
        assert route.method in methods
        assert route.need.value in needs


KEEPER = ("keeper", "k")
KEPT = [one for one in ROUTES if one.need is Need.MANAGE and "/queues/{name}" in one.path]


@pytest.mark.parametrize("route", KEPT, ids=lambda route: f"{route.method}-{route.path}")
def test_who_manages_a_queue_may_do_all_that_to_it_and_to_no_other(route: Route) -> None:
    user = {"name": KEEPER[0], "password": KEEPER[1]}
    rules = [
        {"who": ["keeper", "worker"], "may": ["connect", "consume"]},
        {"who": ["keeper"], "may": ["manage", "create", "destroy"], "on": "queue:*.here"},
    ]
    world = World(make_settings(user=[*USERS, user], permission=rules))
    for name in ("my.here", "other"):
        world.send(name, "g")
        world.host.queues[name].apply(QueueSettings(dlq="dead"))
        world.read(name)
    body = None if route.body is None else BODIES[route.body.__name__]
    names = {"group": "g", "consumer": "1", "seq": "1"}
    if route.media_type == EVENTS:
        world.app.console.streams.end()
    for name, is_kept in (("my.here", True), ("other", False)):
        names["name"] = name.replace("my", "new") if route.method == "PUT" else name
        path = re.sub(r"\{(\w+)\}", lambda place: names[place[1]], route.path)
        answer = world.ask(route.method, path, KEEPER, json=body)
        assert answer.status_code == (route.status if is_kept else 403), answer.text
    listed = world.ask("GET", "/api/v1/queues", KEEPER).json()["items"]
    assert {row["name"] for row in listed} <= {"my.here", "new.here"}
