"""Block: header lines, written for each version, shared by the messages that repeat them."""

from __future__ import annotations

from covey.protocols.stomp import message as blocks
from covey.protocols.stomp.message import Block, make_block, stored_block
from covey.protocols.stomp.versions import Version


def test_a_block_is_written_for_each_version() -> None:
    block = make_block([("a", "b:c\\d\re")])
    assert block.lines(Version.V1_2) == b"\na:b\\cc\\\\d\\re"
    assert block.lines(Version.V1_1) == b"\na:b\\cc\\\\d\re"
    assert block.lines(Version.V1_0) == b"\na:b:c\\d e"
    assert block.headers() == {"a": "b:c\\d\re"}


def test_a_plain_block_is_the_same_bytes_for_everybody() -> None:
    block = make_block([("a", "b")])
    assert block.lines(Version.V1_0) is block.lines(Version.V1_2)


def test_an_empty_block_has_no_headers() -> None:
    assert Block(b"").headers() == {}


def test_only_so_many_blocks_of_a_store_are_remembered() -> None:
    for number in range(blocks.STORED_BLOCKS_MAX + 10):
        stored_block(b"\nnumber:%d" % number, "")
    assert len(blocks._stored_blocks) <= blocks.STORED_BLOCKS_MAX
