"""The child process: whole files, in time, and the reason when it cannot."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from covey.core.clock import Clock
from covey.core.errors import StoreError
from covey.core.events.event import EventKind
from covey.core.events.event_log import PACKAGES, EventLog, EventWriter

TIMEOUT_S = 20.0


def writer_in(
    directory: Path,
    rotate_bytes: int = 1 << 20,
    backlog_max: int = 1 << 26,
    packages: tuple[str, ...] = PACKAGES,
) -> EventWriter:
    return EventWriter(
        directory,
        "r1",
        rotate_bytes=rotate_bytes,
        rotate_age_s=60.0,
        backlog_max=backlog_max,
        packages=packages,
    )


def test_what_is_recorded_is_in_the_file_once_the_log_is_closed(tmp_path: Path) -> None:
    clock = Clock()
    clock.offset = 1.25
    log = EventLog(writer_in(tmp_path / "log"), ("**",), clock)
    work = log.of_queue("work")
    assert work is not None
    for seq in range(1, 5001):
        clock.now = float(seq // 10)
        work.record(EventKind.ENQUEUE, f"g{seq % 7}", 0, seq)
    log.close()
    (file,) = (tmp_path / "log").rglob("*.parquet")
    assert file.name == "events-r1-0000000000000001.parquet"
    rows = pq.read_table(file).to_pylist()
    assert [row["eid"] for row in rows] == list(range(1, 5001))
    assert rows[9]["group_id"] == "g3"
    assert [row["ts"].timestamp() for row in rows] == [row["seq"] // 10 + 1.25 for row in rows]
    assert (rows[9]["run"], rows[9]["kind"], rows[9]["queue"], rows[9]["seq"]) == (
        "r1",
        1,
        "work",
        10,
    )


def test_a_writer_that_died_is_reported_and_costs_nothing_else(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer._process.kill()
    writer._process.wait()
    assert writer.take(b"x") is True  # taken, and lost with the child
    assert writer.take(b"x") is False
    assert "exit code -9" in writer.failure
    writer.close()


def test_a_writer_that_closed_its_pipe_and_goes_on_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = tmp_path / "child"
    child.write_text("#!/bin/sh\nexec 0<&-\nexec sleep 1000\n")
    child.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(child))
    writer = writer_in(tmp_path / "log")
    while writer.take(b"x"):
        time.sleep(0.01)  # until the child has closed its end
    assert writer.failure == "its writer stopped reading"
    assert writer._process.wait(TIMEOUT_S) == -signal.SIGKILL
    writer.close()
    assert writer.failure == "its writer stopped reading"


def test_a_last_file_that_cannot_be_written_is_reported_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = EventLog(writer_in(tmp_path / "log"), ("**",), Clock())
    work = log.of_queue("work")
    assert work is not None
    work.record(EventKind.ENQUEUE, "", 0, 1)
    (tmp_path / "log").rmdir()
    log.close()
    assert log.taker.failure == "its writer ended with exit code 1"
    told = capfd.readouterr().err
    assert told.startswith(f"covey: the event log in {tmp_path / 'log'} cannot be written: ")
    assert told.count("\n") == 1


def test_a_pipe_that_may_not_grow_is_used_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    writer = writer_in(tmp_path)
    writer.close()
    assert writer.failure == ""


def test_a_stuck_writer_is_never_waited_for(tmp_path: Path) -> None:
    writer = writer_in(tmp_path, backlog_max=1 << 20)
    writer._process.send_signal(19)  # SIGSTOP
    chunk = bytes(1 << 18)
    taken = [writer.take(chunk) for _ in range(16)]
    assert taken[:4] == [True] * 4
    assert taken[-1] is False
    writer._process.kill()
    writer.close()


def written_in(directory: Path, *, allow_open_files: bool = False) -> Path:
    """Write a log of one event; return its file."""
    writer = EventWriter(
        directory,
        "r1",
        rotate_bytes=1 << 20,
        rotate_age_s=60.0,
        backlog_max=1 << 26,
        allow_open_files=allow_open_files,
    )
    log = EventLog(writer, ("**",), Clock())
    work = log.of_queue("work")
    assert work is not None
    work.record(EventKind.ENQUEUE, "", 0, 1)
    log.close()
    return next(directory.rglob("events-r1-0000000000000001.parquet"))


def modes(file: Path) -> tuple[int, int]:
    directory = next(folder for folder in file.parents if "=" not in folder.name)
    return directory.stat().st_mode & 0o777, file.stat().st_mode & 0o777


def test_the_log_is_its_owners_alone_whoever_made_the_directory(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        assert modes(written_in(tmp_path / "new")) == (0o700, 0o600)
        made = tmp_path / "made"
        made.mkdir(0o755)
        assert modes(written_in(made)) == (0o700, 0o600)
        left = made / "events-r0-0000000000000001.parquet"
        left.touch(0o644)
        written_in(made)
        assert modes(left) == (0o700, 0o600)
        made.chmod(0o755)
        assert modes(written_in(made, allow_open_files=True)) == (0o755, 0o644)
    finally:
        os.umask(before)


def test_a_directory_that_stays_open_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)

    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)  # it is another user's
    with pytest.raises(StoreError, match=r"everybody may write; allow_open_files = true in"):
        writer_in(tmp_path)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"event_log\.dir: .*file"):
        writer_in(tmp_path / "file")


def test_missing_packages_are_named_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no_such_package; scripts/setup pipeline installs them"):
        writer_in(tmp_path, packages=("no_such_package",))
