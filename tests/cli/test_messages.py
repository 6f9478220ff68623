"""`covey message`: what is sent arrives, once, in order, where it should."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from covey.cli.main import run
from covey.cli.messages import MOVE_BATCH
from tests.cli.support import Terminal

over_both = pytest.mark.parametrize("over", [(), ("--amqp",)], ids=["stomp", "amqp"])


@over_both
def test_a_message_goes_through_with_its_headers(terminal: Terminal, over: tuple[str, ...]) -> None:
    words = ("/queue/mm", "hello", "--header", "colour:blue")
    sent = terminal.covey("message", "send", *words, *over)
    assert (sent.code, sent.out) == (0, "1 sent\n")
    (line,) = terminal.covey("message", "receive", "mm", "--json", *over).lines
    message = json.loads(line)
    assert message["body"] == "hello"
    assert message["headers"]["colour"] == "blue"
    assert message["headers"]["persistent"] == "true"


@over_both
def test_each_line_may_be_a_message_and_they_keep_their_order(
    terminal: Terminal, over: tuple[str, ...]
) -> None:
    lines = [f"line {number}" for number in range(250)]
    options = ("--file", "-", "--lines", "--group", "g")
    sent = terminal.covey("message", "send", "ml", *options, *over, typed="\n".join(lines))
    assert sent.out == "250 sent\n"
    assert terminal.covey("message", "receive", "ml", "--count", "250", *over).lines == lines


def test_a_body_comes_from_a_file_and_need_not_be_text(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"\xff\x00\xfe")
    terminal.covey("message", "send", "mb", "--file", str(tmp_path / "body"))
    assert json.loads(terminal.covey("message", "receive", "mb", "--json").out)["body_base64"]
    assert terminal.covey("message", "send", "mb", "--file", str(tmp_path / "none")).code == 2


@over_both
def test_receiving_takes_no_more_than_it_prints(terminal: Terminal, over: tuple[str, ...]) -> None:
    queue_name = "".join(("mr", *over))
    terminal.covey("message", "send", queue_name, "x", "--count", "3")
    assert terminal.covey("message", "receive", queue_name, "--count", "2", *over).out == "x\nx\n"
    queue = terminal.queue(queue_name)
    assert (queue["messages"], queue["returned"]) == (1, 0)


@over_both
def test_no_message_in_time_gives_1(terminal: Terminal, over: tuple[str, ...]) -> None:
    said = terminal.covey("message", "receive", "mn", "--timeout", "0.05", *over)
    assert (said.code, said.err) == (1, "covey: no message within 0.05 s\n")


@over_both
def test_browsing_shows_and_leaves_messages(terminal: Terminal, over: tuple[str, ...]) -> None:
    name = "".join(("mw", *over))
    terminal.covey("message", "send", name, "first", "--group", "g")
    terminal.covey("message", "send", name, "second", "--header", "n:2", *over)
    assert [line.split() for line in terminal.covey("message", "browse", name, *over).lines] == [
        ["seq", "group", "size", "body"],
        ["1", "g", "5", "first"],
        ["2", "6", "second"],
    ]
    later = terminal.covey("message", "browse", name, "--from-seq", "2", "--json", *over).out
    assert [message["body"] for message in json.loads(later)] == ["second"]
    chosen = terminal.covey("message", "browse", name, "--selector", "n = 2", "--json", *over).out
    assert [message["body"] for message in json.loads(chosen)] == ["second"]
    assert terminal.queue(name)["messages"] == 2


def test_moving_keeps_order_groups_and_headers(terminal: Terminal) -> None:
    bodies = [str(number) for number in range(MOVE_BATCH + 20)]
    typed = "\n".join(bodies)
    options = ("--file", "-", "--lines", "--group", "g", "--header", "n:1")
    terminal.covey("message", "send", "from", *options, typed=typed)
    moved = terminal.covey("message", "move", "from", "/queue/to", "--wait", "0.3")
    assert moved.out == f"{len(bodies)} moved\n"
    assert terminal.queue("from")["messages"] == 0
    arrived = json.loads(terminal.covey("message", "browse", "to", "--json").out)
    assert [message["body"] for message in arrived] == bodies
    headers = arrived[0]["headers"]
    assert (headers["n"], headers["message_group"]) == ("1", "g")
    assert "JMSXGroupFirstForConsumer" not in headers


def test_moving_a_queue_to_itself_would_never_end_and_is_refused(terminal: Terminal) -> None:
    said = terminal.covey("message", "move", "mself", "/queue/mself")
    assert (said.code, "mself is where they are" in said.err) == (2, True)


def test_no_more_is_moved_than_was_asked_for(terminal: Terminal) -> None:
    terminal.covey("message", "send", "some", "x", "--count", "5")
    assert terminal.covey("message", "move", "some", "rest", "--count", "2").out == "2 moved\n"
    queue = terminal.queue("some")
    assert (queue["messages"], queue["returned"]) == (3, 0)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("send", "x", "y", "--header", "novalue"), 2),
        (("send", "x", "--count", "0"), 2),
        (("receive", "x", "--selector", "((("), 1),
        (("receive", "x", "--selector", "(((", "--amqp"), 1),
        (("send", "/nowhere/x", "y"), 1),
    ],
)
def test_nonsense_is_refused(terminal: Terminal, words: tuple[str, ...], code: int) -> None:
    assert terminal.covey("message", *words).code == code


def test_a_wrong_password_gives_4(terminal: Terminal) -> None:
    said = terminal.covey("message", "send", "x", "y", login="guest/wrong")
    assert (said.code, said.err) == (4, "covey: login failed: wrong user or password\n")
    assert terminal.covey("message", "send", "x", "y", "--amqp", login="guest/wrong").code == 4


def test_the_environment_has_a_place_for_each_wire(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COVEYCTL_STOMP", terminal.stomp)
    monkeypatch.setenv("COVEYCTL_BROKER", terminal.amqp)
    sent = terminal.run(lambda: run(["message", "send", "me", "x"]))
    taken = terminal.run(lambda: run(["message", "receive", "me", "--amqp"]))
    assert (sent.out, taken.out) == ("1 sent\n", "x\n")


def test_single_messages_are_known_by_their_numbers(terminal: Terminal) -> None:
    terminal.config("add", "queue", "ms", "--alternate-exchange=ms.dead")
    for body in "12345":
        terminal.covey("message", "send", "ms", body, "--group", "g")
    shown = json.loads(terminal.covey("message", "show", "ms", "--seq", "2", "--json").out)
    assert [(each["seq"], each["body"], each["group"]) for each in shown] == [(2, "2", "g")]
    assert "body" in terminal.covey("message", "show", "ms", "--seq", "2").out
    assert terminal.covey("message", "delete", "ms", "--seq", "2", "--seq", "9").out == (
        "1 purged; 1 are not there\n"
    )
    assert terminal.covey("message", "move", "ms", "ms.other", "--seq", "4").out == "1 moved\n"
    said = terminal.covey("message", "dead-letter", "ms", "--seq", "1", "--reason", "why not")
    assert said.out == "1 dead-lettered\n"
    left = json.loads(terminal.covey("message", "browse", "ms", "--json").out)
    assert [each["body"] for each in left] == ["3", "5"]
    assert terminal.covey("message", "show", "ms", "--seq", "1").code == 1


def test_several_numbers_may_follow_one_seq(terminal: Terminal) -> None:
    for body in "123456":
        terminal.covey("message", "send", "17", body)
    shown = terminal.covey("message", "show", "17", "--seq", "1", "3", "--json", "--seq", "5")
    assert [each["body"] for each in json.loads(shown.out)] == ["1", "3", "5"]
    assert terminal.covey("message", "move", "17", "18", "--seq", "2", "4").out == "2 moved\n"
    assert terminal.covey("message", "delete", "17", "--seq", "1", "2", "3").out == (
        "2 purged; 1 are not there\n"
    )
    left = json.loads(terminal.covey("message", "browse", "17", "--json").out)
    assert [each["body"] for each in left] == ["5", "6"]


@pytest.mark.parametrize("more", [("--selector", "a = 1"), ("--count", "1")])
def test_numbers_go_with_no_other_choice(terminal: Terminal, more: tuple[str, str]) -> None:
    said = terminal.covey("message", "move", "mv", "mv2", "--seq", "1", *more)
    assert said.code == 2
    assert "it goes with neither --selector nor --count" in said.err


@over_both
def test_a_browse_tells_where_dead_letters_come_from(
    terminal: Terminal, over: tuple[str, ...]
) -> None:
    queue = "".join(("mo", *over))
    terminal.config("add", "queue", queue, f"--alternate-exchange={queue}.dead")
    terminal.covey("message", "send", queue, "x", "--group", "g")
    terminal.covey("message", "dead-letter", queue, "--seq", "1", "--reason", "why")
    (dead,) = json.loads(terminal.covey("message", "browse", f"{queue}.dead", "--json", *over).out)
    told = {name: text for name, text in dead["headers"].items() if "covey-dead" in name}
    assert told.pop("covey-dead-time")
    assert told == {
        "covey-dead-reason": "why (by admin)",
        "covey-dead-queue": queue,
        "covey-dead-group": "g",
        "covey-dead-seq": "1",
        "covey-dead-count": "0",
    }
    head, row = terminal.covey("message", "browse", f"{queue}.dead", *over).lines
    assert "origin" in head and "why (by admin)" in row


def test_dead_letters_go_back_to_where_they_came_from(terminal: Terminal) -> None:
    for queue in ("ra", "rb"):
        terminal.config("add", "queue", queue, "--alternate-exchange=r.dead")
        for number, group in ((1, "g"), (2, "g"), (3, "h")):
            sent = ("--group", group, "--header", f"n:{number}")
            terminal.covey("message", "send", queue, f"{queue}{number}", *sent)
        for group in ("g", "h"):
            terminal.covey("group", "dead-letter", queue, group)
    retry = ("message", "retry", "r.dead")
    assert terminal.covey(*retry, "--group", "h", "--count", "1").out == "1 retried\n"
    assert terminal.covey(*retry, "--selector", "n = '2'").out == "2 retried\n"
    assert terminal.covey(*retry, "--rate", "50", "--json").out.count('"retried": 3') == 1
    for queue, order in (("ra", ["ra3", "ra2", "ra1"]), ("rb", ["rb2", "rb1", "rb3"])):
        found = json.loads(terminal.covey("message", "browse", queue, "--json").out)
        assert [each["body"] for each in found] == order
    assert terminal.covey(*retry).out == "0 retried\n"
    assert terminal.covey("message", "retry", "no-queue").code == 1
