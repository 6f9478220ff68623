"""The smallest worker, for `covey worker run shop:worker`, and how its handler is tested."""

from __future__ import annotations

from covey.worker import Message, Reject, Worker

worker = Worker("covey://admin:password@localhost", queue="orders", concurrency=32)
shipped: list[str] = []


@worker.handler
async def handle(message: Message) -> None:
    """Ship an order that is paid."""
    order = message.json()
    if "item" not in order:
        raise Reject("an order without an item")
    shipped.append(order["item"])
