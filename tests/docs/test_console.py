"""The consoles of the command pages: typed at a fresh broker, they say what the pages show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import Terminal
from tests.e2e.support import running_broker

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
RUN = re.compile(r"(?<=temp\.default\.)(\d+)-[0-9a-f]{8}")  # each start has a mark of its own


def steps(page: str) -> Iterator[tuple[str, str]]:
    """Cut a page's consoles into commands, each with what it says."""
    for block in BLOCK.findall((ROOT / "docs" / page).read_text()):
        for step in block.removeprefix("$ ").split("\n$ "):
            command, _, said = step.rstrip("\n").partition("\n")
            yield command, f"{said}\n" if said else ""


@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("cli.md", 20),
        ("declaring.md", 8),
        *((f"migrate/{name}.md", 1) for name in ("activemq", "artemis", "qpid", "rabbitmq")),
    ],
)
def test_commands_say_what_the_page_shows(
    page: str,
    least: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    found = list(steps(page))
    assert len(found) >= least
    with running_broker(tmp_path) as broker:
        terminal = Terminal(broker, capsys)
        for command, expected in found:
            name, *words = shlex.split(command)
            said = terminal.config(*words) if name == "covey-config" else terminal.covey(*words)
            assert RUN.sub(r"\1-mark", said.out + said.err) == RUN.sub(r"\1-mark", expected), (
                command
            )
