# Compiled by mypyc: see setup.py.
"""AmqpEngine: one AMQP 1.0 connection, bytes in and bytes out.

The login comes first (`sasl`), then frames (`framing`). Messages, flows and settlements go to their
sessions and links. All else goes to proton (`wire`), which reports it as events (`events`). The
core writes nothing to the peer: consumers fill outboxes, and `outgoing` writes what is in them. If
a peer sends something wrong, its link, its session or its connection ends with a condition.

Limits that hold here:
- A new peer has `open_timeout_s` to log in and open.
- `backpressure` bounds what waits for a slow peer, and what a blocked peer may still send.
- Frames that take long are handled a few in a turn (`core.jobs.turn_length`), and a disposition of
  very many deliveries in portions. Meanwhile the engine `is_behind`: it is not read, and a later
  turn handles what is left of the last read.
"""

from __future__ import annotations

import math
from typing import Final

from covey.config.settings import AmqpSettings
from covey.core.broker.broker import Broker, Name
from covey.core.errors import BrokerError, ProtocolError, RefusedError
from covey.core.jobs.job import Job
from covey.core.jobs.turn_length import LOOK_EVERY
from covey.core.security.users import Verb, authorise
from covey.core.session import Session
from covey.protocols.amqp.backpressure import Backpressure
from covey.protocols.amqp.codec.performatives import HEART_BEAT
from covey.protocols.amqp.conditions import condition_of
from covey.protocols.amqp.framing import Framing
from covey.protocols.amqp.links.attach import Links
from covey.protocols.amqp.links.management import Management
from covey.protocols.amqp.links.nodes import Nodes
from covey.protocols.amqp.links.transactions import Coordinator
from covey.protocols.amqp.login import sole_connection as sole
from covey.protocols.amqp.login.sasl import AMQP_HEADER, SaslServer, SaslState, make_sasl
from covey.protocols.amqp.messages.head_cache import HeadSectionCache
from covey.protocols.amqp.proton_events import ProtonEvents
from covey.protocols.amqp.proton_wire import ProtonWire, close_frame
from covey.protocols.engine import FAILED, Engine, Log

SHOWN_EVERY_S: Final = 0.05  # how often proton is told that a peer is alive; its limits are seconds
OUTGOING_MAX: Final = 256 * 1024  # bytes given at a time, so that other connections get their turn
FRAME_SIZE_MIN: Final = 512  # what every peer accepts (AMQP 1.0 section 2.8.19)
CLOSE_DELAY_S: Final = 0.5  # time for the peer to read the reason before the socket closes


