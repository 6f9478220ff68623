"""Wakes: which connections of an event loop have asked for a turn, and when they get it.

A connection that has something to say asks for a turn, in which everything is written at once.
Mostly it gets that after all that the loop handles now: others may have something for the same
peer.

But a loop that rested before it read has nothing else to handle. Then the connections that were
woken by this read (`read`), if they are few, get their turns in the same call. So the answer to a
single message leaves without another round of the loop. After a read that was long work others come
first.

After a read the loop may look for the next bytes for a while instead of going to sleep
(`look_on`): to wake up from sleep takes longer than to handle a message. Everything else of the
loop goes on meanwhile. It costs the processor that it takes, so it is done only where it has paid
lately (`protocols.lookout`), after a rest, and for as long as a setting says (`busy_poll_us`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final
from weakref import WeakValueDictionary

from covey.protocols.lookout import Lookout

Turn = Callable[[], None]

FEW: Final = 2  # turns taken at once: a producer's and its consumer's
LONG_S: Final = 0.005  # a read that took so long had others wait
RESTED_S: Final = 0.00001  # since the last read: within one round of the loop it is less


class Wakes:
    """The turns that were asked for in one event loop."""

    __slots__ = (
        "__weakref__",
        "_asked",
        "_has_rested",
        "_is_looking",
        "_look_until",
        "_lookout",
        "_loop",
        "_read_until",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asked: list[Turn] | None = None  # while a read is handled: who was woken by it
        self._read_until = 0.0  # when the last read had been handled
        self._has_rested = False  # before the last read
        self._lookout = Lookout()
        self._is_looking = False
        self._look_until = 0.0

    def ask(self, turn: Turn) -> None:
        """Have a turn taken soon, once."""
        if self._asked is None:
            self._loop.call_soon(turn)
        else:
            self._asked.append(turn)

    def read(self, handle: Callable[[bytes], None], data: bytes, now: float) -> None:
        """Handle what was read, and give their turns to those whom it has woken."""
        asked: list[Turn] = []
        self._asked = asked
        has_rested = self._has_rested = now - self._read_until >= RESTED_S
        if self._is_looking and has_rested:
            self._lookout.found()
        try:
            handle(data)
        finally:
            self._asked = None
            is_busy = len(asked) > FEW or not has_rested
            if is_busy or time.monotonic() - now > LONG_S:
                for turn in asked:
                    self._loop.call_soon(turn)
                asked = []
        for turn in asked:
            turn()
        self._read_until = time.monotonic()

    def look_on(self, seconds: float, size: int) -> None:
        """Do not let the loop sleep for so long from the last read on, which had so many bytes.

        The loop sleeps all the same if to look has not paid lately.
        """
        if not self._has_rested or not self._lookout.begin(size, self._read_until):
            return
        self._look_until = self._read_until + seconds
        if not self._is_looking:
            self._is_looking = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Called once a round: as long as a call is due at once, the loop does not sleep."""
        now = time.monotonic()
        if now < self._look_until:
            self._loop.call_soon(self._look)
        else:
            self._is_looking = False
            self._lookout.missed(now)


# By the id of the loop, which lives as long as its entry here.
_of_loops: WeakValueDictionary[int, Wakes] = WeakValueDictionary()


def wakes_of(loop: asyncio.AbstractEventLoop) -> Wakes:
    """Return the one of an event loop."""
    found = _of_loops.get(id(loop))
    if found is None:
        found = _of_loops[id(loop)] = Wakes(loop)
    return found
