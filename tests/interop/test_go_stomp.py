"""go-stomp, the Go client, against the broker; its scenarios are in go/main.go.

The program is built once. Where there is no Go, or its module cannot be had, the tests are skipped
with that reason.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.support import BrokerProcess

pytestmark = pytest.mark.interop

GO = Path(__file__).parent / "go"
BUILD_S = 100
RUN_S = 60


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    program = tmp_path_factory.mktemp("go") / "interop"
    command = ["go", "build", "-o", str(program), "."]
    try:
        subprocess.run(command, cwd=GO, capture_output=True, text=True, timeout=BUILD_S, check=True)
    except subprocess.CalledProcessError as error:
        if "main.go" in error.stderr:  # ours is wrong, not the way to the module
            raise AssertionError(error.stderr) from error
        pytest.skip(f"go cannot build with go-stomp: {error.stderr.strip()[-200:]}")
    return program


@pytest.mark.parametrize(
    "scenario", ["versions", "binary", "nack", "transaction", "heartbeats", "durable"]
)
def test_go_stomp(broker: BrokerProcess, program: Path, scenario: str) -> None:
    done = subprocess.run(
        [str(program), str(broker.port), scenario],
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
