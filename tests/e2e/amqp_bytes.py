"""A client that knows AMQP 1.0 frames and nothing of what may be said when.

Everything is written by hand, field by field, so that a test can say what no library would.
"""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import NamedTuple, Self

from covey.protocols.amqp.codec import decoder, encoder
from covey.protocols.amqp.codec.encoder import FALSE, NULL, TRUE, compound, section, string, uint
from tests.e2e.support import HOST, LOGIN, PASSCODE, TIMEOUT_S

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
HEADER_SIZE = 8

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION = 0x10, 0x11, 0x12, 0x13, 0x14, 0x15
DETACH, END, CLOSE = 0x16, 0x17, 0x18
SASL_MECHANISMS, SASL_INIT, SASL_OUTCOME = 0x40, 0x41, 0x44
SOURCE, TARGET, ERROR = 0x28, 0x29, 0x1D
ACCEPTED, DATA = 0x24, 0x75
ENDINGS = {DETACH: 2, END: 0, CLOSE: 0}  # where each has its error

WINDOW = uint(2**31 - 1)
CREDIT = 100


class Heard(NamedTuple):
    """One frame of the broker's."""

    code: int
    fields: list[object]

    @property
    def condition(self) -> str:
        """Return the condition it ends something with, "" for none."""
        place = ENDINGS.get(self.code, len(self.fields))
        error = self.fields[place] if place < len(self.fields) else None
        if not isinstance(error, decoder.Described) or not isinstance(error.value, list):
            return ""
        return str(error.value[0])


def performative(code: int, *fields: bytes) -> bytes:
    """Write a performative of encoded fields."""
    return section(code, compound(fields))


def frame(body: bytes, *, channel: int = 0, kind: int = 0) -> bytes:
    """Write a frame."""
    return struct.pack(">IBBH", len(body) + HEADER_SIZE, 2, kind, channel) + body


def says(code: int, *fields: bytes, channel: int = 0, payload: bytes = b"") -> bytes:
    """Write a frame with one performative."""
    return frame(performative(code, *fields) + payload, channel=channel)


def opening(
    *,
    container: str = "odd",
    hostname: str = "",
    frame_size: int = 65536,
    idle_ms: int | None = None,
) -> bytes:
    """Write an open."""
    idle = NULL if idle_ms is None else uint(idle_ms)
    host = string(hostname) if hostname else NULL
    return says(OPEN, string(container), host, uint(frame_size), NULL, idle)


def beginning(*, channel: int = 0) -> bytes:
    """Write a begin."""
    return says(BEGIN, NULL, uint(0), WINDOW, WINDOW, channel=channel)


def attaching(
    name: str,
    handle: int,
    address: str,
    *,
    sends: bool,
    settle_mode: int = 2,
    rest: tuple[bytes, ...] = (),
) -> bytes:
    """Write an attach of a link that sends to an address or receives from one."""
    place = compound([string(address)])
    ends = (NULL, section(TARGET, place)) if sends else (section(SOURCE, place), NULL)
    role = FALSE if sends else TRUE
    modes = (bytes((0x50, settle_mode)), b"\x50\x00")
    count = uint(0) if sends else NULL
    return says(ATTACH, string(name), uint(handle), role, *modes, *ends, NULL, NULL, count, *rest)


def granting(handle: int, credit: int = CREDIT) -> bytes:
    """Write a flow that gives a link credit."""
    return says(FLOW, uint(0), WINDOW, uint(0), WINDOW, uint(handle), uint(0), uint(credit))


def transferring(
    handle: int, number: int, content: bytes, *, settled: bool = False, message: bytes = b""
) -> bytes:
    """Write a transfer of a message in one frame."""
    payload = message or section(DATA, encoder.binary(content))
    tag = encoder.binary(b"%d" % number)
    fields = (uint(handle), uint(number), tag, uint(0), encoder.boolean(settled))
    return says(TRANSFER, *fields, payload=payload)


def accepting(first: int, last: int, *, receives: bool = True) -> bytes:
    """Write a disposition that accepts and settles a range."""
    role = TRUE if receives else FALSE
    state = section(ACCEPTED, compound([]))
    return says(DISPOSITION, role, uint(first), uint(last), TRUE, state)


class AmqpBytes:
    """A socket that speaks AMQP frames, or whatever bytes a test wants."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), TIMEOUT_S)
        self._data = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def log_in(self) -> Self:
        """Log in, and say the header of what follows."""
        self.socket.sendall(SASL_HEADER + sasl_init("PLAIN", f"\0{LOGIN}\0{PASSCODE}".encode()))
        self.header()
        assert self.until(SASL_OUTCOME).fields[0] == 0
        self.socket.sendall(AMQP_HEADER)
        return self

    def open(self) -> Self:
        """Log in, open, and begin a session on channel 0."""
        self.log_in()
        self.say(opening(), beginning())
        self.header()
        self.until(BEGIN)
        return self

    def say(self, *frames: bytes) -> None:
        """Send frames."""
        self.socket.sendall(b"".join(frames))

    def header(self) -> bytes:
        """Read the header of a protocol."""
        return self._take(HEADER_SIZE)

    def heard(self) -> Heard | None:
        """Read the next frame that is no heart-beat; None when the broker has closed."""
        while True:
            try:
                (size,) = struct.unpack(">I", self._take(4))
                body = self._take(size - 4)[4:]
            except (EOFError, ConnectionResetError):
                return None
            if body:
                found = decoder.decode(body)
                assert isinstance(found, decoder.Described) and isinstance(found.descriptor, int)
                fields = found.value if isinstance(found.value, list) else []
                return Heard(found.descriptor, fields)

    def until(self, code: int) -> Heard:
        """Read up to a frame of this kind."""
        while (heard := self.heard()) is not None:
            if heard.code == code:
                return heard
        raise EOFError(f"the broker closed before a frame {code:#x}")

    def until_closed(self) -> list[Heard]:
        """Read every frame up to the close of the socket."""
        frames = []
        while (heard := self.heard()) is not None:
            frames.append(heard)
        return frames

    def condition(self) -> str:
        """Read up to the broker's close and return its condition."""
        return self.until(CLOSE).condition

    def _take(self, size: int) -> bytes:
        while len(self._data) < size:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError("the broker closed the connection")
            self._data += data
        taken, self._data = self._data[:size], self._data[size:]
        return taken


def sasl_init(mechanism: str, response: bytes | None, *, hostname: str = "") -> bytes:
    """Write the client's part of a login in one step."""
    answer = NULL if response is None else encoder.binary(response)
    host = string(hostname) if hostname else NULL
    body = performative(SASL_INIT, encoder.symbol(mechanism), answer, host)
    return frame(body, kind=1)
