"""Configuration: what holds and where it is from, over HTTP."""

from __future__ import annotations

from tests.protocols.http.support import ADMIN, World, make_settings


def rows(world: World, path: str) -> dict[str, tuple[object, str]]:
    return {row["key"]: (row["value"], row["origin"]) for row in world.get(path)["items"]}


def test_every_value_has_its_origin_and_no_secret_is_shown() -> None:
    world = World()
    found = rows(world, "/api/v1/configuration")
    assert found["broker.id"] == ("default", "covey.toml:3")
    assert found["broker.connections_max"] == (10_000, "default")
    assert found["user[0].password"][0] == "**********"
    assert ADMIN[1] not in world.ask("GET", "/api/v1/configuration").text


def test_a_connector_has_the_options_of_what_it_speaks() -> None:
    found = rows(World(), "/api/v1/configuration")
    assert "connector[0].stomp.max_headers" in found
    assert "connector[0].amqp.links_max" not in found


def test_a_reload_answers_with_its_report() -> None:
    answer = World().ask("POST", "/api/v1/configuration/reload")
    assert answer.status_code == 200
    assert answer.json() == {
        "changes": ["broker.id: changed"],
        "kept": [],
        "needs_restart": [],
    }


def test_a_queue_tells_by_whose_word_it_does_what_it_does() -> None:
    world = World(make_settings(queue=[{"id": "a.*", "nak_limit": 3}]))
    world.ask("PUT", "/api/v1/queues/a.b", json={"arguments": {"qpid.max_count": 7}})
    found = rows(world, "/api/v1/queues/a.b/policy")
    assert found["quota_messages"] == (7, "declared")
    assert found["nak_limit"] == (3, "default")  # the origins of this test know of no file
    assert found["groups.strategy"][1] == "default"


def test_a_form_learns_what_a_policy_may_have() -> None:
    rows = {row["key"]: row for row in World().get("/api/v1/configuration/schema")["items"]}
    assert rows["quota_messages"]["kind"] == "number"
    assert rows["quota"]["kind"] == "string"  # it may be written 10M
    assert (rows["dlq"]["kind"], rows["dlq"]["default"]) == ("string", None)
    assert rows["dlq_expired"]["kind"] == "boolean"
    assert rows["groups.strategy"]["options"][:2] == ["shared", "simple"]
    assert "groups" not in rows
    assert "id" not in rows
    assert all(row["help"] for row in rows.values())
