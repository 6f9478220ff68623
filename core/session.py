# Compiled by mypyc: see setup.py.
"""Session: what one connection owns in the core, and what ends with it.

A session owns subscriptions, unsettled deliveries (through their consumers), open transactions and
temporary destinations. `Broker.drop` returns all of them when the connection ends.

A session is blocked while one of its messages waits for room. A session is working while one of its
jobs is under way whose result its next frame may see (`core.jobs`). In both cases its protocol must
not hand in further work (`must_wait`). The session tells its `Client` when the protocol may go on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from covey.core.host.subscription import Subscription
    from covey.core.host.virtual_host import VirtualHost
    from covey.core.model.consumer import Window
    from covey.core.naming.destination import Destination
    from covey.core.publishing.transactions import Transaction
    from covey.core.security.users import Identity


TEMPORARY_MAX: Final = 1024  # temporary destinations remembered; more only if all still exist


@mypyc_attr(allow_interpreted_subclasses=True)
class Client(ABC):
    """The connection behind a session: what the core asks of its protocol.

    The core may call both methods in the middle of its work. So they only take a note and never
    call back into the core.
    """

    @abstractmethod
    def resume(self) -> None:
        """Go on: nothing of the session waits for room any more."""

    @abstractmethod
    def kick(self, reason: str) -> None:
        """End the connection, and tell the peer why."""


class Session:
    """One connection, as the core knows it."""

    def __init__(
        self,
        number: int,
        host: VirtualHost,
        identity: Identity,
        run: str = "",
        client: Client | None = None,
    ) -> None:
        """Begin with nothing; `run` names this start of the broker: each start numbers from 1.

        A session without a client lasts for one request. Nobody can end it from outside.
        """
        self.id = number
        self.client = client
        self.run = run
        self.own_id = f"{number}-{run}" if run else str(number)  # unique over restarts
        self.host = host
        self.identity = identity
        self.protocol = ""
        self.remote = ""
        self.client_id = ""
        self.connected_at = 0.0
        self.subscriptions: dict[str, Subscription] = {}
        self.transactions: dict[str, Transaction] = {}
        self.transactions_max = 0  # open at a time; 0: the protocol itself limits them
        self.temporary: set[Destination] = set()
        self.temporary_max = TEMPORARY_MAX  # beyond it, `temporary` forgets deleted destinations
        self.sendable: set[Destination] = set()  # where it is known to have permission to send
        self.blocked = 0  # pieces of work waiting for room
        self.blocked_on = ""  # what that work waits for, in words for people
        self.blocked_since = 0.0
        self.is_block_told = False  # True: the audit has heard of this long wait
        self.blocks = 0  # how often the session had to wait
        self.working = 0  # jobs of its own that its next frame waits for
        self.patience_s = 0.0  # how long a message may wait before the connection ends; 0: for ever
        self.paused_since = 0.0  # when its peer stopped reading; 0: the peer reads
        self.is_slow = False  # True: the audit has heard that the peer does not read
        self.sent = 0
        self.ticket = 0  # of the commit that includes the session's latest change
        self.is_answered_in_order = True  # False: an answer waits for nothing of earlier turns
        self.is_gone = False

    @property
    def is_blocked(self) -> bool:
        """Return True if one of the session's messages waits for room."""
        return self.blocked > 0

    @property
    def must_wait(self) -> bool:
        """Return True if the protocol must wait before handing in more."""
        return self.blocked > 0 or self.working > 0

    def begin_work(self) -> None:
        """Note that a job is under way which the next frame waits for."""
        self.working += 1

    def end_work(self) -> None:
        """Note that such a job is over; the end of the last one lets the protocol go on."""
        self.working -= 1
        if self.working == 0 and self.client is not None:
            self.client.resume()

    def block(self, why: str, now: float) -> None:
        """Note that a piece of work waits for room."""
        if self.blocked == 0:
            self.blocks += 1
            self.blocked_since = now
        self.blocked += 1
        self.blocked_on = why

    def unblock(self) -> None:
        """Note that a piece of work waits no longer; the last one lets the protocol go on."""
        self.blocked -= 1
        if self.blocked == 0:
            self.blocked_on = ""
            self.is_block_told = False
            if self.client is not None:
                self.client.resume()

    def kick(self, reason: str) -> None:
        """End the connection, if there is one behind the session, with a reason."""
        if self.client is not None:
            self.client.kick(reason)

    def paused_s(self, now: float) -> float:
        """Return how long the peer has not read what is meant for it."""
        return now - self.paused_since if self.paused_since else 0.0

    def windows(self) -> list[Window]:
        """Return the credit windows of all its subscriptions."""
        return [subscription.window for subscription in self.subscriptions.values()]

    def pause(self) -> None:
        """Stop deliveries: the peer's outbox is full."""
        self.paused_since = self.host.now
        for window in self.windows():
            window.is_paused = True

    def unpause(self) -> None:
        """Let deliveries go on."""
        self.paused_since = 0.0
        self.is_slow = False
        for window in self.windows():
            window.is_paused = False
            window.reconsider()
