# Compiled by mypyc: see setup.py.
"""StompEngine: one STOMP connection, bytes in and bytes out.

All frames of one read are handled together, unless that takes long (`core.jobs.turn_length`). Then
the broker delivers, and everything for this peer leaves as one piece. `send` handles SEND, `verbs`
all other frames. What a client has only after its login is in `session`.

Any error in a frame ends the connection. The ERROR names the cause and the receipt that was asked
for (STOMP 1.2, "ERROR"): the protocol has no way to refuse one frame and go on.

Reading stops while a message waits for room, while too many receipts wait for the store, and while
the peer does not read and much waits for it. Nothing is lost: the bytes stay in the parser and in
the peer's socket. Meanwhile the engine cannot see the peer's heart-beats, so missing ones do not
count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from covey.config.settings import StompSettings
from covey.core.broker.broker import Broker
from covey.core.errors import BrokerError, ProtocolError, RefusedError
from covey.core.jobs.turn_length import LOOK_EVERY
from covey.protocols.engine import FAILED, LARGE, Engine, Log
from covey.protocols.stomp import ack as acks
from covey.protocols.stomp.frame import Frame, encode
from covey.protocols.stomp.parser import FrameParser
from covey.protocols.stomp.session import StompSession
from covey.protocols.stomp.settings import login_limits
from covey.protocols.stomp.verbs import VERBS, on_connect
from covey.protocols.stomp.versions import LOGIN_COMMANDS, SUPPORTED_TEXT, Version, check

# An outbox of this many times buffer_size stops reading from the peer, which does not read either.
OUTBOX_FACTOR: Final = 2
END_LENGTH: Final = 2  # of a frame, behind its body: NUL and LF
V1_2: Final = Version.V1_2


class StompEngine(Engine):
    """One STOMP connection: what the client sent, and what it will be sent."""

    def __init__(
        self,
        broker: Broker,
        settings: StompSettings,
        *,
        remote: str = "",
        is_loopback: bool = True,
        socket_buffer: int = 65536,
        log: Log | None = None,
        now: float = 0.0,
    ) -> None:
        """Start before the login, with the small limits that hold until then."""
        super().__init__(remote, log)
        self.broker = broker
        self.settings = settings
        self.is_loopback = is_loopback
        self.socket_buffer = min(socket_buffer, settings.credit_bytes_max)
        self.parser = FrameParser(login_limits(settings))
        self.session: StompSession | None = None  # None until the login
        self.login_deadline = now + settings.login_timeout_s
        self.now = now
        self.failure: BrokerError | None = None  # ends the connection at the end of this turn
        self.failed_receipt: str | None = None  # the receipt that the failed frame asked for
        self._outbox: list[bytes] = []
        self._outbox_size = 0
        self._has_large = False  # the outbox has a large body, a piece by itself
        self.is_paused = False  # the outbox is full: nothing is delivered to this peer
        self.buffer_size = settings.buffer_size or settings.buffer_auto_max

    # The shell's side.

    def receive(self, data: bytes, now: float) -> None:
        """Handle every frame that is complete now, then let the broker deliver."""
        self.now = now
        self.broker.begin_turn(now, "STOMP")
        if self.session is not None:
            self.session.heartbeat.received(now)
        self.parser.feed(data)
        self._work()

    def outgoing(self) -> bytes:
        """Return everything that was written since the last call; a large body comes by itself."""
        outbox = self._outbox
        if not outbox:
            return b""
        if self._has_large:
            data = self._next_part()
            if outbox:
                self.wake()
                return data
        else:
            data = outbox[0] if len(outbox) == 1 else b"".join(outbox)
        outbox.clear()
        self._outbox_size = 0
        session = self.session
        if session is not None:
            if session.receipts.pending:
                session.receipts.taken()
            if self.is_paused:
                self.is_paused = False
                self.broker.turn(self.now)  # `unpause` looks at consumers, which need the time
                session.core.unpause()
                self.broker.wake()
        if not self.reading:
            self.wake()
        return data

    def _next_part(self) -> bytes:
        """Take what comes before the next large body, or that body as it is."""
        outbox = self._outbox
        count = 0
        while count < len(outbox) and len(outbox[count]) < LARGE:
            count += 1
        data = outbox[0] if count <= 1 else b"".join(outbox[:count])
        del outbox[: max(1, count)]
        self._outbox_size -= len(data)
        self._has_large = bool(outbox)
        return data

    def tick(self, now: float) -> float | None:
        """Go on after a wait; send heart-beats; end the connection of a peer that is too late.

        A peer is too late if it has not logged in, or has sent nothing, for too long.
        """
        self.now = now
        if not self.is_closed and (self.failure is not None or not self.reading):
            self.broker.begin_turn(now, "STOMP")
            if self.session is not None and not self.reading:
                self.session.heartbeat.received(now)
            self._work()
        if self.is_closed:
            return None
        session = self.session
        if session is None:
            if now >= self.login_deadline:
                self._give_up("no CONNECT frame in time")
            return self.login_deadline
        heartbeat = session.heartbeat
        if heartbeat.is_off:
            return None
        if heartbeat.expired(now):
            self._give_up("no heart-beat in time: the connection is stale")
            return None
        if heartbeat.beat_due(now):
            if not self._outbox:  # else the peer does not read, and a beat is of no use
                self.send(b"\n")
            heartbeat.sent(now)
        return heartbeat.deadline()

    def _give_up(self, why: str) -> None:
        """End the connection because its peer was too late."""
        self.broker.turn(self.now)
        self.fail(ProtocolError(why), None)

    def sign_of_life(self, now: float) -> None:
        """Called when a part of a long input came: it counts as a heart-beat.

        The peer cannot send a heart-beat in the middle of it.
        """
        if self.session is not None:
            self.session.heartbeat.received(now)

    def lost(self, now: float) -> None:
        """Called when the peer is gone: return everything that it held."""
        self.is_closed = True
        if self.session is not None:
            self.broker.begin_turn(now, "STOMP: connection lost")
            self.broker.drop(self.session.core, now)
            self.broker.run(now)

    def when_done(self, call: Callable[[], None]) -> None:
        """Call back when everything received so far is done and safe."""
        if self.session is None:
            call()
        else:
            self.session.when_safe(call)

    def shut_down(self, reason: str, now: float) -> None:
        """Tell the peer why the connection ends, and close."""
        self.now = now
        if not self.is_closed:
            self.fail(RefusedError(reason, "shutdown"), None)

    def refuse(self, error: BrokerError, now: float) -> None:
        """Refuse what the peer sent with an ERROR, and close."""
        self.now = now
        self.fail(error, None)

    def break_off(self, now: float) -> None:
        """Tell the peer that the broker has failed, and close."""
        self.now = now
        self.fail(BrokerError(FAILED, "internal"), None)

    def count_failure(self) -> None:
        """Count an unexpected exception of this engine."""
        self.broker.internal_errors += 1

    # Writing.

    def send(self, frame: bytes) -> None:
        """Put a frame into the outbox; a full outbox stops deliveries to this peer."""
        outbox = self._outbox
        if not outbox:
            self.wake()
            if self.session is not None:
                self.session.heartbeat.sent(self.broker.clock.now)
        outbox.append(frame)
        self._outbox_size += len(frame)
        if self._outbox_size > self.buffer_size and not self.is_paused:
            if self.session is not None:
                self.is_paused = True
                self.session.core.pause()

    def send_around(self, frame: bytes, body: bytes) -> None:
        """Put a frame into the outbox with a large body before its NUL; the body is not copied."""
        self._has_large = True
        self.send(frame[:-END_LENGTH])
        self.send(body)
        self.send(frame[-END_LENGTH:])

    def send_frame(self, command: str, headers: list[tuple[str, str]], body: bytes = b"") -> None:
        """Write a frame that the broker itself makes, such as CONNECTED or ERROR."""
        self.send(encode(command, headers, body, self.parser.version))

    def fail(self, error: BrokerError, receipt: str | None) -> None:
        """End the connection with an ERROR that says why."""
        if self.is_closed:
            return
        self.report_end(error)
        headers = [("message", error.text), ("covey-code", error.code)]
        if error.code == "version":
            headers.append(("version", SUPPORTED_TEXT))
        if receipt is not None:
            headers.append(("receipt-id", receipt))
        headers.append(("content-type", "text/plain"))
        self.send_frame("ERROR", headers, f"{error.text}\n".encode())
        self.close_delay_s = self.settings.die_delay_ms / 1000
        self.close()

    def guarded(self, call: Callable[[], None]) -> Callable[[], None]:
        """Wrap a call that a job makes for this peer: a refusal ends the peer's connection."""

        def guarded_call() -> None:
            try:
                call()
            except BrokerError as error:
                self.kick(error.text)

        return guarded_call

    def kick(self, reason: str) -> None:
        """End the connection at the end of this turn; the core calls this."""
        self.fail_later(RefusedError(reason, "cancelled"), None)

    def fail_later(self, error: BrokerError, receipt: str | None) -> None:
        """End the connection at the end of this turn, because of an earlier frame."""
        if self.failure is None:
            self.failure = error
            self.failed_receipt = receipt
        self.wake()

    def close(self) -> None:
        """End the connection, and return everything that the client held."""
        self.is_closed = True
        self.reading = False
        if self.session is not None:
            self.broker.drop(self.session.core, self.now)
            self.broker.wake()  # others may get what this client held
        self.wake()

    # Reading.

    def _work(self) -> None:
        """Handle frames until there are no more, or the peer has to wait."""
        parser = self.parser
        self.reading = True
        session = self.session
        if session is not None and session.holding.messages and not self._must_wait():
            self._accept_more(session)  # most consumers send nothing but ACKs
        handled = 0  # since the last look: each is a piece of work
        lengths = self.broker.turn_lengths
        try:
            while not self.is_closed:
                if self._must_wait():
                    self.reading = False
                    break
                if handled + lengths.pieces >= LOOK_EVERY:
                    handled = 0
                    if lengths.look():
                        self.reading = False  # others come first: `tick` handles the rest
                        self.wake()
                        break
                handled += 1
                head, body, own = parser.next_head()
                session = self.session
                if head is not None and head.plan is not None and session is not None:
                    session.producer.send_again(head.plan, body, own)
                    continue
                frame = parser.other_frame() if head is None else parser.frame_of(head, body, own)
                if frame is None:
                    break
                if frame.command == "SEND" and session is not None:
                    session.producer.send_new(frame, head, own)
                else:
                    self._handle(frame)
            if self.failure is not None and not self.is_closed:
                self.fail(self.failure, self.failed_receipt)
        except ProtocolError as error:
            self.fail(error, parser.receipt_asked())
        session = self.session
        self.broker.run(self.now, None if session is None else session.core)

    def _must_wait(self) -> bool:
        session = self.session
        return session is not None and (
            session.core.blocked > 0
            or session.core.working > 0
            # Only at a multiple: a simple client sends all it has before it reads anything.
            or self._outbox_size > OUTBOX_FACTOR * self.buffer_size
            or session.is_leaving
            or session.receipts.pending >= session.receipts.pending_max
        )

    def _handle(self, frame: Frame) -> None:
        """Do what a frame says; any refusal ends the connection."""
        session = self.session
        version = V1_2 if session is None else session.version
        try:
            headers = frame.headers(version)
            if frame.command in LOGIN_COMMANDS:
                on_connect(self, frame, headers)
                return
            if session is None:
                raise ProtocolError(f"{frame.command} before CONNECT")
            check(frame.command, headers, version)
            self.broker.turn_lengths.doing = frame.command
            self.broker.turn_lengths.pieces += LOOK_EVERY  # it may be long, and is no message
            VERBS[frame.command](session, frame, headers)
        except BrokerError as error:
            self.fail(error, frame.receipt(version))
            return
        if frame.command == "ACK":
            self._accept_more(session)

    def _accept_more(self, session: StompSession) -> None:
        """Take the plain ACKs that come next: in STOMP 1.2 they come in rows, and need no parse."""
        if session.version is not V1_2:
            return
        try:
            tags = self.parser.next_acks()
            self.broker.turn_lengths.pieces += len(tags)
            acks.accept(session, tags)
        except BrokerError as error:
            self.fail(error, None)
