"""Send a message to a queue, receive it, acknowledge it. Needs `pip install stomp.py`.

    python send_receive_stomp.py [PORT [HOST]]

The subscription uses `ack:client-individual`: a message counts as done when it is acknowledged,
and goes to somebody else if this program dies before that.
"""

from __future__ import annotations

import queue
import sys
from typing import Any

import stomp

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 61613
HOST = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"


class Inbox:
    """Gets called by stomp.py's own thread and hands the messages to ours."""

    def __init__(self) -> None:
        self.messages: queue.Queue[Any] = queue.Queue()

    def on_message(self, frame: Any) -> None:
        """Take a message."""
        self.messages.put(frame)

    def on_error(self, frame: Any) -> None:
        """Say what the broker refused; it closes the connection after that."""
        sys.stderr.write(f"refused: {frame.headers['message']}\n")


def main() -> None:
    """Run the example."""
    inbox = Inbox()
    connection = stomp.Connection12([(HOST, PORT)], heartbeats=(10_000, 10_000))
    connection.set_listener("inbox", inbox)
    connection.connect("admin", "password", wait=True)

    connection.subscribe("/queue/example.work", id="worker", ack="client-individual")
    connection.send("/queue/example.work", "hello", persistent="true")

    message = inbox.messages.get(timeout=10)
    sys.stdout.write(f"received: {message.body}\n")
    connection.ack(message.headers["ack"])
    connection.disconnect()


if __name__ == "__main__":
    main()
