"""`covey group`."""

from __future__ import annotations

import json
from datetime import datetime
from threading import Thread

from covey.client.management import Management
from covey.client.place import parse_place
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
    assert terminal.covey("group", "park", "no-queue", "g").code == 1


def test_a_groups_name_cannot_steer_the_terminal(terminal: Terminal) -> None:
    terminal.covey("message", "send", "ge", "x", "--group", "\x1b[2Jevil")
    said = terminal.covey("group", "list", "ge")
    assert "\x1b" not in said.out
    assert "\\x1b[2Jevil" in said.out


def sent(terminal: Terminal, queue: str, *bodies: str, group: str = "g") -> None:
    for body in bodies:
        terminal.covey("message", "send", queue, body, "--group", group)


def bodies(terminal: Terminal, queue: str) -> list[str]:
    found = json.loads(terminal.covey("message", "browse", queue, "--json").out)
    return [each["body"] for each in found]


def test_a_poisoned_group_is_moved_away_while_it_is_parked_and_while_it_is_owned(
    terminal: Terminal,
) -> None:
    sent(terminal, "gm", "1", "2", "3")
    sent(terminal, "gm", "other", group="h")
    terminal.covey("group", "park", "gm", "g", "--reason", "poisoned")
    assert terminal.covey("group", "move", "gm", "g", "--to", "hospital").out == "3 moved\n"
    assert bodies(terminal, "hospital") == ["1", "2", "3"]
    assert bodies(terminal, "gm") == ["other"]
    with terminal.broker.client() as client:
        client.subscribe("/queue/hospital", ack="client-individual", credit="1,0")
        assert client.frame().body == b"1"
        said = terminal.covey("group", "move", "hospital", "g", "--to", "ward", "--json")
        assert json.loads(said.out) == {"queue": "hospital", "group": "g", "moved": 2, "held": 1}
    assert bodies(terminal, "ward") == ["2", "3"]
    assert terminal.covey("group", "move", "ward", "nobody", "--to", "x").out == "0 moved\n"
    refused = terminal.covey("group", "move", "ward", "g", "--to", "ward")
    assert (refused.code, refused.err) == (1, "covey: queue ward is where they are\n")


def test_what_is_held_can_be_waited_for(terminal: Terminal) -> None:
    sent(terminal, "gw", "1", "2", "3")
    with terminal.broker.client() as client:
        client.subscribe("/queue/gw", ack="client-individual", credit="2,0")
        first, _second = client.frame(), client.frame()
        mover = Thread(target=move_waiting, args=(terminal.amqp,))
        mover.start()
        while groups(terminal, "gw")["g"]["state"] != "held":
            pass
        client.send("ACK", {"id": first.headers(client.version)["ack"]}, b"")
        client.sync()
    mover.join()
    assert bodies(terminal, "gw2") == ["2", "3"]


def move_waiting(place: str) -> None:
    with Management(parse_place(place, 0)) as client:
        answer = client.ask("MOVE-GROUP", "queue", "gw", group="g", to="gw2", held="wait")
    assert answer == {"moved": 2, "held": 0}


def test_show_and_peek_look_without_taking(terminal: Terminal) -> None:
    sent(terminal, "gs", "1", "2", "3")
    shown = json.loads(terminal.covey("group", "show", "gs", "g", "--json").out)
    assert (shown["messages"], shown["why"]) == (3, "no consumer reads this queue")
    assert json.loads(terminal.covey("group", "show", "gs", "none", "--json").out)["messages"] == 0
    peeked = json.loads(terminal.covey("group", "peek", "gs", "g", "--count", "2", "--json").out)
    assert [(each["seq"], each["body"]) for each in peeked] == [(1, "1"), (2, "2")]
    assert terminal.covey("group", "peek", "gs", "g").lines[0].split()[:2] == ["seq", "group"]
    assert terminal.covey("group", "purge", "gs", "g").out == "3 purged\n"
    assert terminal.covey("group", "peek", "gs", "g", "--json").out == "[]\n"


def test_a_group_is_dead_lettered_and_retried(terminal: Terminal) -> None:
    terminal.config("add", "queue", "gd", "--alternate-exchange=gd.dead")
    sent(terminal, "gd", "1", "2")
    said = terminal.covey("group", "dead-letter", "gd", "g", "--reason", "spoiled")
    assert said.out == "2 dead-lettered\n"
    dead = json.loads(terminal.covey("message", "browse", "gd.dead", "--json").out)
    told = [
        {name: text for name, text in each["headers"].items() if name.startswith("covey-dead")}
        for each in dead
    ]
    assert told[1].pop("covey-dead-time")
    assert told[1] == {
        "covey-dead-reason": "spoiled (by admin)",
        "covey-dead-queue": "gd",
        "covey-dead-group": "g",
        "covey-dead-seq": "2",
        "covey-dead-count": "0",
    }
    assert "spoiled" in terminal.covey("message", "browse", "gd.dead").out
    assert list(groups(terminal, "gd.dead")) == ["g"]
    assert terminal.covey("group", "retry", "gd.dead", "g").out == "2 retried\n"
    assert bodies(terminal, "gd") == ["1", "2"]
    refused = terminal.covey("group", "dead-letter", "gd.dead", "g")
    assert (refused.code, refused.err) == (
        1,
        "covey: queue gd.dead has no dlq to send dead letters to\n",
    )


def test_parked_groups_are_listed_with_who_and_why(terminal: Terminal) -> None:
    sent(terminal, "gk", "1")
    terminal.covey("group", "park", "gk", "g", "--reason", "ask Ann")
    terminal.covey("group", "park", "gk", "empty")
    rows = json.loads(terminal.covey("group", "list", "gk", "--parked", "--json").out)
    assert [(row["group"], row["why"]) for row in rows] == [
        ("g", "parked by admin: ask Ann"),
        ("empty", "parked by admin"),
    ]
    assert rows[0]["parked_at_ms"] > 0
    listed = terminal.covey("group", "list", "gk", "--parked").out
    assert "ask Ann" in listed
    at = datetime.fromtimestamp(rows[0]["parked_at_ms"] / 1000)
    assert at.isoformat(" ", "seconds") in listed
    terminal.covey("group", "unpark", "gk", "g")
    terminal.covey("group", "unpark", "gk", "empty")
    assert terminal.covey("group", "list", "gk", "--parked", "--json").out == "[]\n"


def test_a_group_is_shown_whatever_its_queue_is_called(terminal: Terminal) -> None:
    with terminal.broker.client() as client:
        client.subscribe("/topic/gf", id="gf", persistent="true", credit="0,0")
        client.send("SEND", {"destination": "/topic/gf", "message_group": "a/b"})
        client.send("SEND", {"destination": "/queue/gf/a", "message_group": "a/b"})
        client.sync()
    for queue in ("/dsub/gf", "dsub:gf", "gf/a", "/queue/gf/a"):
        shown = terminal.covey("group", "show", queue, "a/b", "--json")
        assert json.loads(shown.out)["messages"] == 1, queue
    refused = terminal.covey("group", "show", "gf/a", "")
    assert (refused.code, refused.err) == (1, "covey: which group is not said\n")
