"""Users, permissions and policies set while the broker runs: at once, over restarts, on record."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from covey.client.errors import ClientError, DeniedError
from covey.client.place import parse_place
from covey.client.stomp import StompClient
from tests.cli.support import Terminal
from tests.e2e.support import HOST, BrokerProcess, running_broker

CONFIG = """
[[user]]
name = "admin"
password = "password"
roles = ["admin"]

[[user]]
name = "ann"
password = "of-the-file"

[[queue]]
id = "orders.**"
quota_messages = 5
full_policy = "reject"
"""


@contextmanager
def broker(folder: Path) -> Iterator[BrokerProcess]:
    with running_broker(folder, config=CONFIG) as running:
        yield running


def log_in(running: BrokerProcess, user: str, password: str) -> StompClient:
    return StompClient(parse_place(f"{user}/{password}@{HOST}:{running.port}", 0))


def rows(terminal: Terminal, noun: str, verb: str = "list") -> dict[str, dict[str, Any]]:
    said = (
        terminal.covey(noun, verb, "--json")
        if noun != "user"
        else terminal.run_covey("user", verb, "--json", "-b", terminal.amqp)
    )
    assert said.code == 0, said.err
    return {row["name"]: row for row in json.loads(said.out)}


def user(terminal: Terminal, *words: str, typed: str | None = None) -> Any:
    from covey.cli.main import run

    return terminal.run(lambda: run(["user", *words, "-b", terminal.amqp]), typed)


def test_a_user_added_at_run_time_logs_in_and_survives_a_restart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with broker(tmp_path) as running:
        terminal = Terminal(running, capsys)
        with pytest.raises(DeniedError):
            log_in(running, "bob", "secret")
        assert user(terminal, "add", "bob", typed="secret\n").out == "bob may log in\n"
        log_in(running, "bob", "secret").close()
        assert user(terminal, "add", "bob", typed="other\n").code == 1  # there is one
        assert running.signal(signal.SIGKILL) == -signal.SIGKILL
    with broker(tmp_path) as running:
        terminal = Terminal(running, capsys)
        log_in(running, "bob", "secret").close()
        assert rows(terminal, "user")["bob"]["origin"] == "run time"
        assert user(terminal, "password", "bob", typed="better\n").code == 0
        with pytest.raises(DeniedError):
            log_in(running, "bob", "secret")
        log_in(running, "bob", "better").close()
        assert user(terminal, "remove", "bob").code == 0
        with pytest.raises(DeniedError):
            log_in(running, "bob", "better")
        log = running.log
    assert log.count('"event": "operator_action"') >= 2
    assert "secret" not in log and "better" not in log and "SCRAM" not in log


def test_it_lies_over_the_file_and_a_reload_keeps_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with broker(tmp_path) as running:
        terminal = Terminal(running, capsys)
        assert user(terminal, "password", "ann", typed="of-the-broker\n").code == 0
        assert rows(terminal, "user")["ann"]["origin"] == "run time, over the file's"
        running.process.send_signal(signal.SIGHUP)
        while '"event": "reloaded"' not in running.log:
            pass
        log_in(running, "ann", "of-the-broker").close()
        assert user(terminal, "remove", "ann").code == 0
        log_in(running, "ann", "of-the-file").close()
        said = user(terminal, "remove", "ann")
        assert said.code == 1 and "configuration file only" in said.err


def test_permissions_hold_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with broker(tmp_path) as running:
        terminal = Terminal(running, capsys)
        client = log_in(running, "ann", "of-the-file")
        client.send("/queue/a", [], b"x")
        client.confirm()
        assert user(terminal, "allow", "*", "connect", "**").code == 0
        assert user(terminal, "allow", "ann", "send,create", "queue:b", "--name", "b").code == 0
        with pytest.raises(DeniedError):
            client.send("/queue/a", [], b"x")
            client.confirm()
        client = log_in(running, "ann", "of-the-file")
        client.send("/queue/b", [], b"x")
        client.confirm()
        told = rows(terminal, "user", "permissions")
        assert told["b"]["who"] == ["ann"] and told["b"]["on"] == "queue:b"
        assert user(terminal, "disallow", "b").code == 0
        with pytest.raises(ClientError):
            client.send("/queue/b", [], b"x")
            client.confirm()


def test_a_policy_holds_at_once_and_comes_before_the_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill(running: BrokerProcess, count: int) -> None:
        with log_in(running, "ann", "of-the-file") as client:
            for _ in range(count):
                client.send("/queue/orders.new", [("persistent", "true")], b"x")
            client.confirm()

    with broker(tmp_path) as running:
        terminal = Terminal(running, capsys)
        fill(running, 5)
        with pytest.raises(ClientError):
            fill(running, 1)
        words = ("policy", "set", "orders.new", "quota_messages=7", "full_policy=reject")
        assert terminal.covey(*words).out == "policy orders.new holds\n"
        fill(running, 2)
        assert rows(terminal, "policy")["orders.new"]["settings"]["quota_messages"] == 7
        running.signal(signal.SIGKILL)
    with broker(tmp_path) as running:
        terminal = Terminal(running, capsys)
        with pytest.raises(ClientError):
            fill(running, 1)
        assert terminal.covey("policy", "set", "orders.new", "groups.strategy=lru").code == 0
        told = terminal.queue("orders.new")
        assert told["strategy"] == "lru"
        assert terminal.covey("policy", "remove", "orders.new").code == 0
        assert terminal.queue("orders.new")["strategy"] == "consistent-hash"


def test_what_makes_no_sense_is_refused_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with broker(tmp_path) as running:
        terminal = Terminal(running, capsys)
        for words, told in (
            (("policy", "set", "a", "wombat=1"), "wombat"),
            (("policy", "set", "a", "quota_messages=-1"), "quota_messages"),
            (("policy", "set", "a.**.b{", "quota_messages=1"), "a.**.b{"),
            (("policy", "remove", "nothing"), "there is no policy"),
            (("policy", "remove", "orders.**"), "configuration file only"),
        ):
            said = terminal.covey(*words)
            assert said.code == 1 and told in said.err, words
        for line, told in (
            ("allow ann dance a", "may"),
            ("roles admin", "nobody could manage"),
            ("roles nobody", "there is no user"),
        ):
            said = user(terminal, *line.split())
            assert said.code == 1 and told in said.err, line
        assert set(rows(terminal, "user")) == {"admin", "ann"}
        assert set(rows(terminal, "policy")) == {"orders.**"}


def test_who_may_manage_gives_no_rights_without_being_admin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with broker(tmp_path) as running:
        terminal = Terminal(running, capsys)
        assert user(terminal, "allow", "ann", "*", "**").code == 0
        place = f"ann/of-the-file@{terminal.amqp}"
        assert terminal.run_covey("policy", "list", "-b", place).code == 0
        assert terminal.run_covey("user", "disallow", "x", "-b", place).code == 4
        assert terminal.run_covey("user", "roles", "ann", "--role", "admin", "-b", place).code == 4
