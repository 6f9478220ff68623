"""Two AMQP workers share the orders of three customers, each customer's in order.

    python ordered_groups_proton.py [PORT [HOST]]

The group-id names the customer. The queue is declared by the address itself, as Qpid's clients do:
a group belongs to the worker that has unsettled messages of it, and to nobody when there are none.
"""

from __future__ import annotations

import sys

from proton import Message
from proton.utils import BlockingConnection, BlockingReceiver

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 5672
HOST = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"

QUEUE = (
    "example.orders; {create: always, node: {x-declare: {arguments:"
    " {'qpid.group_header_key': 'CUSTOMER', 'qpid.shared_msg_group': 1}}}}"
)
CUSTOMERS = ("ada", "bob", "cyd")
STEPS = ("ordered", "paid", "shipped")


def connect() -> BlockingConnection:
    """Connect; on loopback the password may travel in the clear."""
    return BlockingConnection(
        f"amqp://{HOST}:{PORT}", user="admin", password="password", allow_insecure_mechs=True
    )


def work(worker: BlockingReceiver, journal: dict[str, list[str]]) -> None:
    """Take one message, write down what it says, accept it."""
    message = worker.receive(timeout=10)
    assert message.properties is not None
    journal[str(message.properties["CUSTOMER"])].append(str(message.body))
    worker.accept()


def main() -> None:
    """Run the example."""
    connections = [connect(), connect()]
    workers = [each.create_receiver(QUEUE, credit=1) for each in connections]
    sender = connections[0].create_sender(QUEUE)
    for step in STEPS:
        for customer in CUSTOMERS:
            sender.send(Message(body=step, properties={"CUSTOMER": customer}))

    journal: dict[str, list[str]] = {customer: [] for customer in CUSTOMERS}
    for turn in range(len(CUSTOMERS) * len(STEPS)):
        work(workers[turn % 2], journal)
    for customer, steps in journal.items():
        sys.stdout.write(f"{customer}: {', '.join(steps)}\n")
    for connection in connections:
        connection.close()


if __name__ == "__main__":
    main()
