"""Two workers share a queue; each customer's orders stay in order. Needs `pip install stomp.py`.

    python ordered_groups_stomp.py [PORT [HOST]]

`message_group` names what must stay in order. The broker gives every group to one worker at a time,
so that a customer's second order is never handled before, or beside, the first one, while
different customers are handled in parallel.
"""

from __future__ import annotations

import queue
import sys
from typing import Any

import stomp

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 61613
HOST = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"

QUEUE = "/queue/example.orders"
CUSTOMERS = ["anna", "bert", "cleo", "dora", "emil", "fritz"]
STEPS = ["ordered", "paid", "shipped"]


def connect() -> Any:
    """Open a connection."""
    connection = stomp.Connection12([(HOST, PORT)])
    connection.connect("admin", "password", wait=True)
    return connection


class Worker:
    """Handles what it gets, one by one, and acknowledges it."""

    def __init__(self, name: str, done: queue.Queue[tuple[str, str, str]]) -> None:
        self.name = name
        self.done = done
        self.connection = connect()
        self.connection.set_listener("worker", self)
        self.connection.subscribe(QUEUE, id=name, ack="client-individual")

    def on_message(self, frame: Any) -> None:
        """Handle an order; until the acknowledgement its customer stays with this worker."""
        self.done.put((frame.headers["message_group"], frame.body, self.name))
        self.connection.ack(frame.headers["ack"])


def main() -> None:
    """Run the example."""
    done: queue.Queue[tuple[str, str, str]] = queue.Queue()
    workers = [Worker(name, done) for name in ("worker-1", "worker-2")]
    sender = connect()
    for step in STEPS:
        for customer in CUSTOMERS:
            sender.send(QUEUE, step, message_group=customer)

    history: dict[str, list[tuple[str, str]]] = {}
    for _ in range(len(STEPS) * len(CUSTOMERS)):
        customer, step, worker = done.get(timeout=10)
        history.setdefault(customer, []).append((step, worker))
    for customer in CUSTOMERS:
        steps = " > ".join(f"{step} ({worker})" for step, worker in history[customer])
        sys.stdout.write(f"{customer}: {steps}\n")
    for connection in (sender, *(worker.connection for worker in workers)):
        connection.disconnect()


if __name__ == "__main__":
    main()
