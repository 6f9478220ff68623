"""Send a message to a queue, receive it, accept it. Needs `pip install python-qpid-proton`.

    python send_receive_proton.py [PORT [HOST]]

`durable` makes the message survive a restart of the broker; `send` returns once it is on disk. The
message counts as done when it is accepted, and goes to somebody else if this program dies first.
"""

from __future__ import annotations

import sys

from proton import Message
from proton.utils import BlockingConnection

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 5672
HOST = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"


def main() -> None:
    """Run the example."""
    connection = BlockingConnection(
        f"amqp://{HOST}:{PORT}",
        user="admin",
        password="password",
        allow_insecure_mechs=True,  # the password travels in the clear: on loopback only
    )
    sender = connection.create_sender("example.proton")
    sender.send(Message(body="hello", durable=True))

    receiver = connection.create_receiver("example.proton")
    message = receiver.receive(timeout=10)
    sys.stdout.write(f"received: {message.body}\n")
    receiver.accept()
    connection.close()


if __name__ == "__main__":
    main()
