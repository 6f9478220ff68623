"""Ask a question and get the answer on a queue of one's own. Needs `pip install stomp.py`.

    python request_reply_stomp.py [PORT [HOST]]

`/temp-queue/answers` belongs to the connection that uses it and is gone with it. The broker writes
its real name into `reply-to`, so that the other side can send there.
"""

from __future__ import annotations

import queue
import sys
from typing import Any

import stomp

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 61613
HOST = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"

QUESTIONS = "/queue/example.questions"
ANSWERS = "/temp-queue/answers"


def connect(listener: object) -> Any:
    """Open a connection."""
    connection = stomp.Connection12([(HOST, PORT)])
    connection.set_listener("example", listener)
    connection.connect("admin", "password", wait=True)
    return connection


class Service:
    """Answers every question where its `reply-to` says."""

    def __init__(self) -> None:
        self.connection = connect(self)
        self.connection.subscribe(QUESTIONS, id="service", ack="client-individual")

    def on_message(self, frame: Any) -> None:
        """Answer in upper case; the number tells the asker which question it was."""
        headers = frame.headers
        number = headers["correlation-id"]
        self.connection.send(
            headers["reply-to"], frame.body.upper(), headers={"correlation-id": number}
        )
        self.connection.ack(headers["ack"])


class Asker:
    """Asks, and waits for the answers."""

    def __init__(self) -> None:
        self.answers: queue.Queue[Any] = queue.Queue()
        self.connection = connect(self)
        self.connection.subscribe(ANSWERS, id="answers")

    def on_message(self, frame: Any) -> None:
        """Take an answer."""
        self.answers.put(frame)

    def ask(self, number: int, question: str) -> str:
        """Send a question and wait for its answer."""
        headers = {"reply-to": ANSWERS, "correlation-id": str(number)}
        self.connection.send(QUESTIONS, question, headers=headers)
        answer = self.answers.get(timeout=10)
        assert answer.headers["correlation-id"] == str(number)
        return str(answer.body)


def main() -> None:
    """Run the example."""
    service, asker = Service(), Asker()
    for number, question in enumerate(["is anybody there?", "what is two and two?"]):
        sys.stdout.write(f"{question} {asker.ask(number, question)}\n")
    for connection in (asker.connection, service.connection):
        connection.disconnect()


if __name__ == "__main__":
    main()
