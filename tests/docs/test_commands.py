"""Every command on every page: the noun and verb exist, and each of its options.

The consoles are typed as they are (test_console); this holds for the rest of them, too: commands in
texts that need another broker, a cluster or a person.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from covey.cli.main import app
from covey.cli.serve_options import make_parser

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"^    (?:\$ )?(covey .*)$", re.MULTILINE)
FENCED = re.compile(r"^(?:\$ )?(covey .*)$", re.MULTILINE)
QUOTED = re.compile(r"`(covey [a-z][^`\n]*)`")
OPTION = re.compile(r"(?<![\w=])--[a-z][a-z-]*")
MADE_UP = re.compile(r"[|\[<{…]|\.\.\.")  # where a page speaks of several commands at once


def commands(text: str) -> Iterator[str]:
    for block in BLOCK.findall(text):
        yield from FENCED.findall(block)
    yield from INDENTED.findall(text)
    yield from QUOTED.findall(BLOCK.sub("", text))


def mistakes(line: str) -> list[str]:
    """Return what a command line names and the command does not have."""
    words = shlex.split(line.split(" #")[0])[1:]
    if words[:1] == ["serve"]:
        known = set(OPTION.findall(make_parser().format_help()))
        return [word for word in OPTION.findall(line) if word not in known]
    command: Any = get_command(app)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        if words[0] not in command.commands:
            return [words[0]]
        command = command.commands[words.pop(0)]
    known = {word for param in command.params for word in [*param.opts, *param.secondary_opts]}
    known |= {"-h", "--help", "--version", "--install-completion"}
    return [word for word in OPTION.findall(line.split(" #")[0]) if word not in known]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_their_options_exist(page: Path) -> None:
    lines = [line for line in commands(page.read_text()) if not MADE_UP.search(line)]
    assert [(line, wrong) for line in lines if (wrong := mistakes(line))] == []


def test_a_mistake_would_be_found() -> None:
    assert mistakes("covey queue lst") == ["lst"]
    assert mistakes("covey queue list --wombat") == ["--wombat"]
    assert mistakes("covey serve --wombat 1") == ["--wombat"]
    assert mistakes("covey shovel a b --from x --wait 0  # --no-option") == []
    assert sum(len(list(commands(page.read_text()))) for page in PAGES) > 100
