# Compiled by mypyc: see setup.py.
"""StompSession: what a client has after its login, and the RECEIPTs that it will get.

Before its login a client has no session: `StompEngine.session` is None. The functions of all later
frames get the session.

A RECEIPT leaves when the store has everything that this client did up to its frame. RECEIPTs leave
in the order of the frames. They do not wait for what other clients do. The RECEIPT of a frame in a
transaction waits for the COMMIT. It leaves just before the RECEIPT of the COMMIT. After an ABORT it
never leaves.

RECEIPTs of neighbouring SENDs wait as one list and leave as one piece. A RECEIPT counts as pending
until the shell has taken it: a peer that asks for RECEIPTs and never reads must not fill the
outbox. A RECEIPT that waits in a transaction does not count: otherwise too many of them would stop
reading, and the COMMIT would never be read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from covey.core.session import Session
from covey.protocols.stomp.frame import encode
from covey.protocols.stomp.heartbeat import Heartbeat
from covey.protocols.stomp.holding import Holding
from covey.protocols.stomp.send import Producer
from covey.protocols.stomp.send_plan import Plans, SendPlan
from covey.protocols.stomp.settings import Names, user_headers
from covey.protocols.stomp.versions import Version

if TYPE_CHECKING:
    from covey.protocols.stomp.consumer import StompConsumer
    from covey.protocols.stomp.engine import StompEngine

ENDED_MAX: Final = 1000  # subscriptions that ended by themselves, remembered for an UNSUBSCRIBE
USUAL: Final = b"RECEIPT\nreceipt-id:%s\n\n\0\n"  # for an id that needs no escapes


class StompSession:
    """One client that has logged in."""

    __slots__ = (
        "core",
        "ended",
        "engine",
        "heartbeat",
        "holding",
        "is_leaving",
        "names",
        "producer",
        "readers",
        "receipts",
        "version",
    )

    def __init__(
        self, engine: StompEngine, core: Session, version: Version, heartbeat: Heartbeat
    ) -> None:
        """Begin after a login; `core` is what the core knows of this client."""
        settings = engine.settings
        identity = core.identity
        self.engine = engine
        self.core = core
        self.version = version
        self.heartbeat = heartbeat
        self.names = Names(settings, engine.broker, core.own_id)
        self.holding = Holding()
        self.receipts = Receipts(engine, core, version)
        added = user_headers(settings, identity.principals)
        plans = Plans(self.names, settings, version, added, identity.name)
        self.producer = Producer(engine, core, self.receipts, plans)
        self.readers = 0  # consumers of topics that have translated other protocols' messages
        self.is_leaving = False  # DISCONNECT came: nothing more is read
        self.ended: dict[str, None] = {}  # the last subscriptions that ended by themselves

    def when_safe(self, call: Callable[[], None]) -> None:
        """Make a call when everything that this client did so far is safe."""
        self.engine.broker.promises.after(self.core, call)

    def end_subscription(self, consumer: StompConsumer) -> None:
        """End a subscription that is done without an UNSUBSCRIBE; the client may still send one."""
        name = consumer.asked.id
        late = list(consumer.unsettled.values())
        if late:  # their group was taken from the client, so an ACK of them is late
            self.holding.run_out(consumer, late)
        after = None if late else self.holding.forgetting(name)
        broker = self.engine.broker
        broker.unsubscribe(self.core, name, broker.now, counted=False, after=after)
        self.ended[name] = None
        if len(self.ended) > ENDED_MAX:
            del self.ended[next(iter(self.ended))]

    def has_ended(self, name: str) -> bool:
        """Return True if the last subscription of that name ended by itself."""
        return name in self.ended and name not in self.core.subscriptions


class Receipts:
    """The RECEIPT frames of one connection."""

    __slots__ = (
        "_core",
        "_engine",
        "_gathered",
        "_send_gathered",
        "_version",
        "_written",
        "pending",
        "pending_max",
    )

    def __init__(self, engine: StompEngine, core: Session, version: Version) -> None:
        """Start without any RECEIPT."""
        self._engine = engine
        self._core = core
        self._version = version
        self.pending = 0  # RECEIPTs that were asked for and that the shell has not taken yet
        self.pending_max = engine.settings.receipts_max  # from this number on, reading stops
        self._written = 0  # pending RECEIPTs that are in the outbox
        self._gathered: list[bytes] = []  # RECEIPTs that `_send_gathered` will send
        self._send_gathered: Callable[[], None] | None = None

    def answer(self, plan: SendPlan, receipt: bytes) -> bytes:
        """Write the RECEIPT that a SEND asks for; b"" if it asks for none.

        The SEND names its receipt in a line that was taken out (`receipt`), or else in its plan.
        """
        if receipt:
            return USUAL % receipt
        return b"" if plan.receipt is None else self.written(plan.receipt)

    def written(self, receipt: str, *, is_late: bool = False) -> bytes:
        """Write a RECEIPT; `is_late`: it answers an ACK or NACK that came too late."""
        headers = [("receipt-id", receipt)]
        if is_late:
            headers.append(("covey-late", "true"))
        return encode("RECEIPT", headers, b"", self._version)

    def owe(self, frame: bytes) -> None:
        """Send a RECEIPT when everything that this client did so far is safe."""
        promises = self._engine.broker.promises
        if promises.claim_behind(self._core, self._send_gathered):
            self._gathered.append(frame)
            self.pending += 1
        else:
            self._gathered = [frame]
            self._send_gathered = self.sender(self._gathered)
            promises.after(self._core, self._send_gathered)

    def sender(self, frames: list[bytes]) -> Callable[[], None]:
        """Return the call that sends RECEIPTs; until it is made, `frames` may grow."""
        self.pending += len(frames)

        def send() -> None:
            self._written += len(frames)
            if not self._engine.is_closed:
                self._engine.send(b"".join(frames))

        return send

    def taken(self) -> None:
        """Called when the shell has taken everything from the outbox."""
        self.pending -= self._written
        self._written = 0
