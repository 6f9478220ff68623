# Compiled by mypyc: see setup.py.
"""StompEngine: one STOMP connection, bytes in and bytes out.

All frames of one read are handled together; then the broker delivers, and everything for this
peer leaves as one piece. SEND is the `producer`'s, the other verbs are in `verbs`. Whatever
goes wrong with a frame ends the connection with an ERROR that names the cause and the receipt asked
for (STOMP 1.2, "ERROR"): the protocol has no way to say no and go on.

Reading stops while a message waits for room, while too many receipts wait for the store, and
while the peer reads nothing of a lot we have for it. Nothing is lost by that: the bytes stay in the
parser and the peer's socket. Meanwhile we cannot hear its heart-beats, so it is not blamed for
missing ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from covey.config.settings import StompSettings
from covey.core.broker.broker import Broker
from covey.core.errors import BrokerError, ProtocolError, RefusedError
from covey.core.session import Session
from covey.protocols.engine import FAILED, Engine, Log
from covey.protocols.stomp import ack as acks
from covey.protocols.stomp.ack import Holding
from covey.protocols.stomp.frame import Frame, encode
from covey.protocols.stomp.heartbeat import Heartbeat
from covey.protocols.stomp.parser import FrameParser
from covey.protocols.stomp.receipts import Receipts
from covey.protocols.stomp.send import Producer
from covey.protocols.stomp.settings import Names, login_limits
from covey.protocols.stomp.verbs import VERBS
from covey.protocols.stomp.versions import SUPPORTED_TEXT, Version, check

# Times buffer_size: from here on a peer that does not read is not read either.
OUTBOX_FACTOR: Final = 2
V1_2: Final = Version.V1_2


class StompEngine(Engine):
    """What one STOMP client said, and what it is to hear."""

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
        """Start before login, with a stranger's limits."""
        super().__init__(remote, log)
        self.broker = broker
        self.settings = settings
        self.is_loopback = is_loopback
        self.socket_buffer = min(socket_buffer, settings.credit_bytes_max)
        self.names = Names(settings, broker)
        self.parser = FrameParser(login_limits(settings))
        self.version = Version.V1_0
        self.session: Session | None = None
        self.client_id = ""
        self.heartbeat: Heartbeat | None = None
        self.login_deadline = now + settings.login_timeout_s
        self.now = now
        self.holding = Holding()
        self.readers = 0  # of topics, to which messages of other protocols came
        self.producer: Producer | None = None  # until the login says whose messages these are
        self.receipts_max = settings.receipts_max
        self.receipts = Receipts(self)
        self.failure = ""  # to be told at the end of this turn
        self._outbox: list[bytes] = []
        self._outbox_size = 0
        self.is_paused = False  # the outbox is full: nothing is delivered to this peer
        self.is_leaving = False  # DISCONNECT came: nothing more is read
        self.buffer_size = settings.buffer_size or settings.buffer_auto_max

    # The shell's side.

    def receive(self, data: bytes, now: float) -> None:
        """Handle every frame the bytes complete, then let the broker deliver."""
        self.now = now
        self.broker.turn(now)
        if self.heartbeat is not None:
            self.heartbeat.received(now)
        self.parser.feed(data)
        self._work()

    def outgoing(self) -> bytes:
        """Give everything written since the last call."""
        if not self._outbox:
            return b""
        data = self._outbox[0] if len(self._outbox) == 1 else b"".join(self._outbox)
        self._outbox.clear()
        self._outbox_size = 0
        if self.receipts.pending:
            self.receipts.taken()
        if self.is_paused and self.session is not None:
            self.is_paused = False
            self.session.unpause()
            self.broker.wake()
        if not self.reading:
            self.wake()
        return data

    def tick(self, now: float) -> float | None:
        """Go on after a wait; send or miss heart-beats; give up on strangers."""
        self.now = now
        self.broker.turn(now)
        if not self.is_closed and (self.failure or not self.reading):
            if self.heartbeat is not None and not self.reading:
                self.heartbeat.received(now)
            self._work()
        if self.is_closed:
            return None
        heartbeat = self.heartbeat
        if heartbeat is None:
            if now >= self.login_deadline:
                self.fail(ProtocolError("no CONNECT frame in time"), None)
            return self.login_deadline
        if heartbeat.is_off:
            return None
        if heartbeat.expired(now):
            self.fail(ProtocolError("no heart-beat in time: the connection is stale"), None)
            return None
        if heartbeat.beat_due(now):
            if not self._outbox:  # else the peer does not read, and a beat would tell it nothing
                self.send(b"\n")
            heartbeat.sent(now)
        return heartbeat.deadline()

    def sign_of_life(self, now: float) -> None:
        """Count a part of what is being received like a heart-beat: none can come in between."""
        if self.heartbeat is not None:
            self.heartbeat.received(now)

    def lost(self, now: float) -> None:
        """Give everything back: the peer is gone."""
        self.is_closed = True
        if self.session is not None:
            self.broker.drop(self.session, now)
            self.broker.run(now)

    def when_done(self, call: Callable[[], None]) -> None:
        """Call back when everything received so far is done and safe."""
        if self.session is None:
            call()
        else:
            self.broker.promises.after(self.session, call)

    def shut_down(self, reason: str, now: float) -> None:
        """Tell the peer why it ends."""
        self.now = now
        if not self.is_closed:
            self.fail(RefusedError(reason, "shutdown"), None)

    def refuse(self, error: BrokerError, now: float) -> None:
        """Tell the peer what is wrong with what it sent, of its kind."""
        self.now = now
        self.fail(error, None)

    def break_off(self, now: float) -> None:
        """Tell the peer that the broker has failed, and close."""
        self.now = now
        self.fail(BrokerError(FAILED, "internal"), None)

    def count_failure(self) -> None:
        """Count an exception that came out of this engine."""
        self.broker.internal_errors += 1

    # Writing.

    def send(self, frame: bytes) -> None:
        """Put a frame into the outbox; a full one stops deliveries to this peer."""
        outbox = self._outbox
        if not outbox:
            self.wake()
            if self.heartbeat is not None:
                self.heartbeat.sent(self.broker.clock.now)
        outbox.append(frame)
        self._outbox_size += len(frame)
        if self._outbox_size > self.buffer_size and not self.is_paused:
            if self.session is not None:
                self.is_paused = True
                self.session.pause()

    def send_frame(self, command: str, headers: list[tuple[str, str]], body: bytes = b"") -> None:
        """Write a frame of our own."""
        self.send(encode(command, headers, body, self.version))

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
        self._close()

    def say_good_bye(self) -> None:
        """End the connection as the client asked."""
        self._close()

    @property
    def the_session(self) -> Session:
        """Return the session of a client that has logged in."""
        assert self.session is not None
        return self.session

    def kick(self, reason: str) -> None:
        """End the connection at the end of this turn: asked from inside the core."""
        self.failure = self.failure or reason
        self.wake()

    def when_safe(self, call: Callable[[], None]) -> None:
        """Call back when everything this client did so far is safe."""
        self.broker.promises.after(self.the_session, call)

    def receipt(self, receipt: str) -> Callable[[], None]:
        """Return what sends a receipt, once whatever it is for is safe."""
        return self.receipts.sender([self.receipts.written(receipt)])

    def _close(self) -> None:
        self.is_closed = True
        self.reading = False
        if self.session is not None:
            self.broker.drop(self.session, self.now)
            self.broker.wake()  # others may have what it held
        self.wake()

    # Reading.

    def _work(self) -> None:
        """Handle frames until there are no more, or the peer has to wait."""
        parser = self.parser
        self.reading = True
        if self.holding.messages and self.version is V1_2 and not self._must_wait():
            self._accept_more()  # most often a consumer says nothing else
        try:
            while not self.is_closed:
                if self._must_wait():
                    self.reading = False
                    break
                head, body, own = parser.next_head()
                producer = self.producer
                if head is not None and head.plan is not None and producer is not None:
                    producer.send_again(head.plan, body, own)
                    continue
                frame = parser.other_frame() if head is None else parser.frame_of(head, body, own)
                if frame is None:
                    break
                if frame.command == "SEND" and producer is not None:
                    producer.send_new(frame, head, own)
                else:
                    self._handle(frame)
            if self.failure and not self.is_closed:
                self.fail(RefusedError(self.failure, "cancelled"), None)
        except ProtocolError as error:
            self.fail(error, parser.receipt_asked())
        self.broker.run(self.now, self.session)

    def _must_wait(self) -> bool:
        session = self.session
        return session is not None and (
            session.blocked > 0
            # Not at the first full outbox: a simple client sends all it has before it reads.
            or self._outbox_size > OUTBOX_FACTOR * self.buffer_size
            or self.is_leaving
            or self.receipts.pending >= self.receipts_max
        )

    def _handle(self, frame: Frame) -> None:
        """Do what a frame says; any refusal ends the connection."""
        version = V1_2 if self.session is None else self.version
        try:
            headers = frame.headers(version)
            if frame.command in ("CONNECT", "STOMP"):
                VERBS["CONNECT"](self, frame, headers)
                return
            if self.session is None:
                raise ProtocolError(f"{frame.command} before CONNECT")
            check(frame.command, headers, self.version)
            VERBS[frame.command](self, frame, headers)
        except BrokerError as error:
            self.fail(error, frame.receipt(version))
            return
        if frame.command == "ACK" and self.version is V1_2:
            self._accept_more()

    def _accept_more(self) -> None:
        """Take the plain ACKs that come next: they come in rows, and need no parse."""
        parser = self.parser
        try:
            acks.accept(self, parser.next_acks())
        except BrokerError as error:
            self.fail(error, None)
