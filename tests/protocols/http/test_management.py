"""Management: what the API shows and does, beyond who may (that is test_routes).

Definitions: out and in again.
"""

from __future__ import annotations

import time

import anyio
import httpx
import pytest

from covey.core.naming.destination import Destination, Kind
from covey.core.selector import compile_selector
from tests.doubles import HeldStore, Listener
from tests.protocols.http.support import World

QUEUES = "/api/v1/queues"
GROUPED = {"qpid.group_header_key": "G", "qpid.shared_msg_group": 1}


@pytest.fixture
def world() -> World:
    return World()


def test_a_queue_is_declared_changed_and_deleted(world: World) -> None:
    made = world.ask("PUT", f"{QUEUES}/q", json={"arguments": GROUPED})
    assert (made.status_code, made.json()["strategy"]) == (201, "shared")
    assert world.ask("PUT", f"{QUEUES}/q", json={}).status_code == 409
    changed = world.ask("PATCH", f"{QUEUES}/q", json={"arguments": {"qpid.max_count": 5}})
    assert changed.json()["arguments"]["qpid.max_count"] == 5
    assert world.get(f"{QUEUES}/q")["group_header"] == "G"
    assert world.ask("DELETE", f"{QUEUES}/q").status_code == 204
    assert world.ask("GET", f"{QUEUES}/q").status_code == 404


def test_a_change_keeps_the_arguments_that_it_does_not_name_and_null_removes_one(
    world: World,
) -> None:
    given = {"covey.full_policy": "block", "qpid.max_count": 5, "covey.nak_limit": 3}
    world.ask("PUT", f"{QUEUES}/q", json={"arguments": given})
    changes = {"qpid.max_count": 100, "covey.nak_limit": None}
    changed = world.ask("PATCH", f"{QUEUES}/q", json={"arguments": changes})
    assert changed.json()["arguments"] == {"covey.full_policy": "block", "qpid.max_count": 100}


def test_a_change_is_answered_when_it_is_on_disk_and_a_question_at_once() -> None:
    store = HeldStore()
    world = World(store=store)

    async def main() -> None:
        answers: list[httpx.Response] = []

        async def declare() -> None:
            answers.append(await client.put(f"{QUEUES}/q", json={}))

        async with world.client() as client, anyio.create_task_group() as tasks:
            tasks.start_soon(declare)
            await anyio.wait_all_tasks_blocked()
            assert store.tickets and not answers
            assert (await client.get(f"{QUEUES}/q")).status_code == 200
            store.write()
        assert [answer.status_code for answer in answers] == [201]

    anyio.run(main)


@pytest.mark.parametrize("name", ["a,b", "a.*", "a..b", "%2Ftopic%2Fx"])
def test_what_is_no_queues_name_is_refused(world: World, name: str) -> None:
    assert world.ask("PUT", f"{QUEUES}/{name}", json={}).status_code == 400


def test_an_unknown_argument_is_refused_with_the_nearest(world: World) -> None:
    answer = world.ask("PUT", f"{QUEUES}/q", json={"arguments": {"qpid.max_cout": 1}})
    assert answer.status_code == 400
    assert "did you mean qpid.max_count" in answer.json()["text"]


def test_a_careful_delete_is_refused_while_there_is_something_to_lose(world: World) -> None:
    world.send("q")
    assert world.ask("DELETE", f"{QUEUES}/q?if_empty=true").status_code == 409
    assert world.ask("DELETE", f"{QUEUES}/q?if_empty=false").status_code == 204


def test_lists_come_in_pages(world: World) -> None:
    for number in range(5):
        world.send(f"q{number}")
    page = world.get(f"{QUEUES}?limit=2&offset=3")
    assert ([queue["name"] for queue in page["items"]], page["total"]) == (["q3", "q4"], 5)


def test_a_purge_says_how_many(world: World) -> None:
    for _ in range(3):
        world.send("q")
    assert world.ask("POST", f"{QUEUES}/q/purge").json() == {"purged": 3}


def test_groups_show_their_owner_and_those_that_wait_can_be_asked_for(world: World) -> None:
    for group in ("a", "b", "c/d"):
        world.send("q", group)
    world.read("q", link="worker-7")
    groups = world.get(f"{QUEUES}/q/groups")
    assert {group["owner_name"] for group in groups["items"]} == {"worker-7"}
    assert world.ask("POST", f"{QUEUES}/q/groups/c%2Fd/park").status_code == 204
    world.send("q", "c/d")
    waiting = world.get(f"{QUEUES}/q/groups?waiting=true")
    assert [group["group"] for group in waiting["items"]] == ["c/d"]
    shown = world.get(f"{QUEUES}/q/groups/c%2Fd")
    assert (shown["parked"], shown["why"] != "") == (True, True)
    assert world.ask("POST", f"{QUEUES}/q/groups/c%2Fd/unpark").status_code == 204
    assert world.get(f"{QUEUES}/q/groups?waiting=true")["total"] == 0


