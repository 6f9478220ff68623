"""Link: one connection of the load, in any protocol.

This class has all that a run needs of a protocol. Frames are encoded before the clock starts. While
it runs, the bytes that arrive are only cut into complete frames and counted.
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
    """What the generator does, and to which broker."""

    port: int  # STOMP's
    destination: str
    count: int
    size: int
    sender_destination: str = ""  # if the producer must use another name for it
    amqp_port: int = 0
    address: str = "127.0.0.1"  # of the machine
    host: str = "localhost"  # the virtual host a login names
    user: str = "admin"
    password: str = "password"
    sender: str = "stomp"
    receiver: str = "stomp"
    producers: int = 1  # STOMP only; messages are divided among them
    consumers: int = 1
    ack: str = "auto"  # in AMQP "auto" means: sent settled
    is_persistent: bool = False
    is_confirmed: bool = False  # the broker confirms each message, and the window counts that
    is_fan_out: bool = False  # every consumer gets every message
    groups: int = 0
    keeps_groups: bool = True  # False: the broker has no groups, so order is not checked
    window: int = 20_000
    credit: int = 0
    is_ping_pong: bool = False
    rate: float = 0.0  # messages a second in an open loop (`paced`); 0: closed loop
    is_endless: bool = False  # runs until stopped, unchecked: a load beside the measured one


class Link(ABC):
    """A socket and the protocol on it."""

    def __init__(self, address: str, port: int) -> None:
        self.socket = socket.create_connection((address, port), CONNECT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.tail = b""
        self.unsent = memoryview(b"")
        self.room = UNLIMITED  # how many messages the broker accepts in all

    @abstractmethod
    def subscribe(self, job: Job) -> None:
        """Become a consumer, and wait until the broker says so."""

    @abstractmethod
    def sends(self, job: Job) -> list[bytes]:
        """Become a producer, and return its messages as frames."""

    @abstractmethod
    def read(self) -> bytes:
        """Return the complete frames that have arrived."""

    @abstractmethod
    def deliveries(self, frames: bytes) -> int:
        """Count the messages among a consumer's frames."""

    @abstractmethod
    def answer(self, frames: bytes) -> bytes:
        """Return the acknowledgements and credit that a consumer sends for these frames."""

    @abstractmethod
    def confirmations(self, frames: bytes) -> int:
        """Count the messages that the broker has confirmed to a producer; raise on an error."""

    def receive(self) -> bytes:
        """Return the bytes that have arrived."""
        data = self.socket.recv(READ_SIZE)
        if not data:
            raise IncompleteError("the broker closed a connection")
        return self.tail + data if self.tail else data

    def write(self, data: bytes) -> None:
        """Send as much as the socket takes, and keep the rest."""
        self.unsent = memoryview(bytes(self.unsent) + data) if self.unsent else memoryview(data)
        self.flush()

    def flush(self) -> None:
        """Send more of the kept rest."""
        try:
            sent = self.socket.send(self.unsent)
        except BlockingIOError:
            return
        self.unsent = self.unsent[sent:]
