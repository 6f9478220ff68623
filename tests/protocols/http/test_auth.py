"""Auth: logins, and web pages that act behind somebody's back."""

from __future__ import annotations

import base64
import time

import anyio
import pytest
import structlog
from pydantic import SecretStr
from starlette.datastructures import Headers
from structlog.testing import capture_logs

from covey.config.settings import HttpSettings, Settings, UserSettings
from covey.core.broker.broker import Broker
from covey.core.broker.directory import Directory
from covey.core.security.users import Identity
from covey.protocols.http.answer import HttpError
from covey.protocols.http.auth import TOLD_EVERY_S, VISITS_MAX, Auth, Visits, is_local
from covey.protocols.http.console.sessions import Sessions
from tests.doubles import Heard
from tests.protocols.http.support import ADMIN, WRONG, World, make_settings

QUEUES = "/api/v1/queues"


def basic(text: bytes) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(text).decode()}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Basic"},
        {"authorization": "Basic ="},
        {"authorization": "Bearer abc"},
        {"authorization": "Basic " + "QUFB" * 10_000},
        {"authorization": b"Basic \xc3\xa9"},
        {"authorization": b"\xc3\xa9"},
        basic(b"no colon"),
        basic(b"\xff:\xff"),
        basic(b":"),
        basic(b"admin:"),
        basic(b"nobody:x"),
    ],
)
def test_whatever_is_wrong_with_a_login_the_answer_is_the_same(
    headers: dict[str, str | bytes],
) -> None:
    answer = World().ask("GET", QUEUES, None, headers=headers)
    assert answer.status_code == 401
    assert answer.json()["text"] == "a login is needed: wrong user or password, or none"


def test_a_login_that_is_not_ascii_is_a_wrong_one_and_no_failure_of_the_broker() -> None:
    world = World()
    answer = world.ask("GET", QUEUES, None, headers={b"authorization": b"Basic \xc3\xa9"})
    assert answer.status_code == 401
    assert world.broker.internal_errors == 0


def test_a_password_may_hold_colons_and_any_letter() -> None:
    user = UserSettings(name="ä", password=SecretStr("a:b:ö"), roles=("admin",))
    world = World(Settings.model_validate({"user": (user,)}))
    answer = world.ask("GET", QUEUES, None, headers=basic("ä:a:b:ö".encode()))
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("address", "headers", "local"),
    [
        ("127.0.0.1", {}, True),
        ("::1", {}, True),
        ("192.0.2.1", {}, False),
        ("", {}, False),
        ("127.0.0.1", {"x-forwarded-for": "192.0.2.1"}, False),
        ("127.0.0.1", {"forwarded": "for=192.0.2.1"}, False),
    ],
)
def test_only_this_machine_is_local_and_no_proxy_on_it(
    address: str, headers: dict[str, str], local: bool
) -> None:
    assert is_local(Headers(headers), address) is local


def test_the_well_known_password_opens_only_from_this_machine() -> None:
    broker = Broker(make_settings(user=[{"name": "admin", "password": "password"}]))
    sessions = Sessions(broker.users, HttpSettings())
    auth = Auth(Directory.of(broker), HttpSettings(), sessions)
    headers = Headers(basic(b"admin:password"))
    assert anyio.run(auth.login, headers, "127.0.0.1:5000", 0.0)[0].name == "admin"
    with pytest.raises(HttpError):
        anyio.run(auth.login, headers, "192.0.2.1:5000", 0.0)


def test_a_wrong_login_is_answered_as_late_as_over_any_protocol() -> None:
    world = World(make_settings(broker={"login_failed_wait_s": 0.05}))
    for path in (QUEUES, "/nowhere"):
        began = time.monotonic()
        assert world.ask("GET", path, WRONG).status_code == 401
        assert time.monotonic() - began >= 0.05


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8161", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8161", 200),
        ("192.0.2.7", 200),
        ("ops.example:8161", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
    ],
)
def test_a_name_that_is_not_ours_is_refused(host: str, status: int) -> None:
    world = World(http=HttpSettings(allowed_origins=("https://ops.example:8161",)))
    assert world.ask("GET", QUEUES, ADMIN, headers={"host": host}).status_code == status


