"""Addresses: a broker and a place in it."""

from __future__ import annotations

import pytest

from covey.pipeline.datasource.options import Address, parse_address
from covey.pipeline.errors import PipelineError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("covey://h/orders", Address("h:61613", "", "", "orders")),
        ("covey://h:7/queue/a.b", Address("h:7", "", "", "a.b")),
        ("covey://[::1]:7/topic/news", Address("[::1]:7", "", "", "/topic/news")),
        ("covey://me:p%40ss@h", Address("h:61613", "me", "p@ss", "")),
    ],
)
def test_an_address_is_read(text: str, found: Address) -> None:
    assert parse_address("--input", text) == found


@pytest.mark.parametrize("text", ["orders", "stomp://h/q", "covey:///q", "covey://h:port/q"])
def test_what_is_no_address_is_refused_by_its_option(text: str) -> None:
    with pytest.raises(PipelineError, match=r"^--to: covey://"):
        parse_address("--to", text)
