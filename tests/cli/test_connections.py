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


@pytest.mark.parametrize("words", [("connection", "list"), ("queue", "purge", "x"), ("check",)])
def test_who_may_not_manage_gets_4(terminal: Terminal, words: tuple[str, ...]) -> None:
    said = terminal.covey(*words, login="guest/guest")
    assert (said.code, said.out) == (4, "")
    assert "guest may not manage" in said.err