def test_a_probe_may_call_us_as_it_likes() -> None:
    answer = World().ask("GET", "/livez", None, headers={"host": "pod-7.cluster"})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://127.0.0.1:9"},
        {"origin": "null"},
        {"origin": "https://evil.example"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_no_page_may_change_anything_unless_it_is_allowed(headers: dict[str, str]) -> None:
    world = World(make_settings())
    answer = world.ask("PUT", f"{QUEUES}/q", json={}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "denied")
    assert not world.host.queues


def test_failed_logins_of_an_address_are_throttled_whatever_the_password() -> None:
    world = World()
    for _ in range(100):
        world.ask("GET", QUEUES, ("admin", "guessed"))
    answer = world.ask("GET", QUEUES, ADMIN)
    assert (answer.status_code, answer.json()["code"]) == (429, "throttled")
    assert "too many failed logins, wait" in answer.json()["text"]
    assert world.ask("GET", "/livez", None).status_code == 200


@pytest.mark.parametrize(
    "given",
    [b"Basic \xc3\xa9", b"Basic =", b"Bearer abc", b"Basic " + base64.b64encode(b"no colon")],
)
def test_a_login_that_cannot_be_read_counts_as_a_failed_one(given: bytes) -> None:
    heard = Heard()
    world = World(audit=heard)
    tries = world.broker.limits.login_failures_max
    for _ in range(tries):
        answer = world.ask("GET", QUEUES, None, headers={"authorization": given})
        assert answer.status_code == 401
    assert heard.all == [("login failed", "", "127.0.0.1:5000")] * tries
    assert world.ask("GET", QUEUES, None, headers={"authorization": given}).status_code == 429
    assert len(heard.all) == tries


def test_a_request_without_a_login_is_no_failed_one() -> None:
    world = World()
    for _ in range(2 * world.broker.limits.login_failures_max):
        assert world.ask("GET", QUEUES, None).status_code == 401
    assert world.ask("GET", QUEUES, ADMIN).status_code == 200


# Visits: a login by HTTP is told once in a while, not at each request.


def test_a_user_at_an_address_is_told_once_and_again_after_an_hour() -> None:
    with capture_logs() as lines:
        visits = Visits(structlog.get_logger())
        for port in range(3):
            visits.note(Identity("ann", remote=f"192.0.2.1:{port}"), 10.0 + port)
        visits.note(Identity("ann", remote="192.0.2.2:1"), 20.0)
        visits.note(Identity("bob", remote="192.0.2.1:1"), 20.0)
        visits.note(Identity("ann", remote="192.0.2.1:9"), 10.0 + TOLD_EVERY_S)
    told = [(line["user"], line["remote"]) for line in lines]
    assert told == [
        ("ann", "192.0.2.1:0"),
        ("ann", "192.0.2.2:1"),
        ("bob", "192.0.2.1:1"),
        ("ann", "192.0.2.1:9"),
    ]


def test_of_very_many_the_longest_quiet_is_forgotten() -> None:
    with capture_logs() as lines:
        visits = Visits(structlog.get_logger())
        for number in range(VISITS_MAX + 1):
            visits.note(Identity("ann", remote=f"{number}:1"), 1.0)
        visits.note(Identity("ann", remote="0:1"), 1.0)
    assert len(lines) == VISITS_MAX + 2


def test_requests_with_a_login_are_told_and_no_others() -> None:
    with capture_logs() as lines:
        world = World()
        world.ask("GET", "/livez", None)
        world.ask("GET", "/metrics", WRONG)
        assert [line for line in lines if line["event"] == "logged_in"] == []
        for _ in range(3):
            world.ask("GET", "/metrics", ADMIN)
    (line,) = [line for line in lines if line["event"] == "logged_in"]
    assert (line["user"], line["protocol"], line["remote"], line["log_level"]) == (
        "admin",
        "http",
        "127.0.0.1:5000",
        "info",
    )
