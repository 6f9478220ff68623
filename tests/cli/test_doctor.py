"""`covey doctor`: what it finds, and what it says to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.cli.support import Terminal


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
        ('[broker]\nmemory_limit = "1G"\n', "no memory_limit", None),
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
