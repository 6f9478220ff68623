"""`covey serve` as its service and its container start it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from covey.cli.log import harmless
from covey.cli.serve_options import make_parser
from covey.config.load import load

SCRIPTS = Path(__file__).parents[2] / "scripts"


def service_command() -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.*)$", (SCRIPTS / "covey.service").read_text(), re.M)
    return shlex.split(line)[1:]


def container_command() -> list[str]:
    text = (SCRIPTS / "Containerfile").read_text().replace("\\\n", "")
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.M)
    words: list[str] = json.loads(command)
    return words


@pytest.mark.parametrize("command", [service_command(), container_command()])
def test_their_options_are_those_of_serve(command: list[str]) -> None:
    assert command[0] == "serve"
    assert make_parser().parse_args(command[1:]).data == "/var/lib/covey"


def test_the_container_copies_every_room_and_keeps_no_root() -> None:
    text = (SCRIPTS / "Containerfile").read_text()
    rooms = [path.name for path in (SCRIPTS.parent / "src/covey").iterdir() if path.is_symlink()]
    assert [room for room in rooms if f"\nCOPY {room} {room}\n" not in text] == []
    assert "\nUSER 10001\n" in text


def test_the_container_listens_on_the_ports_it_shows() -> None:
    text = (SCRIPTS / "Containerfile").read_text()
    assert "\nCOPY scripts/container.toml /etc/covey/covey.toml\n" in text
    (ports,) = re.findall(r"^EXPOSE (.*)$", text, re.M)
    connectors = load(SCRIPTS / "container.toml", {}, {}).settings.connectors
    assert [f"0.0.0.0:{port}" for port in ports.split()] == [each.bind for each in connectors]


def test_covey_config_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COVEY_CONFIG", raising=False)
    assert make_parser().parse_args([]).config is None
    monkeypatch.setenv("COVEY_CONFIG", "a.toml")
    assert make_parser().parse_args([]).config == Path("a.toml")
    assert make_parser().parse_args(["--config", "b.toml"]).config == Path("b.toml")


def test_both_names_of_the_default_group_are_one_option() -> None:
    for option in ("--default-message-group", "--default-msg-group"):
        assert make_parser().parse_args([option, "EMPTY-GROUP"]).default_message_group == (
            "EMPTY-GROUP"
        )


def test_no_name_in_the_log_steers_the_terminal_it_is_shown_on() -> None:
    trace = "Traceback\n  line\x1b[2J"
    event = {
        "event": "group_trouble",
        "group": "g\x1b[31m\x07\u202e",
        "count": 3,
        "exception": trace,
    }
    assert harmless(None, "warning", event) == {
        "event": "group_trouble",
        "group": r"g\x1b[31m\x07\u202e",
        "count": 3,
        "exception": "Traceback\n  line\\x1b[2J",
    }
