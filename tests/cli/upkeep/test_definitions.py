"""`covey definitions`: out, compared, and in again."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.support import Terminal


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


def test_what_is_no_document_is_refused(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"queue": []}')
    said = terminal.covey("definitions", "import", str(file))
    assert (said.code, said.err) == (
        1,
        "covey: the document at queue: Extra inputs are not permitted\n",
    )
    assert terminal.covey("definitions", "diff", str(tmp_path / "none")).code == 1
