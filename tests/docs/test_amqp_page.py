"""The requests of docs/amqp.md: what it says `$management` answers is what it answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from proton import Message

from tests.protocols.amqp.peer import Peer, make_broker

PAGE = (Path(__file__).parents[2] / "docs" / "amqp.md").read_text()
BLOCKS = re.findall(r"```management\n(.*?)```", PAGE, re.DOTALL)
ADDRESSES = re.findall(r"```address\n(.*?)\n```", PAGE, re.DOTALL)


def exchanges(block: str) -> list[tuple[list[Any], list[Any]]]:
    """Cut a block into requests and the answers expected, as JSON."""
    found: list[tuple[list[Any], list[Any]]] = []
    for line in block.splitlines():
        side, value = line[0], json.loads(line[2:])
        if side == ">" and (not found or found[-1][1]):
            found.append(([], []))
        found[-1][side == "<"].append(value)
    return found


def test_management_answers_as_the_page_says() -> None:
    (block,) = BLOCKS
    peer = Peer(make_broker(), login=("admin", "password"))
    reply_to = peer.receiver(None, dynamic=True).remote_source.address
    sender = peer.sender("$management")
    asked = exchanges(block)
    assert len(asked) > 8
    for (properties, *body), (status, *expected) in asked:
        request = Message(properties=properties, body=body[0] if body else None, reply_to=reply_to)
        peer.send(sender, request)
        peer.pump()
        delivery, answer = peer.messages.pop()
        peer.settle(delivery)
        assert answer.properties is not None
        assert (properties, answer.properties["statusCode"]) == (properties, status)
        said: Any = answer.body
        for name, value in (expected[0] if expected else {}).items():
            assert (name, said[name]) == (name, value)


def test_the_page_s_address_string_is_taken_and_echoed() -> None:
    (address,) = ADDRESSES
    peer = Peer(make_broker())
    assert peer.sender(address).remote_target.address == address
