"""`covey trace`."""

from __future__ import annotations

import json

from covey.client.management import Management
from covey.client.place import parse_place
from tests.cli.support import Terminal


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
