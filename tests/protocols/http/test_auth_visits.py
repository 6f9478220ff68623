"""Visits: a login by HTTP is told once in a while, not at each request."""

from __future__ import annotations

import structlog
from structlog.testing import capture_logs

from covey.core.security.users import Identity
from covey.protocols.http.auth import TOLD_EVERY_S, VISITS_MAX, Visits
from tests.protocols.http.support import ADMIN, WRONG, World


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
