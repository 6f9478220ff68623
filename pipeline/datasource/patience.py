"""Patience: how a source or a sink waits for a broker that is away for a while.

A broker may be restarted, or another may take over. A task that asks meanwhile tries again. Each
time it tries all of `brokers` in turn. The first pause is short, and each further one is twice as
long (`PAUSE_MAX_S` at most). Pauses have a random part, or all tasks would come back at the same
moment. When a broker answers, the count begins anew. When the time is over, or the number of tries
is reached, the query fails with the last error.

If a broker answers with a refusal (no such queue, wrong password), it is not away, and the task
fails at once. The same is true if another protocol or an untrusted certificate answers.
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
SPREAD: Final = 0.2  # a pause is longer or shorter by up to this part


@dataclass(frozen=True, slots=True)
class Patience:
    """How often, and for how long, a broker is tried."""

    tries: int = -1  # further tries after the first; -1: as many as the time allows
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
        """Note that the broker answers."""
        self._tries = 0
        self._since = None

    def wait(self, error: UnreachableError) -> None:
        """Pause after a failed try; raises the error if the patience is at an end."""
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
