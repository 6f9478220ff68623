"""`covey check`: its exit code is the answer."""

from __future__ import annotations

import json

from covey.cli.main import run
from tests.cli.support import Terminal


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
