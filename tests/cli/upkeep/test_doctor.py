"""`covey doctor`: what it finds, and what it says to do."""

from __future__ import annotations

import json
import os
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from covey.cli.upkeep.installation import look_at_checkout, look_at_compiler
from covey.core.storage.sqlite.schema import APPLICATION_ID, FORMAT
from tests.cli.support import Terminal
from tests.e2e.support import HOST


def findings(terminal: Terminal, *words: str, code: int = 0) -> list[dict[str, Any]]:
    said = terminal.covey("doctor", *words, "--json")
    assert said.code == code, said.out
    found: list[dict[str, Any]] = json.loads(said.out)["findings"]
    return found


def states(found: list[dict[str, Any]], part: str) -> list[str]:
    return [each["state"] for each in found if part in each["what"]]


def test_a_broker_that_runs_is_asked_and_nothing_is_wrong(
    terminal: Terminal, tmp_path: Path
) -> None:
    said = terminal.covey("doctor", "--data", str(tmp_path / "new"))
    assert said.code == 0, said.out
    assert "ok     the broker at" in said.out
    assert "does not exist yet" in said.out
    assert "       -> " in said.out  # each note says what to do


@pytest.mark.parametrize(
    ("config", "part", "state"),
    [
        ("[broker]\nwombat = 1\n", "wombat", "wrong"),
        ('[store]\nkind = "memory"\n', "nothing is stored", "note"),
        ('[store]\ndisk_free_min = "100000G"\n', "producers of persistent messages wait", "wrong"),
        ("[broker]\nconnections_max = 100000000\n", "files may be open", "note"),
        ('[broker]\nmemory_limit = "1G"\n', "producers wait once 614", "ok"),
        ('[broker]\nmemory_limit = "100000G"\n', "memory_limit is", "note"),
        (
            '[[connector]]\nid = "s"\nprotocol = "stomp"\nbind = "0.0.0.0:0"\n',
            "without TLS",
            "note",
        ),
        (
            '[[connector]]\nid = "s"\nprotocol = "stomp"\nbind = "0.0.0.0:0"\n'
            '[connector.tls]\ncertificate = "no.pem"\nkey = "no.key"\n',
            "certificate",
            "wrong",
        ),
    ],
)
def test_what_is_wrong_with_a_configuration(
    terminal: Terminal, tmp_path: Path, config: str, part: str, state: str | None
) -> None:
    file = tmp_path / "covey.toml"
    file.write_text(config)
    words = ("--config", str(file), "--data", str(tmp_path / "data"))
    found = findings(terminal, *words, code=1 if state == "wrong" else 0)
    assert states(found, part) == ([state] if state else [])
    assert all(each["do"] for each in found if each["state"] != "ok")


def test_a_certificate_that_works_is_told_with_its_days(terminal: Terminal, tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "both.pem"))
    file = tmp_path / "covey.toml"
    file.write_text(
        '[[connector]]\nid = "s"\nprotocol = "stomp"\nbind = "127.0.0.1:0"\n'
        f'[connector.tls]\ncertificate = "{tmp_path}/both.pem"\nkey = "{tmp_path}/both.pem"\n'
    )
    found = findings(terminal, "--config", str(file), "--data", str(tmp_path / "d"))
    assert states(found, "ends in") == ["ok"]


def test_nobody_who_listens_is_a_note(terminal: Terminal, tmp_path: Path) -> None:
    said = terminal.run_covey("doctor", "-b", "127.0.0.1:1", "--data", str(tmp_path / "d"))
    assert said.code == 0
    assert "no broker listens at 127.0.0.1:1" in said.out


