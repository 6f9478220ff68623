"""`covey group`."""

from __future__ import annotations

import json

from tests.cli.support import Terminal


def groups(terminal: Terminal, queue: str) -> dict[str, dict[str, object]]:
    rows = json.loads(terminal.covey("group", "list", queue, "--json").out)
    return {row["group"]: row for row in rows}


def test_list_says_who_owns_a_group_and_why_one_waits(terminal: Terminal) -> None:
    terminal.covey("message", "send", "gl", "x", "--group", "alone")
    head, row = terminal.covey("group", "list", "gl").lines
    assert head.split()[:3] == ["group", "messages", "unsettled"]
    assert row.startswith("alone") and row.endswith("no consumer reads this queue")
    with terminal.broker.client() as client:
        client.subscribe("/queue/gl", ack="client-individual")
        assert client.frame().body == b"x"
        assert groups(terminal, "gl")["alone"]["owner"] != 0


def test_close_takes_a_group_from_its_owner(terminal: Terminal) -> None:
    terminal.config("add", "queue", "gc", "--group-header=G")
    with terminal.broker.client() as client:
        client.subscribe("/queue/gc", ack="client-individual")
        terminal.covey("message", "send", "gc", "x", "--header", "G:g")
        client.frame()
        assert terminal.covey("group", "close", "gc", "g").out == "closed\n"
    assert (
        terminal.covey("group", "close", "gc", "nobody").out
        == "closed; the group has no messages\n"
    )
    assert terminal.covey("group", "rebalance", "gc").code == 0


def test_a_parked_group_waits_until_it_is_unparked(terminal: Terminal) -> None:
    terminal.covey("message", "send", "gp", "x", "--group", "g")
    assert terminal.covey("group", "park", "gp", "g").code == 0
    assert groups(terminal, "gp")["g"]["parked"] is True
    assert terminal.covey("message", "receive", "gp", "--timeout", "0.05").code == 1
    assert terminal.covey("group", "unpark", "gp", "g").code == 0
    assert terminal.covey("message", "receive", "gp").out == "x\n"


def test_what_is_not_there_is_refused(terminal: Terminal) -> None:
    refused = terminal.covey("group", "list", "no-queue")
    assert (refused.code, refused.err) == (1, "covey: there is no queue no-queue\n")
    assert terminal.covey("group", "park", "gp", "no-group").code == 1


def test_a_groups_name_cannot_steer_the_terminal(terminal: Terminal) -> None:
    terminal.covey("message", "send", "ge", "x", "--group", "\x1b[2Jevil")
    said = terminal.covey("group", "list", "ge")
    assert "\x1b" not in said.out
    assert "\\x1b[2Jevil" in said.out
