"""Connection: one logged-in STOMP 1.2 connection, as an asyncio protocol.

The frames are written and read by the broker's own codec. All frames of one turn of the event loop
are sent together. A receipt calls its callback. A MESSAGE goes to its subscription. An ERROR ends
the connection, and all callbacks that wait for a receipt get the reason. Heart-beats go both ways.

`open_connection` dials over TCP or TLS. Another kind of `Dial` (covey.worker.testing) joins the
protocol to a broker without a socket.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from covey.core.errors import ProtocolError
from covey.protocols.stomp.frame import Frame, encode
from covey.protocols.stomp.heartbeat import Heartbeat
from covey.protocols.stomp.line_parser import Limits
from covey.protocols.stomp.parser import FrameParser
from covey.protocols.stomp.versions import Version
from covey.worker.address import Address
from covey.worker.errors import ConnectionLostError, UnreachableError, WorkerError, refusal

VERSION: Final = Version.V1_2
HEARTBEAT_S: Final = 10.0
TIMEOUT_S: Final = 10.0  # for the login, and for the DISCONNECT
FLUSH_BYTES: Final = 262_144  # so much is sent at once, not at the end of the turn

Headers = Iterable[tuple[str, str]]
Dial = Callable[[Address, asyncio.Protocol], Awaitable[None]]
OnMessage = Callable[[dict[str, str], bytes], None]
OnReceipt = Callable[[WorkerError | None], None]


async def dial_tcp(address: Address, protocol: asyncio.Protocol) -> None:
    """Connect over TCP, with TLS if the address says so."""
    context = ssl.create_default_context() if address.is_tls else None
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: protocol, address.host, address.port, ssl=context)


async def open_connection(
    address: Address,
    *,
    dial: Dial = dial_tcp,
    heartbeat_s: float = HEARTBEAT_S,
    timeout_s: float = TIMEOUT_S,
    client_id: str = "",
) -> Connection:
    """Connect and log in; raises UnreachableError, DeniedError or RefusedError."""
    connection = Connection(address, heartbeat_s)
    try:
        async with asyncio.timeout(timeout_s):
            await dial(address, connection)
            await connection.log_in(client_id)
    except TimeoutError as error:
        connection.abort()
        raise UnreachableError(f"{address} does not answer in time") from error
    except OSError as error:
        connection.abort()
        raise UnreachableError(f"no broker answers at {address}: {error}") from error
    except BaseException:
        connection.abort()
        raise
    return connection


class Connection(asyncio.Protocol):
    """A connection to one broker."""

    def __init__(self, address: Address, heartbeat_s: float) -> None:
        """Begin without a transport; `dial` gives it one."""
        self.address = address
        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[WorkerError] = self.loop.create_future()  # the reason
        self._heartbeat_ms = round(heartbeat_s * 1000)
        self._heartbeat: Heartbeat | None = None
        self._beat_timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._parser = FrameParser(Limits())
        self._parser.version = VERSION
        self._connected: asyncio.Future[dict[str, str]] = self.loop.create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self._outbox: list[bytes] = []
        self._outbox_size = 0
        self._receipts: dict[str, OnReceipt] = {}
        self._last_receipt = 0
        self._readers: dict[str, OnMessage] = {}

    @property
    def is_open(self) -> bool:
        """Return True if frames can still be written."""
        return not self.ended.done()

    # What its users do.

    async def log_in(self, client_id: str) -> None:
        """Send CONNECT and wait for the broker's answer."""
        address = self.address
        beat = self._heartbeat_ms
        headers = [
            ("accept-version", VERSION.text),
            ("host", address.virtual_host or address.host),
            ("login", address.user),
            ("passcode", address.password),
            ("heart-beat", f"{beat},{beat}"),
        ]
        self.write("CONNECT", headers + ([("client-id", client_id)] if client_id else []))
        answer = await self._connected
        if beat:
            # The same rule for heart-beats as in the broker, seen from this side.
            now = self.loop.time()
            self._heartbeat = Heartbeat(answer.get("heart-beat"), now, send_ms_min=beat)
            self._beat()

    def write(self, command: str, headers: Headers, body: bytes = b"") -> None:
        """Send a frame, together with all others of this turn."""
        self.write_raw(encode(command, headers, body, VERSION))

    def write_raw(self, frames: bytes) -> None:
        """Send frames that are encoded already; a connection that has ended ignores them."""
        if not self.is_open:
            return
        if not self._outbox:
            self.loop.call_soon(self._flush)
        self._outbox.append(frames)
        self._outbox_size += len(frames)
        if self._outbox_size > FLUSH_BYTES:
            self._flush()

    def on_receipt(self, call: OnReceipt) -> tuple[str, str]:
        """Return a receipt header; `call` gets None when the receipt comes, else the error."""
        self._last_receipt += 1
        name = str(self._last_receipt)
        self.expect(name, call)
        return "receipt", name

    def expect(self, receipt: str, call: OnReceipt) -> None:
        """Wait for a receipt that the caller has named."""
        if self.ended.done():
            call(self.ended.result())
        else:
            self._receipts[receipt] = call

    async def ask(self, command: str, headers: Headers) -> None:
        """Send a frame and return when the broker has handled it."""
        answer: asyncio.Future[None] = self.loop.create_future()
        self.write(command, [*headers, self.on_receipt(answering(answer))])
        await answer

    def read(self, subscription: str, reader: OnMessage) -> None:
        """Let a reader get the messages of a subscription."""
        self._readers[subscription] = reader

    async def room(self) -> None:
        """Return when more can be written."""
        await self._writable.wait()

    async def close(self, timeout_s: float = TIMEOUT_S) -> None:
        """Disconnect; the broker has handled everything sent before when this returns."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.ask("DISCONNECT", [])
        except (TimeoutError, WorkerError):
            pass  # unacknowledged messages return to their places either way
        self._end(ConnectionLostError("the connection was closed"))

    def abort(self) -> None:
        """End the connection without DISCONNECT."""
        self._outbox.clear()
        self._end(ConnectionLostError("the connection was ended"))

    # asyncio's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when the transport is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Handle every frame that the bytes complete."""
        if self._heartbeat is not None:
            self._heartbeat.received(self.loop.time())
        parser = self._parser
        parser.feed(data)
        try:
            while self.is_open and (frame := parser.next_frame()) is not None:
                self._handle(frame)
        except ProtocolError as error:
            self._end(UnreachableError(f"{self.address} does not speak STOMP: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the transport has ended: tell all who wait."""
        cause = f": {exc}" if exc else ""
        self._end(ConnectionLostError(f"{self.address} closed the connection{cause}"))

    def pause_writing(self) -> None:
        """Called when the broker reads too slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Called when the broker has caught up."""
        self._writable.set()

    def _handle(self, frame: Frame) -> None:
        headers = frame.headers(VERSION)
        if frame.command == "MESSAGE":
            reader = self._readers.get(headers.get("subscription", ""))
            if reader is not None:
                reader(headers, frame.body)
        elif frame.command == "RECEIPT":
            call = self._receipts.pop(headers.get("receipt-id", ""), None)
            if call is not None:
                call(None)
        elif frame.command == "CONNECTED" and not self._connected.done():
            self._connected.set_result(headers)
        elif frame.command == "ERROR":
            self._refused(headers)

    def _refused(self, headers: dict[str, str]) -> None:
        error = refusal(headers)
        call = self._receipts.pop(headers.get("receipt-id", ""), None)
        if call is not None:
            call(error)
        self._end(error)

    def _flush(self) -> None:
        if not self._outbox:
            return
        data = b"".join(self._outbox)
        self._outbox.clear()
        self._outbox_size = 0
        if self._transport is not None and self.is_open:
            self._transport.write(data)
            if self._heartbeat is not None:
                self._heartbeat.sent(self.loop.time())

    def _beat(self) -> None:
        """Send a beat if one is due, and end a connection that has been silent for too long."""
        heartbeat = self._heartbeat
        if heartbeat is None or not self.is_open:
            return
        now = self.loop.time()
        if heartbeat.expired(now):
            self._end(ConnectionLostError(f"{self.address} has been silent for too long"))
            return
        if heartbeat.beat_due(now):
            self.write_raw(b"\n")
            heartbeat.sent(now)
        deadline = heartbeat.deadline()
        if deadline is not None:
            self._beat_timer = self.loop.call_at(deadline, self._beat)

    def _end(self, error: WorkerError) -> None:
        if self.ended.done():
            return
        self._flush()
        self.ended.set_result(error)
        if not self._connected.done():
            self._connected.set_exception(error)
            self._connected.exception()  # mark it as seen: perhaps nobody waits for it any more
        if self._beat_timer is not None:
            self._beat_timer.cancel()
        self._writable.set()
        self._readers.clear()
        waiting, self._receipts = self._receipts, {}
        for call in waiting.values():
            call(ConnectionLostError(str(error)))
        if self._transport is not None:
            self._transport.close()


def answering(answer: asyncio.Future[None]) -> OnReceipt:
    """Return a callback that sets a future when its receipt comes, or to the error."""

    def answered(error: WorkerError | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)

    return answered
