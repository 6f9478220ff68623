"""Block: the header lines that many STOMP messages share.

A connection that sends with the same headers again and again makes one block of them: a queue of a
million like messages has one. It is kept as ready lines and decoded only when somebody looks (a
selector, another protocol). Lines that belong to one transport hop (receipt, transaction,
content-length, subscription, ack, ...) are left out on the way in; those that name the broker's
own findings (redelivered, JMSXGroupFirstForConsumer, JMSXUserID) cannot be forged by a sender.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from covey.protocols.stomp.headers import header_lines, parse_block
from covey.protocols.stomp.mapping import DEAD_REASON, USER_HEADERS
from covey.protocols.stomp.rules import Version

# Belong to one hop, or are ours to say.
NOT_KEPT = frozenset(
    (
        "receipt",
        "transaction",
        "content-length",
        "subscription",
        "ack",
        "redelivered",
        "message-id",
        "expires",
        "ttl",
        "expiration",
        "JMSXGroupFirstForConsumer",
        "covey-group-revoked",
        DEAD_REASON,
        *USER_HEADERS,
    )
)

STORED_BLOCKS_MAX: Final = 4096  # distinct blocks read back that are remembered
_stored_blocks: dict[bytes, Block] = {}

_BACKSLASH: Final = 92  # a number: looking for bytes in bytes costs CPython an exception
V1_0: Final = Version.V1_0
V1_1: Final = Version.V1_1
V1_2: Final = Version.V1_2


class Block:
    """Header lines that many messages share, written for each version when first asked for."""

    __slots__ = ("_dead", "_v1_0", "_v1_1", "decoded", "user", "v1_2")

    def __init__(self, v1_2: bytes, user: str = "") -> None:
        self.v1_2 = v1_2  # each line with an LF before it
        self.user = user  # who sent it, for other protocols' readers
        self._dead: tuple[str, Block] | None = None
        is_plain = _BACKSLASH not in v1_2
        self._v1_0: bytes | None = v1_2 if is_plain else None
        self._v1_1: bytes | None = v1_2 if is_plain else None
        self.decoded: dict[str, str] | None = None  # once somebody has asked for `headers`

    def headers(self) -> dict[str, str]:
        """Return the headers decoded."""
        if self.decoded is None:
            self.decoded = parse_block(self.v1_2[1:], V1_2)
        return self.decoded

    def lines(self, version: Version) -> bytes:
        """Return the lines as a client of that version reads them."""
        if version is V1_2:
            return self.v1_2
        if version is V1_1:
            if self._v1_1 is None:
                self._v1_1 = header_lines(self.headers().items(), V1_1)
            return self._v1_1
        if self._v1_0 is None:
            self._v1_0 = header_lines(self.headers().items(), V1_0)
        return self._v1_0

    def dead(self, reason: str) -> Block:
        """Return the block of messages that died for a reason, the same for all of them."""
        if self._dead is None or self._dead[0] != reason:
            lines = self.v1_2
            if DEAD_REASON in self.headers():  # it has died before
                kept = [pair for pair in self.headers().items() if pair[0] != DEAD_REASON]
                lines = header_lines(kept, V1_2)
            lines += header_lines([(DEAD_REASON, reason)], V1_2)
            self._dead = (reason, Block(lines, self.user))
        return self._dead[1]


def make_block(
    headers: Iterable[tuple[str, str]], added: Iterable[tuple[str, str]] = (), user: str = ""
) -> Block:
    """Write the headers that travel with the message, and those the broker adds."""
    kept = [pair for pair in headers if pair[0] not in NOT_KEPT]
    return Block(header_lines([*kept, *added], V1_2), user)


def stamped(block: Block, name: str, wall_ms: int) -> Block:
    """Return the block with the time of receipt, which no two messages share."""
    return Block(block.v1_2 + header_lines([(name, str(wall_ms))], V1_2), block.user)


def stored_block(lines: bytes, user: str) -> Block:
    """Return the block of these lines, one for all messages of a backlog that repeat it."""
    block = _stored_blocks.get(lines)
    if block is None or block.user != user:
        if len(_stored_blocks) >= STORED_BLOCKS_MAX:
            _stored_blocks.clear()
        block = Block(lines, user)
        _stored_blocks[lines] = block
    return block
