"""HeadCache: those that come again are remembered, and no others."""

from __future__ import annotations

import pytest

from covey.protocols.stomp.parser import (
    HEAD_LENGTH_MAX,
    HEADS_MAX,
    ID_LINE,
    RECEIPT_LINE,
    Head,
    HeadCache,
    cut_line,
)


def keep(heads: HeadCache, block: bytes) -> None:
    heads.keep(b"SEND\n" + block, Head("SEND", block, 0))


def test_a_head_is_remembered_as_it_came() -> None:
    heads = HeadCache()
    keep(heads, b"destination:/queue/a")
    assert heads.known[b"SEND\ndestination:/queue/a"].block == b"destination:/queue/a"


@pytest.mark.parametrize(
    "block", [b"a:b\nreceipt:1", b"message-id:1\na:b", b"a:" + b"x" * HEAD_LENGTH_MAX]
)
def test_what_comes_once_or_is_long_is_not(block: bytes) -> None:
    heads = HeadCache()
    keep(heads, block)
    assert not heads.known


def test_a_producer_that_never_repeats_itself_loses_its_memory_for_good() -> None:
    heads = HeadCache()
    for number in range(HEADS_MAX + 5):
        keep(heads, b"n:%d" % number)
    assert not heads.known


def test_a_producer_that_repeats_itself_starts_a_new_one_when_it_is_full() -> None:
    heads = HeadCache()
    for number in range(HEADS_MAX):
        keep(heads, b"n:%d" % number)
    heads.hits = 10 * HEADS_MAX
    keep(heads, b"n:x")
    assert list(heads.known) == [b"SEND\nn:x"]


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        (b"SEND\nreceipt:r-1\na:b", b"SEND\na:b"),
        (b"SEND\na:b\nreceipt:r-1\nc:d", b"SEND\na:b\nc:d"),
        (b"SEND\na:b\nreceipt:r-1", b"SEND\na:b"),
        (b"SEND\na:b\nreceipt:r-1\nreceipt:2", b"SEND\na:b\nreceipt:2"),
    ],
)
def test_a_receipt_is_taken_out_of_a_head(text: bytes, shared: bytes) -> None:
    assert cut_line(text, RECEIPT_LINE) == (shared, b"r-1")


@pytest.mark.parametrize(
    "text",
    [
        b"SEND\na:b",
        b"SEND\nreceipt:1",
        b"SEND\na:b\nreceipt:a\\cb",
        b"SEND\na:b\nreceipt:a:b",
        b"SEND\na:b\nreceipt:1\r",
        b"SEND\na:b\nreceipt:\xc3\xa9",
        b"SEND\na:b\nx-receipt:1",
        b"SEND\na:b\nreceipt:",
        b"ACK\nid:1\nreceipt:1",
    ],
)
def test_one_that_has_to_be_decoded_stays_where_it_is(text: bytes) -> None:
    assert cut_line(text, RECEIPT_LINE) == (text, b"")


def test_a_message_s_id_is_taken_out_like_a_receipt() -> None:
    assert cut_line(b"SEND\na:b\nmessage-id:m1\nc:d", ID_LINE) == (b"SEND\na:b\nc:d", b"m1")
    assert cut_line(b"SEND\na:b\nmessage-id:ID:1", ID_LINE)[1] == b""
