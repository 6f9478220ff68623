"""Patience: how a source or a sink rides over a broker that is away for a while.

A broker is restarted, or another takes over. Whoever asks it meanwhile tries again, all brokers of
`brokers` in turn each time: first soon, then after pauses that double (`PAUSE_MAX_S` at most), each
with some chance in it, or all tasks would come back at the same moment. When the broker answers,
the count begins anew. When the whole time is over, or so many tries were in vain, the last reason
is what the query ends with.

What a broker says (no such queue, wrong password) is no absence: nobody waits for that. Neither
does anybody where another protocol or an untrusted certificate answers.
"""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from covey.client.errors import StrangerError, UnreachableError

RETRY_INTERVAL_MS: Final = 200
RETRY_TIMEOUT_MS: Final = 120_000
PAUSE_MAX_S: Final = 5.0
SPREAD: Final = 0.2  # a pause is so much longer or shorter


@dataclass(frozen=True, slots=True)
class Patience:
    """How often, and for how long, a broker is tried."""

    tries: int = -1  # after the first; -1: as many as the time allows
    first_s: float = RETRY_INTERVAL_MS / 1000
    total_s: float = RETRY_TIMEOUT_MS / 1000


class Absence:
    """The time in which a broker does not answer, as one task sees it."""

    def __init__(
        self,
        patience: Patience,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._patience = patience
        self._clock = clock
        self._sleep = sleep
        self._tries = 0
        self._since: float | None = None

    def end(self) -> None:
        """Hear that the broker answers."""
        self._tries = 0
        self._since = None

    def wait(self, error: UnreachableError) -> None:
        """Let some time pass after a failure; raises its reason when the patience is at an end."""
        patience = self._patience
        now = self._clock()
        if self._since is None:
            self._since = now
        gone = now - self._since
        if isinstance(error, StrangerError) or self._tries == patience.tries:
            raise error
        if gone >= patience.total_s:
            raise UnreachableError(f"{error}; tried for {gone:.0f} s") from error
        if self._tries == 0:
            warnings.warn(f"{error}; trying again for {patience.total_s:.0f} s", stacklevel=2)
        pause = min(patience.first_s * 2**self._tries, PAUSE_MAX_S)
        pause *= 1 + SPREAD * (2 * random.random() - 1)
        self._tries += 1
        self._sleep(min(pause, patience.total_s - gone))
