"""`covey worker run`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import covey
from tests.cli.support import Terminal

SHOP = """
from covey.worker import Message, Worker

worker = Worker("covey://admin:password@127.0.0.1:{port}", queue="{queue}")
other = 3

@worker.handler
async def handle(message: Message) -> None:
    print("handled", message.text, flush=True)
"""


def environment() -> dict[str, str]:
    return dict(os.environ, PYTHONPATH=str(Path(covey.__file__).parent.parent))


def test_a_programs_worker_runs_until_it_is_told_to_stop(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(SHOP.format(port=terminal.broker.port, queue="cli.work"))
    assert terminal.covey("message", "send", "cli.work", "one").code == 0
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "covey", "worker", "run", "shop:worker"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert any("handled one" in line for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("words", "code", "cause"),
    [
        (["shop"], 2, "MODULE:NAME is needed"),
        (["nothing_here:worker"], 2, "no module"),
        (["shop:other"], 2, "no worker"),
        (["shop:worker", "--url", "amqp://x"], 2, "begins with"),
        (["shop:worker", "--url", "covey://admin:guess@127.0.0.1:{port}"], 4, "password"),
    ],
)
def test_mistakes_have_their_exit_codes(
    terminal: Terminal, tmp_path: Path, words: list[str], code: int, cause: str
) -> None:
    (tmp_path / "shop.py").write_text(SHOP.format(port=terminal.broker.port, queue="cli.work"))
    given = [word.format(port=terminal.broker.port) for word in words]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "covey", "worker", "run", *given],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert cause in done.stderr.replace("\n", " ")
