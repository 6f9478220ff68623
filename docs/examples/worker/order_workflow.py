"""An order's way from queue to queue; each order in order, different orders side by side.

    python order_workflow.py [PORT [HOST]]

`message.send` leaves with the acknowledgement, in one transaction: an order is never in two steps,
and never in none. Paying fails now and then; the order waits for its next try, and nobody else.
"""

from __future__ import annotations

import asyncio
import sys

from covey.worker import Backoff, Message, Producer, Retry, Worker

PORT = sys.argv[1] if len(sys.argv) > 1 else "61613"
HOST = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
URL = f"covey://admin:password@{HOST}:{PORT}"

ORDERS = [f"order-{number}" for number in range(1, 6)]
NEXT = {"pay": "pack", "pack": "ship", "ship": "done"}

worker = Worker(URL, queue="example.workflow", concurrency=8, backoff=Backoff(first_s=0.01))
history: dict[str, list[str]] = {}
finished = asyncio.Event()


@worker.handler
async def step(message: Message) -> None:
    """Do one step of an order, and send it to the next."""
    order, task = str(message.group), message.text
    if task == "pay" and order == "order-3" and not message.redelivered:
        raise Retry("the bank is busy", after=0.05)
    history.setdefault(order, []).append(task)
    following = NEXT[task]
    if following != "done":
        message.send("example.workflow", following, group=order)
    elif all(steps[-1] == "ship" for steps in history.values()) and len(history) == len(ORDERS):
        finished.set()


async def main() -> None:
    """Run the example."""
    async with Producer(URL) as producer, worker:
        for order in ORDERS:
            await producer.send("example.workflow", "pay", group=order)
        await asyncio.wait_for(finished.wait(), 30)
    for order in ORDERS:
        sys.stdout.write(f"{order}: {' > '.join(history[order])}\n")


if __name__ == "__main__":
    asyncio.run(main())
