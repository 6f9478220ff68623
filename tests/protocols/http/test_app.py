"""App: what a request meets on its way in, and what comes back when it goes wrong."""

from __future__ import annotations

import anyio
import pytest
from starlette.types import Message

from covey.config.settings import HttpSettings
from covey.core.broker.directory import Directory
from covey.core.model.entry import STORING
from covey.protocols.http.answer import HttpError
from covey.protocols.http.app import Incoming
from tests.core.support import depth
from tests.protocols.http.support import ADMIN, PLAIN, World, make_settings

SEND = "/api/v1/queues/q/messages"


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/api/v1", 404),
        ("GET", "/api/v1/queues/", 404),
        ("GET", "/api/v1/queues//groups", 404),
        ("GET", "/api/v1/queues/q/groups/g/close", 405),
        ("POST", "/livez", 405),
        ("PUT", "/api/v1/queues", 405),
        ("GET", "/api/v1/queues/%ff", 400),
        ("GET", "/api/v1/queues?limit=0", 400),
        ("GET", "/api/v1/queues?limit=1001", 400),
        ("GET", "/api/v1/queues?limit=-1", 400),
        ("GET", "/api/v1/queues?limit=1e3", 400),
        ("GET", "/api/v1/queues?limit=%D9%A1", 400),
        ("GET", "/api/v1/queues?colour=red", 400),
        ("GET", "/api/v1/queues?offset=%ff", 400),
        ("GET", "/api/v1/queues?host=elsewhere", 404),
        ("DELETE", "/api/v1/queues/q?if_empty=yes", 400),
        ("POST", "/api/v1/queues/q/consumers/first/retire", 400),
    ],
)
def test_what_cannot_be_asked_is_refused_with_a_reason(
    world: World, method: str, path: str, status: int
) -> None:
    answer = world.ask(method, path)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"code", "text"}


def test_a_path_without_this_method_names_those_it_has(world: World) -> None:
    answer = world.ask("POST", "/api/v1/queues/q")
    assert answer.headers["allow"] == "DELETE, GET, PATCH, PUT"


@pytest.mark.parametrize("path", ["/nothing", "/api/v1/queues", "/livez/x"])
def test_without_a_login_nobody_learns_what_exists(world: World, path: str) -> None:
    assert world.ask("GET", path, None).status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"body": 1}',
        b'{"colour": "red"}',
        b'{"body": "\\ud800"}',
        b'{"body": "\xff"}',
        b'{"priority": 10}',
        b'{"priority": true}',
        b'{"ttl_ms": -1}',
        b'{"body_base64": "?"}',
        b'{"body": "a", "body_base64": "YQ=="}',
        b'{"properties": {"a": NaN}}',
        b'{"properties": {"a": {"b": 1}}}',
        b'{"properties": {"": 1}}',
        b'{"properties": ' + b"[" * 100_000,
    ],
)
def test_a_body_that_is_not_as_it_should_be_is_refused(world: World, body: bytes) -> None:
    answer = world.ask("POST", SEND, content=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
    assert not world.host.queues


def test_a_refusal_of_a_body_names_the_field(world: World) -> None:
    answer = world.ask("POST", SEND, json={"priority": 12})
    assert "priority" in answer.json()["text"]


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded"])
def test_what_a_form_can_send_is_not_taken_for_json(world: World, media_type: str) -> None:
    headers = {"content-type": media_type}
    assert world.ask("POST", SEND, content=b"{}", headers=headers).status_code == 415


def test_a_body_is_cut_off_as_soon_as_it_is_too_large() -> None:
    taken: list[bytes] = []

    async def receive() -> Message:
        taken.append(b"x" * 100)
        return {"type": "http.request", "body": taken[-1], "more_body": True}

    async def main() -> None:
        with pytest.raises(HttpError) as error:
            await Incoming(receive, 250).whole()
        assert error.value.code == "too-large"

    anyio.run(main)
    assert len(taken) == 3


def test_a_body_that_breaks_off_is_not_acted_upon() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def main() -> None:
        with pytest.raises(HttpError, match="ended early"):
            await Incoming(receive, 250).whole()

    anyio.run(main)


def test_a_too_large_body_is_answered_413() -> None:
    world = World(http=HttpSettings(body_max=1000))
    answer = world.ask("POST", SEND, json={"body": "x" * 2000})
    assert (answer.status_code, answer.json()["code"]) == (413, "too-large")


def test_a_request_that_takes_too_long_is_answered_408() -> None:
    world = World(http=HttpSettings(request_timeout_s=0.05))

    world.send("q")
    queue = world.host.queues["q"]
    entry = queue.state.index.at_or_after(0)
    assert entry is not None
    entry.state = STORING  # its commit never comes back, so a browser waits for it
    assert world.ask("GET", SEND).status_code == 408
    assert not world.broker.sessions


def test_a_bug_of_ours_is_a_500_without_details(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(directory: Directory, name: str | None) -> None:
        raise KeyError("a secret")

    monkeypatch.setattr(Directory, "named", broken)
    answer = world.ask("GET", "/api/v1/queues")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal-error")
    assert "secret" not in answer.text


@pytest.mark.parametrize("path", ["/livez", "/", "/api/v1/queues", "/nothing"])
def test_every_answer_forbids_scripts_frames_and_caches(world: World, path: str) -> None:
    headers = world.ask("GET", path).headers
    assert headers["content-security-policy"].startswith("default-src 'none'")
    # The console runs its own files; nothing else runs anything, and nobody runs what is inline.
    own = "script-src 'self'; style-src 'self'"
    assert (own in headers["content-security-policy"]) == (path == "/")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_a_web_page_that_is_allowed_may_ask_and_others_may_not() -> None:
    world = World(http=HttpSettings(allowed_origins=("https://ops.example",)))
    preflight = {"access-control-request-method": "POST"}
    good = {"origin": "https://ops.example"}
    bad = {"origin": "https://evil.example"}
    answer = world.ask("OPTIONS", SEND, None, headers=good | preflight)
    assert answer.headers["access-control-allow-origin"] == "https://ops.example"
    assert "access-control-allow-credentials" not in answer.headers
    answer = world.ask("OPTIONS", SEND, None, headers=bad | preflight)
    assert "access-control-allow-origin" not in answer.headers
    assert world.ask("POST", SEND, PLAIN, json={}, headers=good).status_code == 201
    assert world.ask("POST", SEND, PLAIN, json={}, headers=bad).status_code == 403
    assert depth(world.host.queues["q"]) == 1


def test_a_virtual_host_is_chosen_by_the_query() -> None:
    hosts = [
        {"id": "one", "host_names": ["one.example"]},
        {"id": "two", "host_names": ["two.example"]},
    ]
    world = World(make_settings(virtual_host=hosts))
    world.ask("PUT", "/api/v1/queues/q?host=two.example", json={})
    assert [list(host.queues) for host in world.directory.hosts] == [[], ["q"]]
    assert world.get("/api/v1/broker?host=two.example")["host"] == "two"


def test_names_in_a_path_may_hold_any_character(world: World) -> None:
    world.ask("PUT", "/api/v1/queues/a%2Fb%20%C3%A4%3F", json={})
    (name,) = world.host.queues
    assert world.ask("GET", "/api/v1/queues/a%2Fb%20%C3%A4%3F", ADMIN).json()["name"] == name
