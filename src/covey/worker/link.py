"""Link: the addresses of the brokers, and how to connect to one of them again and again.

The addresses are tried in turn, beginning with the one that answered last. Between rounds the wait
doubles up to `WAIT_MAX_S`. It has a random part, so that a thousand workers do not come back in one
instant. An error that another try would get again (a wrong password, an invalid name) is raised at
once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Final

from covey.worker.address import Address, parse_addresses
from covey.worker.connection import (
    HEARTBEAT_S,
    TIMEOUT_S,
    Connection,
    Dial,
    dial_tcp,
    open_connection,
)
from covey.worker.errors import RefusedError, UnreachableError, WorkerError

WAIT_FIRST_S: Final = 0.1
WAIT_MAX_S: Final = 10.0

Told = Callable[[Address, WorkerError, float], None]


def _untold(address: Address, error: WorkerError, wait_s: float) -> None:
    """Do nothing."""


class Link:
    """The way to one of several brokers."""

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        heartbeat_s: float = HEARTBEAT_S,
        timeout_s: float = TIMEOUT_S,
        client_id: str = "",
    ) -> None:
        """Read the URL or URLs; ValueError says what is wrong with them."""
        self.addresses: list[Address] = parse_addresses(url)
        self.heartbeat_s = heartbeat_s
        self.timeout_s = timeout_s
        self.client_id = client_id
        self.dial: Dial = dial_tcp
        self._at = 0  # the address that answered last

    async def open(self, *, give_up_s: float | None = None, told: Told = _untold) -> Connection:
        """Connect to the first broker that answers; without `give_up_s` try for ever.

        `told` is called for every address that did not answer, with the wait that follows.
        """
        loop = asyncio.get_running_loop()
        deadline = None if give_up_s is None else loop.time() + give_up_s
        wait_s = 0.0
        while True:
            for _ in self.addresses:
                address = self.addresses[self._at]
                try:
                    return await self._opened(address)
                except WorkerError as error:
                    if isinstance(error, RefusedError) and error.is_lasting:
                        raise
                    self._at = (self._at + 1) % len(self.addresses)
                    told(address, error, wait_s)
                    failure = error
            wait_s = min(max(WAIT_FIRST_S, 2 * wait_s), WAIT_MAX_S)
            pause = wait_s * random.uniform(0.5, 1.0)
            if deadline is not None and loop.time() + pause > deadline:
                named = ", ".join(map(str, self.addresses))
                raise UnreachableError(f"none of {named} answers: {failure}") from failure
            await asyncio.sleep(pause)

    async def _opened(self, address: Address) -> Connection:
        return await open_connection(
            address,
            dial=self.dial,
            heartbeat_s=self.heartbeat_s,
            timeout_s=self.timeout_s,
            client_id=self.client_id,
        )
