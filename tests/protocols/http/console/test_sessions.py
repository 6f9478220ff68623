"""Sessions: signing in, the cookie, the token, and everything that ends them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.datastructures import Headers

from covey.config.settings import HttpSettings, UserSettings
from covey.core.security.users import Users
from covey.protocols.http.console.sessions import Sessions, SignedIn
from tests.protocols.http.support import ADMIN, PLAIN, USERS, World, make_settings, run

SESSION = "/api/v1/session"
QUEUES = "/api/v1/queues"


async def sign_in(client: httpx.AsyncClient, login: tuple[str, str] = ADMIN) -> dict[str, Any]:
    given = {"name": login[0], "password": login[1]}
    answer = await client.post(SESSION, json=given)
    assert answer.status_code == 201, answer.text
    told: dict[str, Any] = answer.json()
    return told


def test_who_signs_in_needs_no_password_any_more_and_a_token_for_changes() -> None:
    world = World()

    async def test() -> None:
        async with world.client(None) as client:
            assert (await client.get(QUEUES)).status_code == 401
            token = (await sign_in(client))["token"]
            assert (await client.get(QUEUES)).status_code == 200
            refused = await client.put(f"{QUEUES}/a", json={})
            assert (refused.status_code, refused.json()["code"]) == (403, "denied")
            assert "x-covey-token" in refused.json()["text"]
            wrong = await client.put(f"{QUEUES}/a", json={}, headers={"x-covey-token": "x"})
            assert wrong.status_code == 403
            assert not world.host.queues
            headers = {"x-covey-token": token}
            assert (await client.put(f"{QUEUES}/a", json={}, headers=headers)).status_code == 201

    run(test)


def test_the_cookie_is_for_the_browser_alone() -> None:
    world = World()
    world.app.console.sessions.port = 8161
    answer = world.ask("POST", SESSION, None, json={"name": ADMIN[0], "password": ADMIN[1]})
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith("covey-session-8161=")
    for part in ("httponly", "samesite=strict", "path=/", "max-age=43200"):
        assert part in cookie
    assert "secure" not in cookie  # it came over plain HTTP: a Secure cookie would be lost
    given = {"json": {"name": ADMIN[0], "password": ADMIN[1]}}
    answer = world.ask("POST", "https://127.0.0.1" + SESSION, None, **given)
    assert "secure" in answer.headers["set-cookie"].lower()


def test_programs_with_a_password_need_no_token() -> None:
    assert World().ask("PUT", f"{QUEUES}/a", json={}).status_code == 201


def test_a_wrong_password_is_a_failed_login_like_any_other() -> None:
    world = World(make_settings(broker={"login_failed_wait_s": 0, "login_failures_max": 3}))
    given = {"name": ADMIN[0], "password": "guessed"}
    answers = [world.ask("POST", SESSION, None, json=given) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 429]
    assert "set-cookie" not in answers[0].headers


def test_a_page_of_another_site_may_not_sign_anybody_in() -> None:
    headers = {"origin": "https://evil.example"}
    given = {"name": ADMIN[0], "password": ADMIN[1]}
    answer = World().ask("POST", SESSION, None, json=given, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "denied")


def test_our_own_page_may_and_gets_no_form_of_the_browser() -> None:
    world = World()
    headers = {"origin": "http://127.0.0.1", "sec-fetch-dest": "empty"}
    given = {"name": ADMIN[0], "password": ADMIN[1]}
    assert world.ask("POST", SESSION, None, json=given, headers=headers).status_code == 201
    answer = world.ask("GET", QUEUES, None, headers=headers)
    assert answer.status_code == 401
    assert "www-authenticate" not in answer.headers


def test_signing_out_ends_it() -> None:
    world = World()

    async def test() -> None:
        async with world.client(None) as client:
            token = (await sign_in(client))["token"]
            kept = dict(client.cookies)
            answer = await client.delete(SESSION, headers={"x-covey-token": token})
            assert answer.status_code == 204
            assert not client.cookies
            client.cookies.update(kept)
            assert (await client.get(QUEUES)).status_code == 401

    run(test)


def test_an_operator_sees_who_is_signed_in_and_ends_it() -> None:
    world = World()

    async def test() -> None:
        async with world.client(None) as client, world.client() as operator:
            await sign_in(client, PLAIN)
            assert (await client.get(SESSION)).json()["user"] == PLAIN[0]
            (row,) = (await operator.get("/api/v1/sessions")).json()["items"]
            assert row["user"] == PLAIN[0]
            ended = await operator.delete(f"/api/v1/sessions/{row['name']}")
            assert ended.status_code == 204
            assert (await client.get(SESSION)).status_code == 401
            again = await operator.delete(f"/api/v1/sessions/{row['name']}")
            assert again.status_code == 404

    run(test)


@pytest.mark.parametrize(("idle_s", "max_s"), [(0.05, 60.0), (60.0, 0.05)])
def test_it_runs_out(idle_s: float, max_s: float) -> None:
    world = World(http=HttpSettings(session_idle_s=idle_s, session_max_s=max_s))
    sessions = world.app.console.sessions
    identity = world.broker.users.login(*ADMIN, is_loopback=True)
    now = time.monotonic()
    _, session = sessions.begin(identity, now)
    assert sessions.is_alive(session, now + 0.04)
    assert not sessions.is_alive(session, now + 0.06)
    assert sessions.describe(now + 0.06) == []


def test_one_too_many_ends_the_one_that_was_idle_longest() -> None:
    world = World(http=HttpSettings(sessions_max=2))
    sessions = world.app.console.sessions
    identity = world.broker.users.login(*ADMIN, is_loopback=True)
    known = [sessions.begin(identity, float(number))[1] for number in range(3)]
    assert [sessions.is_known(one, 3.0) for one in known] == [False, True, True]


def test_who_signs_in_again_and_again_ends_only_sessions_of_its_own() -> None:
    world = World(http=HttpSettings(sessions_max=4))
    sessions = world.app.console.sessions
    users = world.broker.users
    admin, worker = [users.login(*one, is_loopback=True) for one in (ADMIN, PLAIN)]
    _, first = sessions.begin(admin, 0.0)
    own = [sessions.begin(worker, float(number))[1] for number in range(1, 10)]
    assert sessions.is_known(first, 10.0)
    assert [sessions.is_known(one, 10.0) for one in own] == [False] * 6 + [True] * 3
    again = [sessions.begin(admin, 10.0 + number)[1] for number in range(2)]
    assert [sessions.is_known(one, 12.0) for one in (first, *again)] == [False, True, True]


def test_another_password_or_role_ends_it() -> None:
    world = World()

    async def test() -> None:
        async with world.client(None) as client:
            await sign_in(client)
            changed = UserSettings.model_validate({"name": ADMIN[0], "password": "other"})
            world.broker.users.apply([changed, USERS[1]], [])
            assert (await client.get(QUEUES)).status_code == 401

    run(test)


def test_may_somebody_do_something_is_answered_with_the_rule() -> None:
    rules = [
        {"who": ["*"], "may": ["connect"]},
        {"who": ["role:staff"], "may": ["send"], "on": "queue:orders.**"},
    ]
    world = World(make_settings(permission=rules))
    check = "/api/v1/permissions/check?user=worker&verb="
    told = world.get(f"{check}send&on=/queue/orders.eu")
    assert told["allowed"] is True
    assert told["because"] == "rule 2: role:staff may send on queue:orders.**"
    told = world.get(f"{check}consume&on=/queue/orders.eu")
    assert (told["allowed"], told["because"]) == (False, "no rule allows it")
    assert world.get(f"{check}connect")["because"] == "rule 1: * may connect on **"
    told = world.get("/api/v1/permissions/check?user=admin&verb=manage&on=queue:a")
    assert (told["allowed"], told["because"]) == (True, "the role admin may do everything")
    assert world.ask("GET", f"{check}fly").status_code == 400
    assert world.ask("GET", "/api/v1/permissions/check?user=nobody").status_code == 404
    assert [row["who"] for row in world.get("/api/v1/permissions")["items"]] == [
        ["*"],
        ["role:staff"],
    ]


def test_a_session_outlives_the_process_but_no_change_of_the_password(tmp_path: Path) -> None:
    users = World().broker.users
    identity = users.login(*ADMIN, is_loopback=True)
    first = Sessions(users, HttpSettings(), tmp_path)
    first.open(8161, 0.0)
    secret, session = first.begin(identity, 100.0)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert secret not in file.read_text()
    headers = Headers({"cookie": f"covey-session-8161={secret}"})

    def find(sessions: Sessions) -> SignedIn | None:
        return sessions.find(headers, is_loopback=True, remote="127.0.0.1:1", now=5.0)

    second = Sessions(users, HttpSettings(), tmp_path)
    second.open(8161, 5.0)
    found = find(second)
    assert found is not None
    assert (found.identity.name, found.token) == (ADMIN[0], session.token)
    changed = UserSettings.model_validate({"name": ADMIN[0], "password": "other"})
    third = Sessions(Users([changed]), HttpSettings(), tmp_path)
    third.open(8161, 5.0)
    assert find(third) is None
    second.end(found)
    fourth = Sessions(users, HttpSettings(), tmp_path)
    fourth.open(8161, 5.0)
    assert find(fourth) is None


@pytest.mark.parametrize(
    ("cookies", "is_ours"),
    [
        (["covey-session-816=x"], True),
        (["a=b; covey-session-816=x; c=d"], True),
        (["a=b", "covey-session-816=x", "c=d"], True),  # as HTTP/2 may send them
        (['j={"a":1,"b":2}; covey-session-816=x'], True),  # after what is malformed
        (['a="x; b c; =; ; é[]; path=/; covey-session-816=x'], True),
        ([f"a={'x' * 5000}; covey-session-816=x"], True),
        (["covey-session-816=; covey-session-816=x"], True),
        ([], False),
        (["covey-session-8161=x"], False),  # of another broker on the same machine
        (["my-covey-session-816=x"], False),
        (["a=covey-session-816"], False),
        (["covey-session-816="], False),
    ],
)
def test_a_cookie_is_ours_by_its_whole_name(cookies: list[str], is_ours: bool) -> None:
    sessions = Sessions(World().broker.users, HttpSettings(), None)
    sessions.open(816, 0.0)
    raw = [(b"cookie", cookie.encode()) for cookie in cookies]
    assert sessions.has_cookie(Headers(raw=raw)) is is_ours


def test_a_file_of_sessions_that_cannot_be_read_signs_nobody_in(tmp_path: Path) -> None:
    sessions = Sessions(World().broker.users, HttpSettings(), tmp_path)
    (tmp_path / "console-sessions-1.json").write_text("[[")
    sessions.open(1, 0.0)
    assert sessions.describe(0.0) == []
