"""The broker's log: rotated under it, and on a disk that is full."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from covey.cli.log import LOST, LogWriter
from tests.e2e.support import HOST


def test_a_file_that_is_moved_away_is_made_anew(tmp_path: Path) -> None:
    file = tmp_path / "covey.log"
    writer = LogWriter(file)
    writer.write("one\n")
    file.rename(tmp_path / "covey.log.1")
    writer.write("two\n")
    assert (tmp_path / "covey.log.1").read_text() == "one\n"
    assert file.read_text() == "two\n"
    file.rename(tmp_path / "covey.log.2")
    file.touch()  # as logrotate does with `create`
    writer.write("three\n")
    assert file.read_text() == "three\n"


def test_a_file_that_is_copied_and_cut_off_goes_on_from_its_start(tmp_path: Path) -> None:
    file = tmp_path / "covey.log"
    writer = LogWriter(file)
    writer.write("one\n")
    shutil.copy(file, tmp_path / "covey.log.1")
    os.truncate(file, 0)
    writer.write("two\n")
    assert file.read_bytes() == b"two\n"


def test_several_processes_write_whole_lines_to_one_file(tmp_path: Path) -> None:
    file = tmp_path / "covey.log"
    writers = [LogWriter(file), LogWriter(file)]
    for number in range(10):
        writers[number % 2].write(f"{number}\n")
    assert file.read_text().split() == [str(number) for number in range(10)]


def test_lines_that_cannot_be_written_are_counted_and_told(tmp_path: Path) -> None:
    file = tmp_path / "covey.log"
    file.symlink_to("/dev/full")
    writer = LogWriter(file)
    writer.write("one\n")
    writer.write("two\n")
    file.unlink()
    writer.write("three\n")
    told, line = file.read_text().splitlines()
    assert json.loads(told) == {"event": LOST, "level": "warning", "count": 2}
    assert line == "three"


def test_a_broker_whose_log_cannot_be_written_serves(tmp_path: Path) -> None:
    ports = [word for name in ("stomp", "amqp", "http") for word in (f"--{name}", f"{HOST}:0")]
    command = [sys.executable, "-m", "covey", "serve", *ports, "--data", str(tmp_path / "data")]
    with (
        Path("/dev/full").open("w") as full,
        subprocess.Popen(command, stderr=full, stdout=subprocess.PIPE, text=True) as broker,
    ):
        assert broker.stdout is not None
        try:
            assert "is ready" in broker.stdout.readline()
        finally:
            broker.terminate()
        assert broker.wait() == 0


def test_a_log_file_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "covey", "serve", "--log-file", str(tmp_path / "no" / "log")]
    said = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert said.returncode == 1
    assert said.stderr.startswith("covey: ") and said.stderr.count("\n") == 1
