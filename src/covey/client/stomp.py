"""STOMP client: small, blocking, on the broker's own frame codec; for commands and scripts.

It has one connection, STOMP 1.2, without heart-beats. `send` does not wait. `confirm` waits until
the broker has handled everything before it, and stored persistent messages. `message` waits for the
next delivery. An ERROR frame ends the connection and is raised: DeniedError for a missing
permission or a wrong password, AnswerError for all others.
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Iterable
from typing import Final

from covey.client.base import TIMEOUT_S, Delivery, Headers, MessageClient
from covey.client.errors import (
    AnswerError,
    DeniedError,
    StrangerError,
    UnreachableError,
    misunderstood,
    unreached,
    without_tls,
    wordless,
)
from covey.client.place import Place
from covey.core.errors import ProtocolError
from covey.protocols.stomp.frame import Frame, encode
from covey.protocols.stomp.line_parser import Limits
from covey.protocols.stomp.parser import FrameParser
from covey.protocols.stomp.versions import Version

PORT: Final = 61613
READ_BYTES: Final = 256 * 1024
VERSION: Final = Version.V1_2
SUBSCRIPTION: Final = "covey"  # a command reads one destination only
# Headers that the broker adds to one delivery. A copy of the message must not carry them.
DELIVERY_HEADERS: Final = frozenset(
    "destination message-id covey-message-id subscription ack content-length redelivered"
    " JMSXGroupFirstForConsumer".split()
)


class StompClient(MessageClient):
    """A connection to one broker."""

    def __init__(
        self, place: Place, timeout_s: float = TIMEOUT_S, limits: Limits | None = None
    ) -> None:
        """Connect and log in, or raise UnreachableError or DeniedError."""
        self.place = place
        self.timeout_s = timeout_s
        self._receipts = 0
        self._has_heard = False  # whether the broker has sent anything at all
        self._inbox: deque[Delivery] = deque()
        self._parser = FrameParser(limits or Limits())
        self._parser.version = VERSION
        try:
            self._socket = _connect(place, timeout_s)
        except ssl.SSLCertVerificationError as error:
            reason = error.verify_message
            raise StrangerError(f"{place.address} is not trusted: {reason}") from error
        except ssl.SSLError as error:
            raise without_tls(place) from error
        except OSError as error:
            raise unreached(place, error) from error
        self._log_in()

    def close(self) -> None:
        """Disconnect; unacknowledged messages go to other consumers."""
        self._socket.close()

    def send(self, destination: str, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        """Send a message."""
        self._write("SEND", [("destination", destination), *headers], body)

    def confirm(self) -> None:
        """Wait until the broker has handled everything sent so far."""
        self.begin("confirm")
        self._write("ABORT", [("transaction", "confirm"), ("receipt", self._next_receipt())])
        self._wait_for_receipt()

    def subscribe(self, destination: str, headers: Iterable[tuple[str, str]]) -> None:
        """Subscribe to a destination; returns when the broker has confirmed."""
        named = [("id", SUBSCRIPTION), ("destination", destination)]
        self._write("SUBSCRIBE", [*named, *headers, ("receipt", self._next_receipt())])
        self._wait_for_receipt()

    def message(self, timeout_s: float | None) -> Delivery | None:
        """Return the next message, or None if none comes in time; no timeout waits for ever."""
        if self._inbox:
            return self._inbox.popleft()
        while True:
            frame = self._frame(timeout_s)
            if frame is None:
                return None
            if frame.command == "MESSAGE":
                return _delivery(frame)

    def ack(self, delivery: Delivery, *, transaction: str = "", credit: int = 0) -> None:
        """Acknowledge a message; `credit` adds to a window that acknowledgements do not reopen."""
        extra = [("transaction", transaction)] if transaction else []
        extra += [("credit", str(credit))] if credit else []
        self._write("ACK", [("id", delivery.headers["ack"]), *extra])

    def begin(self, transaction: str) -> None:
        """Start a transaction."""
        self._write("BEGIN", [("transaction", transaction)])

    def commit(self, transaction: str) -> None:
        """Commit a transaction; returns when the broker has done all of it."""
        receipt = ("receipt", self._next_receipt())
        self._write("COMMIT", [("transaction", transaction), receipt])
        self._wait_for_receipt()

    def _log_in(self) -> None:
        place = self.place
        login = [("login", place.user), ("passcode", place.password or "")]
        host = ("host", place.virtual_host or place.host)
        # The broker gives up before we do, and says what the message has waited for.
        wait = ("covey-wait-ms", str(int(self.timeout_s * 500)))
        self._write("CONNECT", [("accept-version", "1.2"), host, *login, wait])
        frame = self._frame(self.timeout_s)
        if frame is None or frame.command != "CONNECTED":
            raise UnreachableError(f"{place.address} does not speak STOMP")

    def _write(self, command: str, headers: Headers, body: bytes = b"") -> None:
        try:
            self._socket.sendall(encode(command, headers, body, VERSION))
        except OSError as error:
            # An ERROR frame with the reason may have come before the connection broke.
            self._frame(self.timeout_s)
            raise UnreachableError(f"{self.place.address} closed the connection") from error

    def _next_receipt(self) -> str:
        self._receipts += 1
        return str(self._receipts)

    def _wait_for_receipt(self) -> None:
        while True:
            frame = self._frame(self.timeout_s)
            if frame is None:
                raise UnreachableError(f"{self.place.address} has not answered in time")
            if frame.command == "MESSAGE":
                self._inbox.append(_delivery(frame))
            elif frame.headers(VERSION).get("receipt-id") == str(self._receipts):
                return

    def _frame(self, timeout_s: float | None) -> Frame | None:
        """Return the next frame; None if none comes in time."""
        data: bytes | None = b""
        try:
            while (frame := self._parser.next_frame()) is None:
                data = self._receive(timeout_s)
                if data is None:
                    return None
                self._parser.feed(data)
        except ProtocolError as error:
            stranger = misunderstood(self.place, "STOMP", data or b"")
            raise stranger or UnreachableError(f"{self.place.address}: {error}") from error
        if frame.command == "ERROR":
            raise _refusal(frame)
        return frame

    def _receive(self, timeout_s: float | None) -> bytes | None:
        """Return the bytes that have come; None if none come in time."""
        try:
            self._socket.settimeout(timeout_s)
            data = self._socket.recv(READ_BYTES)
        except TimeoutError:
            return None
        except OSError as error:
            raise UnreachableError(f"{self.place.address}: {error}") from error
        if not data and not self._has_heard and not self.place.is_tls:
            raise wordless(self.place)
        if not data:
            raise UnreachableError(f"{self.place.address} closed the connection")
        self._has_heard = True
        return data


def own_headers(delivery: Delivery) -> Headers:
    """Return the producer's headers, without those that belong to this delivery."""
    return [pair for pair in delivery.headers.items() if pair[0] not in DELIVERY_HEADERS]


def _delivery(frame: Frame) -> Delivery:
    return Delivery(frame.headers(VERSION), frame.body)


def _connect(place: Place, timeout_s: float) -> socket.socket:
    plain = socket.create_connection((place.host, place.port), timeout_s)
    # Else the second of two short frames would wait for TCP's delayed acknowledgement of the first.
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not place.is_tls:
        return plain
    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=place.host)
    except OSError:
        plain.close()
        raise


def _refusal(frame: Frame) -> Exception:
    headers = frame.headers(VERSION)
    text = headers.get("message", "refused")
    return DeniedError(text) if headers.get("covey-code") == "denied" else AnswerError(text)
