# Compiled by mypyc: see setup.py.
"""Aside: the messages of one group that were stepped over, since nobody present may take them.

They come back when the set of views changes. There may be a million, in one group or in many, and
consumers come and go at any time. So a change of views does not bring them back. It begins another
*era* of the queue, and a lane looks at its own messages again when it is next resolved. All lanes
are, a portion per turn (`core.dispatch.asking`).

    blocks  the numbers in ascending order, in blocks, so that one goes or comes in little time
    again   from this number on, they are to be looked at again. Below it, they were looked at in
            this era, and stay

A message is stepped over only if it is the oldest of its group that waits. So whatever is looked at
lies below all that is to be looked at again, and one number divides the two.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final

NEVER: Final = 1 << 62  # above all numbers
# Numbers of a block; of one that grew in the middle twice as many. Not Final, so that a test of the
# compiled build can make it small.
BLOCK_MAX = 2048


class Aside:
    """The numbers of one lane's set-aside messages, in ascending order."""

    __slots__ = ("_again", "_blocks", "count", "era")

    def __init__(self, era: int) -> None:
        self.era = era  # in which the lane was last resolved
        self.count = 0  # how many nobody may take, as far as they were looked at
        self._blocks: list[list[int]] = []
        self._again = NEVER

    @property
    def is_empty(self) -> bool:
        """Return True if there is none."""
        return not self._blocks

    def add(self, seq: int) -> None:
        """Set a message aside that was elsewhere; all that is to be looked at again lies above."""
        blocks = self._blocks
        at = self._block_of(seq)
        if at < len(blocks):
            block = blocks[at]
            insort(block, seq)
            if len(block) > 2 * BLOCK_MAX:
                blocks.insert(at + 1, block[BLOCK_MAX:])
                del block[BLOCK_MAX:]
        elif blocks and len(blocks[-1]) < BLOCK_MAX:
            blocks[-1].append(seq)
        else:
            blocks.append([seq])
        self.count += 1

    def recall(self, era: int) -> None:
        """Have all looked at again: the views have changed."""
        self.era = era
        self.count = 0
        self._again = 0

    def next(self) -> int:
        """Return the first number that is to be looked at again, 0 if there is none."""
        if self._again == NEVER:
            return 0
        at = self._block_of(self._again)
        if at == len(self._blocks):
            self._again = NEVER
            return 0
        block = self._blocks[at]
        self._again = block[bisect_left(block, self._again)]
        return self._again

    def pass_by(self, seq: int) -> bool:
        """Leave the first that was to be looked at again where it is; False: it is another one."""
        if seq != self._again:
            return False
        self._again = seq + 1
        self.count += 1
        return True

    def discard(self, seq: int) -> bool:
        """Take a number out; False: it is not here."""
        at = self._block_of(seq)
        if at == len(self._blocks):
            return False
        block = self._blocks[at]
        place = bisect_left(block, seq)
        if block[place] != seq:
            return False
        del block[place]
        if not block:
            del self._blocks[at]
        self.count -= seq < self._again
        return True

    def first(self) -> int:
        """Return the lowest number, 0 if there is none."""
        return self._blocks[0][0] if self._blocks else 0

    def some_from(self, seq: int, most: int) -> list[int]:
        """Return the next numbers from one on, at most so many, and none of a later block."""
        at = self._block_of(seq)
        if at == len(self._blocks):
            return []
        block = self._blocks[at]
        place = bisect_left(block, seq)
        return block[place : place + most]

    def _block_of(self, seq: int) -> int:
        """Return which block has the first number that is not below this one."""
        blocks = self._blocks
        low, high = 0, len(blocks)
        while low < high:
            middle = (low + high) // 2
            if blocks[middle][-1] < seq:
                low = middle + 1
            else:
                high = middle
        return low
