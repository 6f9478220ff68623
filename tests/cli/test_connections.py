"""`covey connection`."""

from __future__ import annotations

import json

import pytest

from tests.cli.support import Terminal


def test_a_connection_is_listed_and_killed_by_its_name(terminal: Terminal) -> None:
    with terminal.broker.client(client_id="victim") as client:
        rows = json.loads(terminal.covey("connection", "list", "--json").out)
        (victim,) = [row for row in rows if row["client_id"] == "victim"]
        assert (victim["user"], victim["protocol"][:5]) == ("admin", "stomp")
        assert terminal.covey("connection", "kill", victim["name"]).code == 0
        assert b"closed by admin" in client.until_closed()
    again = terminal.covey("connection", "kill", victim["name"])
    assert (again.code, again.err) == (1, f"covey: there is no connection {victim['name']}\n")


def test_a_producer_that_has_to_wait_is_found_with_the_reason(terminal: Terminal) -> None:
    limits = ("--argument", "qpid.max_count=1", "--argument", "covey.full_policy=block")
    assert terminal.covey("queue", "create", "narrow", *limits).code == 0
    with terminal.broker.client(client_id="waits") as client:
        for _ in range(3):
            client.send("SEND", {"destination": "/queue/narrow"}, b"x")
        rows: list[dict[str, str]] = []
        while not rows:
            rows = json.loads(terminal.covey("connection", "list", "--blocked", "--json").out)
        assert [row["client_id"] for row in rows] == ["waits"]
        seen = terminal.covey("top", "--count", "1").lines
        assert any("waits" in line and "queue narrow is full" in line for line in seen)
    terminal.covey("queue", "delete", "narrow", "--force")


@pytest.mark.parametrize("words", [("connection", "list"), ("queue", "purge", "x"), ("check",)])
def test_who_may_not_manage_gets_4(terminal: Terminal, words: tuple[str, ...]) -> None:
    said = terminal.covey(*words, login="guest/guest")
    assert (said.code, said.out) == (4, "")
    assert "guest may not manage" in said.err
