"""`covey consumer`."""

from __future__ import annotations

import json

from tests.cli.support import Terminal


def consumer(terminal: Terminal, queue: str) -> dict[str, object]:
    (row,) = json.loads(terminal.covey("consumer", "list", queue, "--json").out)
    assert isinstance(row, dict)
    return row


def test_a_drained_consumer_is_left_when_it_holds_nothing(terminal: Terminal) -> None:
    with terminal.broker.client() as client:
        client.subscribe("/queue/drain", ack="client-individual")
        terminal.covey("message", "send", "drain", "x", "--group", "g")
        ack = client.frame().headers(client.version)["ack"]
        name = str(consumer(terminal, "drain")["name"])
        busy = terminal.covey("consumer", "drain", name, "--wait", "0.01")
        assert (busy.code, busy.err) == (1, f"covey: consumer {name} still has work after 0.01 s\n")
        assert consumer(terminal, "drain")["retiring"] is True
        client.send("ACK", {"id": ack})
        client.sync()
        assert terminal.covey("consumer", "drain", name, "--wait", "5").code == 0


def test_the_list_names_subscriptions_and_leaves_out_whoever_asks(terminal: Terminal) -> None:
    with terminal.broker.client() as client:
        client.subscribe("/queue/lc")
        head, *rows = terminal.covey("consumer", "list").lines
        shown = [dict(zip(head.split(), row.split(), strict=True)) for row in rows]
        assert [row["link"] for row in shown if row["name"].startswith("lc/")] == ["s"]
        assert not any(row["name"].startswith("temp.") for row in shown)


def test_a_consumer_that_is_not_there_is_refused(terminal: Terminal) -> None:
    assert terminal.covey("consumer", "drain", "drain/999999").code == 1
    assert terminal.covey("consumer", "drain", "nonsense").code == 2  # no number
