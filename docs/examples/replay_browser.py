"""Look at a queue without taking anything, and again from a place. Needs `pip install stomp.py`.

    python replay_browser.py [PORT [HOST]]

`browser:true` reads what is there and ends with a message that says `browser:end`. `include-seq`
asks for the number of each message, and `from-seq` starts a later look at such a number: a reader
that remembers the last number it saw goes on where it was.
"""

from __future__ import annotations

import queue
import sys
from typing import Any

import stomp

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 61613
HOST = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"

QUEUE = "/queue/example.history"


class Inbox:
    """Gets called by stomp.py's own thread and hands the messages to ours."""

    def __init__(self) -> None:
        self.messages: queue.Queue[Any] = queue.Queue()

    def on_message(self, frame: Any) -> None:
        """Take a message."""
        self.messages.put(frame)


def look(connection: Any, inbox: Inbox, from_seq: int) -> list[tuple[int, str]]:
    """Return number and text of every message from a number on."""
    headers = {"browser": "true", "include-seq": "seq", "from-seq": str(from_seq)}
    connection.subscribe(QUEUE, id="look", headers=headers)
    seen = []
    while True:
        message = inbox.messages.get(timeout=10)
        if message.headers.get("browser") == "end":
            break
        seen.append((int(message.headers["seq"]), str(message.body)))
    connection.unsubscribe("look")
    return seen


def main() -> None:
    """Run the example."""
    inbox = Inbox()
    connection = stomp.Connection12([(HOST, PORT)])
    connection.set_listener("inbox", inbox)
    connection.connect("admin", "password", wait=True)
    for text in ("one", "two", "three", "four"):
        connection.send(QUEUE, text)

    everything = look(connection, inbox, from_seq=0)
    sys.stdout.write(f"all: {', '.join(text for _, text in everything[-4:])}\n")
    third, _ = everything[-2]
    rest = look(connection, inbox, from_seq=third)
    sys.stdout.write(f"from the third on: {', '.join(text for _, text in rest)}\n")
    connection.disconnect()


if __name__ == "__main__":
    main()
