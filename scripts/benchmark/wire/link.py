"""Link: one connection of the load, whatever it speaks.

All that a run asks of a protocol is here; the bytes are written before the clock starts, and what
arrives is only cut into whole frames and counted while it runs.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass

READ_SIZE = 256 * 1024
CONNECT_S = 10.0
UNLIMITED = 1_000_000_000


class IncompleteError(Exception):
    """A run lost, doubled or reordered messages, or was refused: its figure means nothing."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to do to which broker."""

    port: int  # STOMP's
    destination: str
    count: int
    size: int
    sender_destination: str = ""  # where the producer must call it something else
    amqp_port: int = 0
    host: str = "localhost"  # the virtual host a login names
    user: str = "admin"
    password: str = "password"
    sender: str = "stomp"
    receiver: str = "stomp"
    producers: int = 1  # of STOMP; what they send is dealt out to them
    consumers: int = 1
    ack: str = "auto"  # in AMQP's words: sent settled
    is_persistent: bool = False
    is_confirmed: bool = False  # the broker answers for each message; the window counts answers
    is_fan_out: bool = False  # every consumer gets every message
    groups: int = 0
    keeps_groups: bool = True  # else the broker knows no groups, and order is not asked of it
    window: int = 20_000
    credit: int = 0
    is_ping_pong: bool = False
    rate: float = 0.0  # messages a second, each at its time, whatever the broker does (`paced`)
    is_endless: bool = False  # until told to stop, unchecked: a load beside the measured one


class Link(ABC):
    """A socket and the protocol on it."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), CONNECT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.tail = b""
        self.unsent = memoryview(b"")
        self.room = UNLIMITED  # messages the broker is willing to take in all

    @abstractmethod
    def subscribe(self, job: Job) -> None:
        """Become a consumer, and wait until the broker says so."""

    @abstractmethod
    def sends(self, job: Job) -> list[bytes]:
        """Become a producer, and write all its messages."""

    @abstractmethod
    def read(self) -> bytes:
        """Return the whole frames that have arrived."""

    @abstractmethod
    def deliveries(self, frames: bytes) -> int:
        """Count the messages among a consumer's frames."""

    @abstractmethod
    def answer(self, frames: bytes) -> bytes:
        """Write what a consumer owes the broker for them."""

    @abstractmethod
    def confirmations(self, frames: bytes) -> int:
        """Count the messages that a producer's frames say are taken; raise at anything bad."""

    def receive(self) -> bytes:
        """Return what has arrived."""
        data = self.socket.recv(READ_SIZE)
        if not data:
            raise IncompleteError("the broker closed a connection")
        return self.tail + data if self.tail else data

    def write(self, data: bytes) -> None:
        """Send as much as the socket takes, and keep the rest."""
        self.unsent = memoryview(bytes(self.unsent) + data) if self.unsent else memoryview(data)
        self.flush()

    def flush(self) -> None:
        """Send on."""
        try:
            sent = self.socket.send(self.unsent)
        except BlockingIOError:
            return
        self.unsent = self.unsent[sent:]
