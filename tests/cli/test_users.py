"""`covey user`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from covey.config.load import load
from covey.core.security.passwords import parse_record
from tests.cli.support import Terminal
from tests.e2e.support import running_broker


def test_hash_makes_a_record_that_checks_the_password(terminal: Terminal) -> None:
    said = terminal.covey("user", "hash", typed="open sesame\n")
    record = parse_record(said.out.strip())
    assert record.matches("open sesame")
    assert not record.matches("open")
    assert "sesame" not in said.out + said.err


def test_hash_needs_a_password(terminal: Terminal) -> None:
    assert terminal.covey("user", "hash", typed="").code == 2


def test_add_appends_a_user_that_the_broker_would_read(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "covey.toml"
    file.write_text('[broker]\nid = "mine" # kept\n')
    words = ("user", "add", "ann", "--config", str(file), "--role", "admin", "--role", "ops")
    said = terminal.covey(*words, typed="secret\n")
    assert (said.code, said.err) == (0, "")
    settings = load(file, {}, {}).settings
    (user,) = settings.users
    assert (settings.broker.id, user.name, user.roles) == ("mine", "ann", ("admin", "ops"))
    assert parse_record(user.password.get_secret_value()).matches("secret")
    assert "# kept" in file.read_text()


def test_add_makes_a_private_file_and_warns_if_nobody_can_manage(
    terminal: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "new.toml"
    said = terminal.covey("user", "add", "bob", "--config", str(file), typed="secret\n")
    assert said.code == 0
    assert "nobody can manage" in said.err
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_name_is_added_once_and_a_broken_file_is_left_alone(
    terminal: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "covey.toml"
    terminal.covey("user", "add", "ann", "--config", str(file), typed="secret\n")
    text = file.read_text()
    again = terminal.covey("user", "add", "ann", "--config", str(file), typed="secret\n")
    assert (again.code, again.err) == (1, f"covey: {file}: user ann exists already\n")
    assert file.read_text() == text
    file.write_text("[broker]\nidd = 1\n")
    broken = terminal.covey("user", "add", "bob", "--config", str(file), typed="secret\n")
    assert broken.code == 1
    assert f"{file}:2: broker.idd" in broken.err
    assert [path.name for path in tmp_path.iterdir()] == ["covey.toml"]


def test_a_file_keeps_its_readers_and_a_link_stays_one(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "real.toml"
    file.write_text("\ufeff[broker]\nid = 'a'\n")
    group = 54321 if os.geteuid() == 0 else os.getgid()  # only root may give a file away
    os.chown(file, -1, group)
    file.chmod(0o640)
    link = tmp_path / "covey.toml"
    link.symlink_to(file)
    said = terminal.covey("user", "add", "ann", "--config", str(link), typed="secret\n")
    assert said.code == 0
    assert link.is_symlink()
    after = file.stat()
    assert (after.st_gid, after.st_mode & 0o777) == (group, 0o640)
    assert [user.name for user in load(link, {}, {}).settings.users] == ["ann"]


def test_who_changes_the_own_user_is_told_that_it_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_broker(tmp_path) as broker:
        terminal = Terminal(broker, capsys)
        place = ("-b", f"ann/old@{terminal.amqp.rpartition('@')[2]}")
        admin = ("-b", terminal.amqp)
        said = terminal.covey("user", "add", "ann", "--role", "admin", *admin, typed="old\n")
        assert said.code == 0, said.err
        said = terminal.covey("user", "roles", "ann", "--role", "admin", *place)
        assert (said.code, said.out) == (0, "ann has 1 roles\n")
        said = terminal.covey("user", "password", "ann", *place, typed="new\n")
        assert (said.code, said.out) == (0, "ann has another password\n")
        assert terminal.covey("queue", "list", login="ann/old").code == 4
        place = ("-b", place[1].replace("old", "new"))
        said = terminal.covey("user", "remove", "ann", *place)
        assert (said.code, said.out) == (0, "ann removed\n")