class AmqpEngine(Engine):
    """One AMQP connection: what the client sent, and what it will be sent."""

    # These exist only after the peer's open.
    nodes: Nodes
    coordinator: Coordinator
    management: Management

    def __init__(
        self,
        broker: Broker,
        settings: AmqpSettings,
        *,
        remote: str = "",
        is_loopback: bool = True,
        certificate_name: str | None = None,
        log: Log | None = None,
        now: float = 0.0,
    ) -> None:
        """Start before the login."""
        super().__init__(remote, log)
        self.broker = broker
        self.settings = settings
        self.sasl = make_sasl(
            broker.users,
            settings,
            is_loopback=is_loopback,
            certificate_name=certificate_name,
            remote=remote,
        )
        self._is_greeted = False  # the peer already has the broker's AMQP header
        self.wire: ProtonWire | None = None
        self.events: ProtonEvents | None = None
        self.session: Session | None = None
        self.container = ""
        self._claim: Name = ()  # the claim to be its container's only connection
        self.links = Links(self)
        self.framing = Framing(self)
        self.frame_max = FRAME_SIZE_MIN  # of written frames, until the peer has told its limit
        self.heads = HeadSectionCache()
        self.now = now
        self.wall_ms = broker.clock.wall_ms_at(now)
        self.open_deadline = now + settings.open_timeout_s
        self.backpressure = Backpressure(self)
        self._last_words = b""  # a close that proton would not send before the peer's open
        self.is_behind = False  # there was no time for all that has come
        self._job: Job | None = None  # the last that later frames have to wait for
        self.is_receiving = False  # `receive` is running; it wakes the shell at its end
        self._is_broken = False  # the engine has raised: its state cannot be trusted any more
        self._shown = -math.inf  # when proton was last told that the peer is alive
        self.is_proton_due = True  # bytes went to or from proton: its deadlines may have moved
        self._proton_deadline = math.inf

    # The shell's side.

    def receive(self, data: bytes, now: float) -> None:
        """Handle every frame that is complete now, then let the broker deliver."""
        self._begin_turn(now)
        self.is_receiving = True
        try:
            if self.wire is None:
                data = self._log_in(data)
            if self._is_at_work:
                self.framing.keep(data)
            else:
                self.is_behind = False
                self.framing.receive(data)
            self._end_turn()
        finally:
            self.is_receiving = False
        self.wake()

    def outgoing(self) -> bytes:
        """Return the bytes for the peer, a bounded piece at a time.

        A link's frames must leave after its attach and before its detach. Proton writes these two.
        """
        if self._is_broken:
            return self._parting()
        parts = self.framing.take()
        if self.sasl.out:
            parts.insert(0, self.sasl.outgoing())
        size = 0
        while self.wire is not None and size < OUTGOING_MAX:
            count = len(parts)
            self.framing.write(parts)
            size += self.backpressure.flush(parts, OUTGOING_MAX - size)
            self.framing.pull(parts)
            if len(parts) == count:
                break
        if size >= OUTGOING_MAX:
            self.wake()  # for the next piece
        if self.is_closed:
            parts.append(self._last_words)
            self._last_words = b""
        self.backpressure.ease()
        return b"".join(parts)

    def tick(self, now: float) -> float | None:
        """Go on after a wait; run proton's timers; give up a peer that does not open in time."""
        self.now = now
        if self.is_closed:
            return None
        deadline = 0.0
        if self.wire is not None:
            self._begin_turn(now)
            if not self.reading:
                self.show_life()  # the peer is not read now, so it must not count as silent
            if self.is_proton_due or now >= self._proton_deadline:
                self.is_proton_due = False
                self._proton_deadline = self.wire.tick(now) or math.inf
            if self._proton_deadline < math.inf:
                deadline = self._proton_deadline
            self._go_on()
            self.walk()
            self._end_turn()
        if self.session is not None or self.is_closed:
            return deadline or None
        if now >= self.open_deadline:
            self.broker.turn(now)
            self.fail(ProtocolError("no open in time", "timeout"))
            return None
        return min(deadline, self.open_deadline) if deadline else self.open_deadline

    def lost(self, now: float) -> None:
        """Called when the peer is gone: return everything that it held."""
        self.now = now
        self.broker.begin_turn(now, "AMQP: connection lost")
        self.is_closed = True
        self._drop(counted=True)
        self.broker.run(now)
        if self.wire is not None:
            self.wire.release()
            self.wire = None
            self.events = None

    def shut_down(self, reason: str, now: float) -> None:
        """Tell the peer why the connection ends, and close."""
        self.now = now
        self.broker.turn(now)
        self.fail(RefusedError(reason, "shutdown"))

    def break_off(self, now: float) -> None:
        """Tell the peer that the broker has failed, and close."""
        self.now = now
        self._is_broken = True
        self.sasl.break_off()
        self.fail(BrokerError(FAILED))

    def count_failure(self) -> None:
        """Count an unexpected exception of this engine."""
        self.broker.internal_errors += 1

    def take_over(self, sasl: SaslServer, *, is_greeted: bool) -> None:
        """Go on after a login that was served elsewhere.

        `is_greeted`: the peer already has the broker's AMQP header.
        """
        self.sasl = sasl
        self._is_greeted = is_greeted

    # For links and events.

    def open_session(
        self, hostname: str, container: str, frame_max: int, policy: int | None
    ) -> None:
        """Open the core's session for a peer that has logged in and sent its open.

        `frame_max` is the largest frame that the peer accepts; 0: any. `policy` says how its
        container wants to be without other connections (`sole`); None: it does not.
        """
        identity = self.sasl.identity
        authorise(identity, Verb.CONNECT, "broker")
        host = self.broker.host_named(hostname or self.sasl.hostname or None)
        claim = ("container", host.id, identity.name, container)
        if policy is not None:
            sole.check_alone(self.broker.claims, claim)
        session = self.broker.open(host, identity, self.now, self)
        if policy is not None:
            is_kept = policy != sole.CLOSE_EXISTING
            self.broker.claims.hold(claim, self._replaced, is_kept=is_kept)
            self._claim = claim
        session.protocol = "amqp 1.0"
        session.remote = self.remote
        session.client_id = container
        self.report_login(session)
        session.is_answered_in_order = False  # a disposition names its deliveries
        self.container = container
        self.frame_max = max(FRAME_SIZE_MIN, min(frame_max or OUTGOING_MAX, OUTGOING_MAX))
        self.session = session
        self.is_stranger = False
        self.nodes = Nodes(self)
        self.coordinator = Coordinator(self)
        self.management = Management(self.nodes.admin)

    def resume(self) -> None:
        """Wake the shell, so that `tick` goes on reading."""
        self.has_news()

    def has_news(self) -> None:
        """Wake the shell; during `receive` that is not needed, since it wakes the shell itself."""
        if not self.is_receiving:
            self.wake()

    # Turns.

    def _begin_turn(self, now: float) -> None:
        self.now = now
        self.broker.begin_turn(now, "AMQP")
        self.wall_ms = self.broker.clock.wall_ms

    def _end_turn(self) -> None:
        self.broker.run(self.now, self.session)
        if self.links.to_close:
            self.links.close_due()
        if not self.is_closed:
            self.reading = not self.is_behind and not self.backpressure.is_full
            if self.is_behind and not self._is_at_work:  # else the end of the job wakes it
                self.has_news()

    def _go_on(self) -> None:
        """Handle what there was no time or room for: held messages, then frames not looked at."""
        if self._is_at_work:
            return
        was_behind, self.is_behind = self.is_behind, False
        self.backpressure.go_on()
        if was_behind and not self.is_behind:
            self.framing.receive(b"")

    def work_on(self, job: Job) -> None:
        """Do what a frame asks for in portions; the frames behind it wait until all is done."""
        self.broker.jobs.begin(job, is_waited_for=True)
        if not job.is_over:
            self._job = job
            self.is_behind = True
            self.broker.turn_lengths.pieces += LOOK_EVERY  # so that no other frame is looked at

    @property
    def _is_at_work(self) -> bool:
        return self._job is not None and not self._job.is_over

    def must_end_turn(self) -> bool:
        """Count a piece of work; True: there is no time for it in this turn."""
        lengths = self.broker.turn_lengths
        if self.is_behind or (lengths.pieces >= LOOK_EVERY and lengths.look()):
            self.is_behind = True
            return True
        lengths.pieces += 1
        return False

    def walk(self) -> None:
        """Handle proton's events."""
        if self.events is not None:
            self.events.walk()

    # Login and bytes.

    def _log_in(self, data: bytes) -> bytes:
        """Pass bytes to the login; return the bytes that follow the login."""
        sasl = self.sasl
        sasl.receive(data)
        if sasl.state is SaslState.FAILED:
            self.answer_delay_s = self.broker.limits.login_failed_wait_s
            if sasl.complaint:
                self.report("connection_refused", cause=sasl.complaint)
            self.close()
        if sasl.state is not SaslState.DONE:
            return b""
        self.wire = ProtonWire(self.settings, self.broker.limits.id)
        if self._is_greeted:
            self.wire.skip(len(AMQP_HEADER))
        self.events = ProtonEvents(self, self.wire)
        leftover, sasl.leftover = sasl.leftover, b""
        return leftover

    def show_life(self) -> None:
        """Tell proton that the peer is alive, but not too often: each time costs several calls."""
        if self.now >= self._shown + SHOWN_EVERY_S:
            self._shown = self.now
            self.push(HEART_BEAT)

    def push(self, data: bytes) -> None:
        """Pass bytes to proton, and handle the events that follow."""
        self.is_proton_due = True
        rest = memoryview(data)
        while rest and self.wire is not None and not self.is_closed:
            taken = self.wire.push(rest)
            self.walk()
            if taken <= 0:
                return
            rest = rest[taken:]

    # Ending.

    def fail(self, error: BrokerError) -> None:
        """End the connection, and tell the peer why."""
        if self.is_closed:
            return
        self.report_end(error)
        condition = condition_of(error)
        if self.wire is not None and self.events is not None:
            self.wire.close(condition)
            if not self.events.has_opened:
                self._last_words = close_frame(condition)
        self.close()

    def say_good_bye(self) -> None:
        """End the connection as the peer asked: what it held does not count as delivered."""
        self._drop(counted=False)
        if self.wire is not None:
            self.wire.close(None)
        self.close()

    def close(self) -> None:
        """End the connection, and return what the client held; written frames are still sent."""
        self.is_closed = True
        self.reading = False
        self.close_delay_s = CLOSE_DELAY_S
        self._drop(counted=True)
        self.wake()

    def _drop(self, *, counted: bool) -> None:
        if self.session is not None and not self.session.is_gone:
            self.broker.claims.release(self._claim, self._replaced)
            self.links.end_all(counted=counted)
            self.broker.drop(self.session, self.now)

    def _replaced(self) -> None:
        cause = f"another connection of the container-id {self.container} has taken over"
        self.fail(RefusedError(cause, "replaced"))

    def _parting(self) -> bytes:
        """Return the last frames of an engine that is broken: nothing from links."""
        words = [self.sasl.outgoing(), *self.framing.take()]
        if self.wire is not None:
            words.append(self.wire.pull())
        words.append(self._last_words)
        self._last_words = b""
        return b"".join(words)

    def kick(self, reason: str) -> None:
        """End the connection; the core calls this."""
        self.fail(RefusedError(reason, "shutdown"))
