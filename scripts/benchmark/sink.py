"""Sink: the fastest possible broker, because it does nothing. It shows the generator's own limit.

One replacement on all bytes of a read turns each SEND into a MESSAGE. It goes to the next consumer
in turn, or to all consumers of a topic. No frame is parsed, nothing is kept, acknowledgements are
ignored. If a real broker's figure is near the sink's, it measures the generator, not the broker.

    python -m scripts.benchmark.sink PORT
"""

from __future__ import annotations

import selectors
import socket
import sys

READ_SIZE = 256 * 1024
MESSAGE = b"MESSAGE\nsubscription:1\nmessage-id:sink-1\nack:1\n"
CONNECTED = b"CONNECTED\nversion:1.2\n\n\0"
RECEIPT = b"RECEIPT\nreceipt-id:subscribed\n\n\0"


class Client:
    """One connection to the sink."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.tail = b""
        self.is_subscribed = False

    def read(self) -> bytes | None:
        """Return the whole frames that arrived; None at the end."""
        data = self.link.recv(READ_SIZE)
        if not data:
            return None
        data = self.tail + data
        cut = data.rfind(b"\0") + 1
        self.tail = data[cut:]
        return data[:cut]


class Sink:
    """Sends every message back."""

    def __init__(self, port: int) -> None:
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", port))
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.clients: list[Client] = []
        self.turn = 0

    def serve(self) -> None:
        """Serve until killed."""
        while True:
            for key, _ in self.selector.select():
                if key.data is None:
                    link, _ = self.listener.accept()
                    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self.selector.register(link, selectors.EVENT_READ, Client(link))
                elif isinstance(key.data, Client):
                    self._hear(key.data)

    def _hear(self, client: Client) -> None:
        try:
            frames = client.read()
        except ConnectionResetError:
            frames = None
        if frames is None:
            self._drop(client)
        elif frames.startswith(b"SEND"):
            self._deal(frames)
        elif frames.startswith(b"CONNECT"):
            client.link.sendall(CONNECTED)
        elif frames.startswith(b"SUBSCRIBE"):
            self.clients.append(client)
            client.link.sendall(RECEIPT)

    def _deal(self, frames: bytes) -> None:
        messages = frames.replace(b"SEND\n", MESSAGE)
        if b"destination:/topic/" in frames[:64]:
            for client in self.clients:
                client.link.sendall(messages)
            return
        self.turn += 1
        self.clients[self.turn % len(self.clients)].link.sendall(messages)

    def _drop(self, client: Client) -> None:
        self.selector.unregister(client.link)
        client.link.close()
        if client in self.clients:
            self.clients.remove(client)


if __name__ == "__main__":
    Sink(int(sys.argv[1])).serve()
