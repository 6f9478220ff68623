"""A broker that runs from source has itself compiled: what it says of it, and how that ends."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from covey.cli.main import run
from covey.server.build_task import build_name
from tests.e2e.support import TIMEOUT_S, BrokerProcess, running_broker

SCRIPT = """#!/bin/bash
echo $$ >"{folder}/pid"
echo "translating the hot modules to C"
for percent in 10 30 60; do echo "$percent % compiled"; done
read -r _ <"{folder}/gate"
{end}
"""


class Compilation:
    """A script that pretends to compile, and waits for a gate before it ends."""

    def __init__(self, folder: Path, end: str) -> None:
        self.folder = folder
        self.gate = folder / "gate"
        os.mkfifo(self.gate)
        self.script = folder / "build"
        self.script.write_text(SCRIPT.format(folder=folder, end=end))
        self.script.chmod(0o755)

    def finish(self) -> None:
        self.gate.write_text("go on\n")


def check(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What `covey check` says."""
    place = f"127.0.0.1:{broker.port_of(1)}"
    assert run(["check", "--broker", place]) == 0
    return capsys.readouterr().out.splitlines()


def wait_for_log(broker: BrokerProcess, event: str) -> list[dict[str, object]]:
    """Return the lines of one kind, once there is one."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        lines = [json.loads(line) for line in broker.log.splitlines() if line.startswith("{")]
        found = [line for line in lines if line["event"] == event]
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{event} is not in {broker.log}")


@pytest.mark.parametrize(
    ("end", "event", "told"),
    [
        ("echo 'compiled after 3 s'", "compiled", "compiled: the next start uses it"),
        ("echo 'failed: no compiler'; exit 1", "compilation_failed", "the compilation failed"),
        ("exit 1", "compilation_failed", "the compilation failed"),
    ],
)
def test_progress_and_end_are_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    end: str,
    event: str,
    told: str,
) -> None:
    compilation = Compilation(tmp_path, end)
    monkeypatch.setenv("COVEY_BUILD", str(compilation.script))
    with running_broker(tmp_path / "broker") as broker:
        assert "plain Python, compiling beside it" in broker.welcome
        while (lines := wait_for_log(broker, "compiling"))[-1].get("percent") != 60:
            time.sleep(0.02)
        assert [line.get("percent") for line in lines] == [None, 30, 60]
        assert check(broker, capsys)[1] == "build: plain Python; compiling: 60 % compiled"
        broker.assert_serves()
        compilation.finish()
        wait_for_log(broker, event)
        assert check(broker, capsys)[1] == f"build: plain Python; {told}"


@pytest.mark.parametrize("blow", [signal.SIGTERM, signal.SIGKILL])
def test_the_compilation_learns_of_the_brokers_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blow: signal.Signals
) -> None:
    compilation = Compilation(tmp_path, "")
    text = compilation.script.read_text().replace(f'<"{tmp_path}/gate"', "; touch $0.ended")
    compilation.script.write_text(text)  # waits for its standard input instead
    monkeypatch.setenv("COVEY_BUILD", str(compilation.script))
    with running_broker(tmp_path / "broker") as broker:
        wait_for_log(broker, "compiling")
        broker.signal(blow)
        pid = int((tmp_path / "pid").read_text())
        deadline = time.monotonic() + TIMEOUT_S
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not Path(f"/proc/{pid}").exists()


def test_a_script_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COVEY_BUILD", "/no/such/script")
    with running_broker(tmp_path / "broker") as broker:
        (line,) = wait_for_log(broker, "compilation_failed")
        assert "/no/such/script" in str(line["reason"])
        broker.assert_serves()


def test_a_broker_that_was_not_asked_to_compile_says_what_it_is() -> None:
    assert build_name({}) in ("compiled", "plain Python")
