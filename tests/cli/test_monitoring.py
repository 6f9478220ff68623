"""`covey top`, `covey check` and `covey trace`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from covey.cli.main import run
from covey.client.management import Management
from covey.client.place import parse_place
from tests.cli.support import Terminal
from tests.e2e.support import running_broker


def test_two_looks_show_queues_rates_and_waiting_groups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A broker of its own: only the ten groups that have waited longest are shown.
    with running_broker(tmp_path) as broker:
        terminal = Terminal(broker, capsys)
        terminal.covey("message", "send", "top", "x", "--group", "waiting")
        said = terminal.covey("top", "--count", "2", "--interval", "0.01")
    assert said.code == 0
    assert said.out.count("broker default") == 2
    heads = [line.split() for line in said.lines if line.startswith("queue ")]
    assert heads[0][-2:] == ["in/s", "out/s"]
    assert any(line.split()[:2] == ["waiting", "top"] for line in said.lines if line)
    assert "temp." not in said.out


# `covey check`: its exit code is the answer.


def test_a_working_broker_gives_0(terminal: Terminal) -> None:
    said = terminal.covey("check")
    assert said.code == 0
    assert said.out.startswith("ok: ")
    assert json.loads(terminal.covey("check", "--json").out)["name"] == "default"


def test_nobody_there_gives_3(terminal: Terminal) -> None:
    said = terminal.run(lambda: run(["check", "-b", "127.0.0.1:1"]))
    assert (said.code, said.err) == (
        3,
        "covey: no broker answers at 127.0.0.1:1; is it running there?\n",
    )


def test_a_wrong_password_gives_4(terminal: Terminal) -> None:
    assert terminal.covey("check", login="admin/wrong").code == 4


def test_a_user_without_a_password_is_not_asked_in_a_pipe(terminal: Terminal) -> None:
    said = terminal.covey("check", login="admin")
    assert said.code == 2
    assert "no password for admin" in said.err


def test_a_queue_is_checked_for_its_backlog_and_consumers(terminal: Terminal) -> None:
    terminal.covey("message", "send", "hq", "x", "--count", "2")
    assert terminal.covey("check", "--queue", "hq", "--backlog-max", "2").code == 0
    full = terminal.covey("check", "--queue", "hq", "--backlog-max", "1")
    assert (full.code, full.err) == (1, "covey: queue hq holds 2 messages, more than 1\n")
    unread = terminal.covey("check", "--queue", "hq", "--consumers-min", "1")
    assert (unread.code, unread.err) == (1, "covey: queue hq has 0 consumers, not 1\n")
    assert terminal.covey("check", "--queue", "no-such-queue").code == 1
    assert terminal.covey("check", "--backlog-max", "1").code == 2


# `covey trace`.


def start(terminal: Terminal, queue: str) -> None:
    """Let the broker keep the queue's events from now on."""
    with Management(parse_place(terminal.amqp, 0)) as client:
        client.ask("CREATE", "queue", queue)
        client.ask("TRACE", "queue", queue)


def test_every_event_is_a_line(terminal: Terminal) -> None:
    start(terminal, "traced")
    terminal.covey("message", "send", "traced", "secret", "--group", "g\x1b1")
    terminal.covey("message", "receive", "traced")
    said = terminal.covey("trace", "traced", "--count", "5")
    assert (said.code, said.err) == (0, "")
    head, *lines = [line.split() for line in said.lines]
    assert head == ["time", "event", "seq", "consumer", "group"]
    assert [words[1:] for words in lines] == [
        ["enqueue", "1", "g\\x1b1"],
        ["join", "1"],
        ["assign", "1", "g\\x1b1"],
        ["deliver", "1", "1", "g\\x1b1"],
        ["ack", "1", "1", "g\\x1b1"],
    ]
    assert "secret" not in said.out


def test_each_event_may_be_a_line_of_json(terminal: Terminal) -> None:
    start(terminal, "tracedj")
    terminal.covey("message", "send", "tracedj", "x", "--group", "g")
    (line,) = terminal.covey("trace", "tracedj", "--count", "1", "--json").lines
    event = json.loads(line)
    assert event.pop("time_ms") > 0
    assert event == {"number": 1, "event": "enqueue", "seq": 1, "group": "g", "consumer": 0}


def test_what_may_not_or_cannot_be_traced_is_told(terminal: Terminal) -> None:
    missing = terminal.covey("trace", "no.such.queue")
    assert (missing.code, missing.err) == (1, "covey: there is no queue no.such.queue\n")
    assert terminal.covey("trace", "traced", login="guest/guest").code == 4