@pytest.mark.parametrize("action", ["park", "unpark"])
def test_a_group_without_messages_can_be_parked(world: World, action: str) -> None:
    world.send("q", "a")
    assert world.ask("POST", f"{QUEUES}/q/groups/b/{action}").status_code == 204
    shown = world.get(f"{QUEUES}/q/groups?parked=true")
    assert [each["group"] for each in shown["items"]] == (["b"] if action == "park" else [])
    assert world.ask("POST", f"{QUEUES}/none/groups/b/{action}").status_code == 404


def test_closing_a_group_says_whether_it_had_messages(world: World) -> None:
    world.send("q", "a")
    assert world.ask("POST", f"{QUEUES}/q/groups/a/close").json() == {"had_messages": True}
    assert world.ask("POST", f"{QUEUES}/q/groups/b/close").json() == {"had_messages": False}


def test_a_retired_consumer_gets_no_new_group(world: World) -> None:
    world.send("q")
    world.read("q")
    assert world.ask("POST", f"{QUEUES}/q/consumers/1/retire").status_code == 204
    (consumer,) = world.get("/api/v1/consumers")["items"]
    assert consumer["retiring"] is True
    assert world.ask("POST", f"{QUEUES}/q/consumers/2/retire").status_code == 404


def test_closing_a_connection_asks_it_to_end(world: World) -> None:
    session = world.session()
    session.client = client = Listener()
    assert world.ask("DELETE", f"/api/v1/connections/{session.id}").status_code == 204
    assert client.kicks == ["closed by admin"]


def test_users_are_listed_without_secrets(world: World) -> None:
    answer = world.ask("GET", "/api/v1/users")
    assert answer.json()["items"] == [
        {"name": "admin", "type": "user", "roles": ["admin"], "origin": "file"},
        {"name": "worker", "type": "user", "roles": ["staff"], "origin": "file"},
    ]
    assert "secret" not in answer.text


def test_users_permissions_and_policies_are_set_at_run_time(world: World) -> None:
    body: dict[str, object] = {"password": "hush", "roles": ["staff"]}
    made = world.ask("PUT", "/api/v1/users/eve", json=body)
    assert (made.status_code, made.json()["origin"]) == (200, "run time")
    assert "hush" not in made.text and "SCRAM" not in made.text
    assert world.ask("GET", "/api/v1/broker", ("eve", "hush")).status_code == 403  # let in
    assert world.ask("PUT", "/api/v1/users/eve", json={"password": "psst"}).status_code == 200
    assert world.ask("GET", "/api/v1/broker", ("eve", "hush")).status_code == 401
    assert world.get("/api/v1/users/eve")["roles"] == ["staff"]  # what is not named stays
    assert world.ask("DELETE", "/api/v1/users/eve").status_code == 204
    policy = {"settings": {"quota_messages": 1, "groups": {"strategy": "lru"}}}
    assert world.ask("PUT", "/api/v1/policies/p.**", json=policy).status_code == 200
    world.send("p.a")
    assert world.get("/api/v1/queues/p.a")["strategy"] == "lru"
    wrong = world.ask("PUT", "/api/v1/policies/x", json={"settings": {"wombat": 1}})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid")
    assert "wombat" in wrong.json()["text"]


def test_a_trace_tells_what_happened_since_the_last_event_known(world: World) -> None:
    world.send("q")
    assert world.get(f"{QUEUES}/q/trace") == {"events": [], "last": 0, "missed": 0}
    world.send("q", "a")
    world.send("q", "b")
    told = world.get(f"{QUEUES}/q/trace?after=1")
    assert [(event["event"], event["seq"], event["group"]) for event in told["events"]] == [
        ("enqueue", 3, "b")
    ]
    assert told["last"] == 2
    assert world.ask("GET", f"{QUEUES}/none/trace").status_code == 404


PATH = "/api/v1/definitions"


def declared() -> World:
    world = World()
    world.ask("PUT", "/api/v1/queues/a%2Fb", json={"arguments": GROUPED})
    world.ask("PUT", "/api/v1/queues/plain", json={"arguments": {"qpid.max_count": 5}})
    world.send("only.used")
    topics = (Destination(Kind.TOPIC, "t.*", is_pattern=True), Destination(Kind.TOPIC, "x y"))
    selector = compile_selector("a > 1")
    session = world.session()
    world.broker.make_durable(session, "d%2Fe", topics, selector, time.monotonic())
    world.broker.drop(session, time.monotonic())
    return world


