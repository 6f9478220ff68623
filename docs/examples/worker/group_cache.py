"""A cart for each customer, read once and kept while the customer's messages come here.

    python group_cache.py [PORT [HOST]]

The broker gives a customer to one worker at a time. So a worker may keep the cart in memory, until
the customer goes to another worker: then the cache has dropped it already.
"""

from __future__ import annotations

import asyncio
import sys

from covey.worker import Message, Producer, Worker

PORT = sys.argv[1] if len(sys.argv) > 1 else "61613"
HOST = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
URL = f"covey://admin:password@{HOST}:{PORT}"

CUSTOMERS = ["anna", "bert", "cleo"]
ITEMS = ["apple", "bread", "cheese", "dates"]

worker = Worker(URL, queue="example.carts", concurrency=8)
database: dict[str, list[str]] = {}
loads = 0
left = len(CUSTOMERS) * len(ITEMS)
finished = asyncio.Event()


@worker.group_cache
async def carts(customer: str) -> list[str]:
    """Read a cart from the database."""
    global loads
    loads += 1
    return list(database.get(customer, []))


@worker.handler
async def add(message: Message) -> None:
    """Put an item into the customer's cart."""
    global left
    cart = await carts(message)
    cart.append(message.text)
    database[str(message.group)] = list(cart)
    left -= 1
    if not left:
        finished.set()


async def main() -> None:
    """Run the example."""
    async with Producer(URL) as producer, worker:
        for item in ITEMS:
            for customer in CUSTOMERS:
                await producer.send("example.carts", item, group=customer)
        await asyncio.wait_for(finished.wait(), 30)
    for customer in CUSTOMERS:
        sys.stdout.write(f"{customer}: {', '.join(database[customer])}\n")
    sys.stdout.write(f"{len(CUSTOMERS) * len(ITEMS)} messages, at most {loads} loads\n")


if __name__ == "__main__":
    asyncio.run(main())
