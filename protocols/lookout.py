"""Lookout: whether it pays that an event loop looks for more instead of going to sleep.

To wake up from sleep takes longer than to handle a message. So a loop that looks on for a moment
after a read (`protocols.wakes`) answers sooner, if more comes in this moment. Otherwise it has
wasted that time, and perhaps kept somebody else from a core. So looking has to earn its keep:

- of the last `TRIES` looks at least half must have found something. If not, the loop rests: it
  sleeps as any other loop does. After that it tries a few times. Each rest in vain is twice as long
  as the one before, up to `REST_MAX_S`: traffic with long gaps costs next to nothing
- a large read is part of a stream. Its bytes gather while the loop does something else, and one
  large read costs less than many small ones. So nobody looks for a while
- every `LOOKS_COUNTED` looks in a row the system is asked how often it took the core from this
  thread for another. Where that is often, others want the core that the loop would look on: the
  loop rests, each time twice as long, up to `TAKEN_REST_MAX_S`. (Once is nothing: a system may put
  the client on the loop's core for a moment, and moves it then.) What others took while the loop
  was at work, or before a gap, does not count.

Nobody looks where the machine has no core to spare (`protocols.read_buffers`). Nothing here reads a
clock, and an event loop without any reads looks for nothing.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Final

TRIES: Final = 8
TRIES_MASK: Final = (1 << TRIES) - 1
PAID_MIN: Final = TRIES // 2
TRIAL: Final = 0b11111000  # what is remembered after a rest: two looks in vain end the trial
REST_S: Final = 0.01
REST_MAX_S: Final = 0.1
TAKEN_REST_MAX_S: Final = 1.0  # after others had the core, again and again
STREAM_REST_S: Final = 0.01  # after a large read
STREAM_SIZE: Final = 2048  # bytes of a large read
LOOKS_COUNTED: Final = 64
COUNTED_WITHIN_S: Final = 0.05  # so many looks without a gap take some milliseconds
TAKEN_MAX: Final = 4  # of so many looks, or others want the core

# The number of a thread in getrusage(2). Linux has it, other systems may not.
THREAD: Final[int | None] = getattr(resource, "RUSAGE_THREAD", None)


def taken_away() -> int:
    """Return how often the system took the core from this thread for another one."""
    return 0 if THREAD is None else resource.getrusage(THREAD).ru_nivcsw


class Lookout:
    """What the last looks have brought."""

    __slots__ = (
        "_counted_from",
        "_looks",
        "_paid",
        "_rest_s",
        "_resting_until",
        "_taken",
        "_taken_before",
        "_taken_rest_s",
    )

    def __init__(self, taken: Callable[[], int] = taken_away) -> None:
        """Begin with a trial; `taken` counts how often others got this thread's core."""
        self._taken = taken
        self._taken_before = 0
        self._taken_rest_s = REST_S  # of the next rest because of others
        self._looks = 0  # since `_taken` was asked
        self._counted_from = 0.0  # when it was
        self._paid = TRIAL  # a bit for each of the last looks, the latest is the lowest
        self._rest_s = REST_S  # of the next rest
        self._resting_until = 0.0

    def begin(self, size: int, now: float) -> bool:
        """Return True if the loop is to look for more after a read of so many bytes.

        Whoever is told so looks, and says what came of it (`found`, `missed`).
        """
        if size >= STREAM_SIZE:
            self._resting_until = max(self._resting_until, now + STREAM_REST_S)
        if now < self._resting_until:
            self._looks = 0  # what others take meanwhile is not taken from a look
            return False
        if not self._looks or now - self._counted_from > COUNTED_WITHIN_S:
            self._looks = 0
            self._counted_from = now
            self._taken_before = self._taken()
        self._looks += 1
        if self._looks > LOOKS_COUNTED:
            self._looks = 0
            if self._taken() - self._taken_before > TAKEN_MAX:
                self._rest(now)
                self._resting_until = now + self._taken_rest_s
                self._taken_rest_s = min(2 * self._taken_rest_s, TAKEN_REST_MAX_S)
                return False
            self._taken_rest_s = REST_S
        return True

    def found(self) -> None:
        """Note that a look has found something."""
        self._paid = (self._paid << 1 | 1) & TRIES_MASK
        if self._paid == TRIES_MASK:
            self._rest_s = REST_S

    def missed(self, now: float) -> None:
        """Note that a look has found nothing."""
        self._paid = self._paid << 1 & TRIES_MASK
        if self._paid.bit_count() < PAID_MIN:
            self._rest(now)

    def _rest(self, now: float) -> None:
        self._resting_until = now + self._rest_s
        self._rest_s = min(2 * self._rest_s, REST_MAX_S)
        self._paid = TRIAL
        self._looks = 0