def test_a_port_that_another_program_has_is_wrong(terminal: Terminal, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        file = tmp_path / "covey.toml"
        file.write_text(f'[[connector]]\nid = "s"\nprotocol = "stomp"\nbind = "127.0.0.1:{port}"\n')
        words = ("--config", str(file), "--data", str(tmp_path / "d"))
        found = findings(terminal, *words, code=1)
    assert states(found, "is taken by another program") == ["wrong"]


@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_a_port_where_a_broker_listens_is_told_from_it(
    terminal: Terminal, tmp_path: Path, protocol: str
) -> None:
    place = {"stomp": terminal.stomp, "amqp": terminal.amqp}[protocol].replace("localhost", HOST)
    file = tmp_path / "covey.toml"
    file.write_text(f'[[connector]]\nid = "c"\nprotocol = "{protocol}"\nbind = "{place}"\n')
    found = findings(terminal, "--config", str(file), "--data", str(tmp_path / "d"))
    assert states(found, "a broker listens there") == ["ok"]


def test_an_address_of_another_machine_cannot_be_had(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "covey.toml"
    file.write_text('[[connector]]\nid = "c"\nprotocol = "stomp"\nbind = "192.0.2.1:61613"\n')
    words = ("--config", str(file), "--data", str(tmp_path / "d"))
    assert states(findings(terminal, *words, code=1), "cannot be had") == ["wrong"]


def test_a_certificate_that_has_ended_is_wrong(terminal: Terminal, tmp_path: Path) -> None:
    ended = datetime.now(UTC) - timedelta(days=2)
    issued = trustme.CA().issue_cert("localhost", not_after=ended)
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "both.pem"))
    file = tmp_path / "covey.toml"
    file.write_text(
        '[[connector]]\nid = "s"\nprotocol = "stomp"\nbind = "127.0.0.1:0"\n'
        f'[connector.tls]\ncertificate = "{tmp_path}/both.pem"\nkey = "{tmp_path}/both.pem"\n'
    )
    words = ("--config", str(file), "--data", str(tmp_path / "d"))
    assert states(findings(terminal, *words, code=1), "ends in -") == ["wrong"]


def head(number: int, program: int = APPLICATION_ID) -> bytes:
    """Return the head of a database's file, of a format and a program."""
    marks = number.to_bytes(4, "big") + b"\0\0\0\0" + program.to_bytes(4, "big")
    return (b"SQLite format 3\0".ljust(60, b"\0") + marks).ljust(100, b"\0")


@pytest.mark.parametrize(
    ("content", "part", "state"),
    [
        (head(FORMAT + 1), "this release knows formats up to", "wrong"),
        (head(FORMAT - 1), "older format", "note"),
        (head(FORMAT, 7), "of another program", "wrong"),
        (b"nonsense", "is no database", "wrong"),
        (head(FORMAT), "format", None),
    ],
)
def test_stores_of_other_releases_are_told(
    terminal: Terminal, tmp_path: Path, content: bytes, part: str, state: str | None
) -> None:
    store = tmp_path / "default"
    store.mkdir()
    (store / "covey.db").write_bytes(content)
    found = findings(terminal, "--data", str(tmp_path), code=1 if state == "wrong" else 0)
    assert states(found, part) == ([state] if state else [])


def test_a_store_that_was_written_later_than_now_tells_of_the_clock(
    terminal: Terminal, tmp_path: Path
) -> None:
    store = tmp_path / "default"
    store.mkdir()
    (store / "covey.db").write_bytes(head(FORMAT))
    later = time.time() + 3600
    os.utime(store / "covey.db", (later, later))
    assert states(findings(terminal, "--data", str(tmp_path), code=1), "set back") == ["wrong"]


def test_a_file_that_its_owner_cannot_use_is_found(terminal: Terminal, tmp_path: Path) -> None:
    store = tmp_path / "default"
    store.mkdir()
    file = store / "covey.db"
    file.write_bytes(head(FORMAT))
    if os.geteuid() == 0:  # nothing is closed to root, who may give the file to somebody instead
        os.chown(file, 12345, 12345)
    else:
        file.chmod(0)
    assert states(findings(terminal, "--data", str(tmp_path), code=1), "cannot be used") == [
        "wrong"
    ]


def test_a_postgresql_that_is_away_is_wrong(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "covey.toml"
    file.write_text('[store]\nkind = "postgres"\ndsn = "host=127.0.0.1 port=1 dbname=x"\n')
    found = findings(terminal, "--config", str(file), code=1)
    assert states(found, "PostgreSQL cannot be asked") == ["wrong"]


def test_a_missing_compiler_is_a_note(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "no-cc"))
    assert [each.state for each in look_at_compiler()] == ["note"]


@pytest.mark.parametrize(
    ("ready", "running", "part"),
    [
        ("", "core/entry.py", "is stale"),
        (".venv/compiled/a", "core/entry.py", "a compiled build of this source is there"),
        (".venv/compiled/a", ".venv/compiled/a/entry.so", None),
        ("", ".venv/compiled/a/entry.so", "is stale"),
    ],
)
def test_a_build_of_other_source_is_stale(
    tmp_path: Path, ready: str, running: str, part: str | None
) -> None:
    (tmp_path / ".venv/compiled/a").mkdir(parents=True)
    script = tmp_path / "scripts/build"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\necho {ready}\n")
    script.chmod(0o755)
    found = [each.what for each in look_at_checkout(tmp_path / running)]
    assert [part in what for what in found if part] == [True] * len(found)
    assert bool(found) == bool(part)
