"""Heads: those that come again are remembered, and no others."""

from __future__ import annotations

import pytest

from covey.protocols.stomp.heads import HEAD_LENGTH_MAX, HEADS_MAX, Head, Heads


def keep(heads: Heads, block: bytes) -> None:
    heads.keep(b"SEND\n" + block, Head("SEND", block, 0))


def test_a_head_is_remembered_as_it_came() -> None:
    heads = Heads()
    keep(heads, b"destination:/queue/a")
    assert heads.known[b"SEND\ndestination:/queue/a"].block == b"destination:/queue/a"


@pytest.mark.parametrize(
    "block", [b"a:b\nreceipt:1", b"message-id:1\na:b", b"a:" + b"x" * HEAD_LENGTH_MAX]
)
def test_what_comes_once_or_is_long_is_not(block: bytes) -> None:
    heads = Heads()
    keep(heads, block)
    assert not heads.known


def test_a_producer_that_never_repeats_itself_loses_its_memory_for_good() -> None:
    heads = Heads()
    for number in range(HEADS_MAX + 5):
        keep(heads, b"n:%d" % number)
    assert not heads.known


def test_a_producer_that_repeats_itself_starts_a_new_one_when_it_is_full() -> None:
    heads = Heads()
    for number in range(HEADS_MAX):
        keep(heads, b"n:%d" % number)
    heads.hits = 10 * HEADS_MAX
    keep(heads, b"n:x")
    assert list(heads.known) == [b"SEND\nn:x"]
