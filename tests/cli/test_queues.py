"""`covey queue`."""

from __future__ import annotations

import json

from tests.cli.support import Terminal


def test_list_shows_what_queues_hold_and_hides_temporary_ones(terminal: Terminal) -> None:
    terminal.covey("message", "send", "lq.a", "hello", "--count", "3", "--group", "g")
    head, row = terminal.covey("queue", "list", "lq.").lines
    shown = dict(zip(head.split(), row.split(), strict=True))
    assert (shown["name"], shown["messages"], shown["groups"]) == ("lq.a", "3", "1")
    assert "temp." not in terminal.covey("queue", "list").out
    assert "temp." in terminal.covey("queue", "list", "--temporary").out


def test_json_tells_everything(terminal: Terminal) -> None:
    terminal.covey("message", "send", "jq.a", "hello")
    (row,) = json.loads(terminal.covey("queue", "list", "jq.", "--json").out)
    assert (row["name"], row["messages"], row["next_seq"]) == ("jq.a", 1, 2)
    assert json.loads(terminal.covey("queue", "stat", "jq.a", "--json").out)["messages"] == 1


def test_stat_shows_an_attribute_a_line(terminal: Terminal) -> None:
    terminal.covey("message", "send", "sq.a", "hello")
    lines = [line.split() for line in terminal.covey("queue", "stat", "sq.a").lines]
    assert ["messages", "1"] in lines
    assert ["strategy", "consistent-hash"] in lines


def test_create_declares_with_groups_and_arguments(terminal: Terminal) -> None:
    options = ("--group-header", "G", "--group-strategy", "lru", "--argument", "covey.nak_limit=3")
    assert terminal.covey("queue", "create", "cq", "--no-durable", *options).code == 0
    queue = terminal.queue("cq")
    assert (queue["strategy"], queue["group_header"], queue["durable"]) == ("lru", "G", False)
    arguments = queue["arguments"]
    assert isinstance(arguments, dict) and arguments["covey.nak_limit"] == 3
    assert terminal.covey("queue", "create", "cq").code == 1
    assert terminal.covey("queue", "create", "cq2", "--argument", "x").code == 2


def test_purge_says_how_many_it_dropped(terminal: Terminal) -> None:
    terminal.covey("message", "send", "pq", "hello", "--count", "4")
    assert terminal.covey("queue", "purge", "pq").out == "4 messages dropped\n"
    assert terminal.queue("pq")["messages"] == 0


def test_delete_needs_force_for_a_queue_with_messages(terminal: Terminal) -> None:
    terminal.covey("message", "send", "dq", "hello")
    refused = terminal.covey("queue", "delete", "dq")
    assert (refused.code, refused.err) == (1, "covey: queue dq holds 1 messages\n")
    assert terminal.covey("queue", "delete", "dq", "--force").code == 0
    assert terminal.covey("queue", "stat", "dq").code == 1


def test_a_paused_queue_hands_out_nothing_until_it_goes_on(terminal: Terminal) -> None:
    terminal.covey("message", "send", "qp", "x", "--group", "g")
    told = terminal.covey("queue", "pause", "qp", "--out", "--reason", "new release", "--json")
    assert json.loads(told.out) == {"queue": "qp", "paused": "out"}
    assert terminal.covey("message", "receive", "qp", "--timeout", "0.1").code == 1
    shown = json.loads(terminal.covey("queue", "stat", "qp", "--json").out)
    assert [(each["way"], each["by"], each["why"]) for each in shown["pauses"]] == [
        ("out", "admin", "new release")
    ]
    assert "paused by admin: new release" in terminal.covey("group", "list", "qp").out
    assert terminal.covey("queue", "pause", "qp", "--in").out == "qp is paused: both\n"
    assert terminal.covey("queue", "resume", "qp", "--in").out == "qp is still paused: out\n"
    assert terminal.covey("queue", "resume", "qp").out == "qp goes on\n"
    assert terminal.covey("message", "receive", "qp").out == "x\n"
    assert terminal.covey("queue", "pause", "none").err == "covey: there is no queue none\n"
