"""The frames of docs/stomp.md: what it says a client hears is what a client hears."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.protocols.stomp.support import Client, World

PAGE = Path(__file__).parents[2] / "docs" / "stomp.md"
BLOCKS = re.findall(r"```frames\n(.*?)```", PAGE.read_text(), re.DOTALL)


def _parts(block: str) -> list[tuple[str, str]]:
    """Cut a block into what is sent (">") and what is expected ("<"), in order."""
    parts: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        side, text = line[0], line[2:]
        if not parts or parts[-1][0] != side:
            parts.append((side, []))
        parts[-1][1].append(text)
    return [(side, "\n".join(lines)) for side, lines in parts]


def _expect(client: Client, text: str) -> None:
    for frame in text.split("^@")[:-1]:
        head, _, body = frame.lstrip("\n").partition("\n\n")
        command, *lines = head.split("\n")
        got = client.take(command)
        for line in lines:
            name, _, value = line.partition(":")
            assert got[name] == value
        assert got.body == body.encode()


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_client_hears_what_the_page_says(block: str) -> None:
    world = World()
    is_login = "CONNECT" in block
    client = world.stranger() if is_login else world.connect()
    for side, text in _parts(block):
        if side == ">":
            client.say(text)
        else:
            _expect(client, text)
    assert client.inbox == []


def test_the_page_has_examples() -> None:
    assert len(BLOCKS) >= 7
