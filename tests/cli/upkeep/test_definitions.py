"""`covey definitions`: out, compared, and in again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import Terminal
from tests.e2e.support import BrokerProcess, running_broker


def test_what_is_exported_can_be_compared_and_brought_in(
    terminal: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "covey.json"
    terminal.covey("queue", "create", "df.a", "--argument", "qpid.max_count=5")
    assert terminal.covey("definitions", "export", "--out", str(file)).code == 0
    assert file.stat().st_mode & 0o077 == 0
    document = json.loads(file.read_text())
    assert not any("password" in user for user in document["users"])
    queues = {queue["name"]: queue for queue in document["queues"]}
    queues["df.a"]["arguments"]["qpid.max_count"] = 9
    document["queues"].append({"name": "df.b", "arguments": {}})
    file.write_text(json.dumps(document))
    said = terminal.covey("definitions", "diff", str(file))
    assert [line.split()[:3] for line in said.lines[1:3]] == [
        ["change", "queue", "df.a"],
        ["new", "queue", "df.b"],
    ]
    assert said.lines[-1].startswith("2 would change, ")
    assert terminal.queue("df.a")["arguments"]["qpid.max_count"] == 5  # type: ignore[index]
    said = terminal.covey("definitions", "import", str(file), "--json")
    assert json.loads(said.out)["changed"] == ["queue df.a", "queue df.b"]
    assert terminal.queue("df.a")["arguments"]["qpid.max_count"] == 9  # type: ignore[index]
    assert terminal.covey("definitions", "diff", str(file)).lines[0].startswith("0 would change")
    for name in ("df.a", "df.b"):
        terminal.covey("queue", "delete", name)


def test_records_of_passwords_are_for_admins_who_ask(terminal: Terminal) -> None:
    users = json.loads(terminal.covey("definitions", "export", "--passwords").out)["users"]
    assert all(user["password"].startswith("SCRAM-SHA-256$") for user in users)
    assert terminal.covey("definitions", "export", login="guest/guest").code == 4


def test_a_file_that_was_open_to_others_is_closed(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "covey.json"
    file.write_text("old")
    file.chmod(0o644)
    assert terminal.covey("definitions", "export", "--out", str(file)).code == 0
    assert file.stat().st_mode & 0o077 == 0


def test_an_empty_broker_that_took_all_of_it_exports_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exports = []
    for name in ("from", "to"):
        (tmp_path / name).mkdir()
        file = tmp_path / f"{name}.json"
        with running_broker(tmp_path / name) as broker:
            terminal = Terminal(broker, capsys)
            if name == "from":
                declare(terminal, broker)
            else:
                said = terminal.covey("definitions", "import", str(tmp_path / "from.json"))
                assert said.code == 0, said.err
            said = terminal.covey("definitions", "export", "--passwords", "--out", str(file))
            assert said.code == 0
            exports.append(json.loads(file.read_text()))
    assert exports[0] == exports[1]
    for part in ("policies", "queues", "subscriptions", "permissions", "users"):
        assert exports[0][part], part


def declare(terminal: Terminal, broker: BrokerProcess) -> None:
    """Have one of everything that definitions hold."""
    for words in (
        ("queue", "create", "plain"),
        ("queue", "create", "grouped", "--group-header", "G", "--group-strategy", "shared"),
        ("policy", "set", "orders.**", "quota_messages=7", "groups.strategy=lru"),
    ):
        assert terminal.covey(*words).code == 0
    place = ("-b", terminal.amqp)
    assert terminal.covey("user", "add", "ann", *place, typed="secret\n").code == 0
    assert terminal.covey("user", "allow", "ann", "send", "a.**", "--name", "x", *place).code == 0
    with broker.client() as subscriber:
        wanted = {"id": "news", "destination": "/topic/news.*", "persistent": "true"}
        subscriber.send("SUBSCRIBE", wanted | {"selector": "colour = 'red'"})
        subscriber.sync()


def test_what_is_no_document_is_refused(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"queue": []}')
    said = terminal.covey("definitions", "import", str(file))
    assert (said.code, said.err) == (
        1,
        "covey: the document at queue: Extra inputs are not permitted\n",
    )
    assert terminal.covey("definitions", "diff", str(tmp_path / "none")).code == 1