def test_what_is_exported_makes_the_same_again() -> None:
    exported = declared().ask("GET", PATH)
    assert [queue["name"] for queue in exported.json()["queues"]] == ["a%2Fb", "plain"]
    assert "secret" not in exported.text
    other = World()
    done = other.ask("POST", PATH, content=exported.content)
    assert done.status_code == 200, done.text
    assert done.json()["same"] == 3  # two users and a permission
    assert other.get(PATH) == exported.json()
    assert set(other.host.durables) == {"d%2Fe"}


def test_an_import_may_be_repeated_and_changes_what_exists() -> None:
    world = declared()
    document = world.get(PATH)
    assert world.ask("POST", PATH, json=document).status_code == 200
    assert world.get(PATH) == document
    document["queues"][1]["arguments"]["qpid.max_count"] = 9
    world.ask("POST", PATH, json=document)
    assert world.host.queues["plain"].settings.quota_messages == 9


def test_a_dry_import_tells_what_would_change_and_changes_nothing() -> None:
    document = declared().get(PATH)
    document["policies"].append({"name": "x.**", "settings": {"quota_messages": 5}})
    rule = {"name": "file-9", "who": ["shop"], "may": ["send"], "on": "x.**"}
    document["permissions"].append(rule)
    document["users"].append({"name": "shop", "roles": ["r"]})
    document["users"][0]["roles"].append("more")
    world = World()
    told = world.ask("POST", f"{PATH}?dry_run=true", json=document).json()
    steps = {(step["kind"], step["name"].split("-")[0]): step for step in told["steps"]}
    assert {key: step["action"] for key, step in steps.items()} == {
        ("policy", "x.**"): "new",
        ("queue", "a%2Fb"): "new",
        ("queue", "plain"): "new",
        ("subscription", "d%2Fe"): "new",
        ("permission", "imported"): "new",
        ("user", "admin"): "change",
        ("user", "shop"): "left alone",
    }
    assert steps["user", "admin"]["before"] == {"roles": ["admin"]}
    assert told["changed"] == []
    assert not world.host.declared
    assert len(world.ask("POST", PATH, json=document).json()["changed"]) == 6
    again = world.ask("POST", f"{PATH}?dry_run=true", json=document).json()
    assert [step["action"] for step in again["steps"]] == ["left alone"]
    assert world.host.queue("x.y").settings.quota_messages == 5


def test_records_of_passwords_are_told_on_request_and_make_the_same_users() -> None:
    world = World()
    world.ask("PUT", "/api/v1/users/shop", json={"password": "open sesame", "roles": ["r"]})
    told = world.get(f"{PATH}?passwords=true")
    assert all(user["password"].startswith("SCRAM-SHA-256$") for user in told["users"])
    assert "password" not in world.ask("GET", PATH).json()["users"][0]
    other = World()
    assert other.ask("POST", PATH, json={"users": told["users"][1:]}).status_code == 200
    assert other.ask("GET", "/api/v1/openapi.json", ("shop", "open sesame")).status_code == 200
    assert "open sesame" not in str(told)
    manager = world.ask("GET", f"{PATH}?passwords=true", ("shop", "open sesame"))
    assert manager.status_code == 403


def test_a_refused_entry_is_named() -> None:
    world = World()
    bad = {"subscriptions": [{"name": "d", "destinations": ["/topic/a"], "selector": "a >"}]}
    answer = world.ask("POST", PATH, json=bad)
    assert answer.status_code == 400
    assert answer.json()["text"].startswith("subscription d: selector")
    bad = {"subscriptions": [{"name": "d", "destinations": ["/queue/a"]}]}
    assert "is not one" in world.ask("POST", PATH, json=bad).json()["text"]
    assert world.ask("POST", PATH, json={"version": 2}).status_code == 400
    assert not world.broker.sessions


def test_a_queue_is_paused_for_one_way_or_both(world: World) -> None:
    world.send("q", "a")
    way, why = {"way": "out"}, {"way": "in", "reason": "stock-taking"}
    assert world.ask("POST", f"{QUEUES}/q/pause", json=way).json() == {"paused": "out"}
    assert world.ask("POST", f"{QUEUES}/q/pause", json=why).json() == {"paused": "both"}
    shown = world.get(f"{QUEUES}/q")
    assert [(each["way"], each["why"]) for each in shown["pauses"]] == [
        ("in", "stock-taking"),
        ("out", ""),
    ]
    metrics = world.ask("GET", "/metrics/queues").text
    assert 'covey_queue_paused{host="default",queue="q",way="in"} 1' in metrics
    assert 'covey_queues_paused{way="out"} 1' in world.ask("GET", "/metrics").text
    assert world.ask("POST", f"{QUEUES}/q/resume", json=way).json() == {"paused": "in"}
    assert world.ask("POST", f"{QUEUES}/q/resume").json() == {"paused": ""}
    assert world.ask("POST", f"{QUEUES}/q/pause", json={"way": "up"}).status_code == 400
    assert world.ask("POST", f"{QUEUES}/none/pause").status_code == 404
