"""Uneven work: orders of many customers, a few of whom order most; workers come and go.

    python uneven_work.py [PORT [ORDERS]]

Traffic for the data pipeline to look at. Each order is of its customer's group, takes a worker a
millisecond, and is passed on to `orders.done`. Four workers begin; after a third of the orders a
fifth joins, and after two thirds the first one leaves with orders in its hands.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable

from covey.client.place import Place
from covey.client.stomp import StompClient

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 61613
ORDERS = int(sys.argv[2]) if len(sys.argv) > 2 else 3000
CUSTOMERS = 300
WORKERS = 4
WORK_S = 0.001
CREDIT = ("credit", "10,0")


def connect() -> StompClient:
    """Open a connection."""
    return StompClient(Place("127.0.0.1", PORT, "admin", "password"))


class Worker(threading.Thread):
    """Handles orders one by one until it is told to leave."""

    def __init__(self, handled: Callable[[bytes], None]) -> None:
        super().__init__()
        self.handled = handled
        self.is_leaving = False

    def run(self) -> None:
        """Work; what is unacknowledged when the connection ends goes to others."""
        with connect() as client:
            client.subscribe("/queue/orders", [("ack", "client-individual"), CREDIT])
            while not self.is_leaving:
                order = client.message(0.1)
                if order is None:
                    continue
                time.sleep(WORK_S)
                kept = [(name, order.headers[name]) for name in ("message_group", "timestamp")]
                client.send("/queue/orders.done", [*kept, ("persistent", "true")], order.body)
                client.ack(order)
                self.handled(order.body)
            client.confirm()


class Shop:
    """Who works, and what is done."""

    def __init__(self) -> None:
        self.done: set[bytes] = set()
        self.is_done = threading.Event()
        self.workers: list[Worker] = []

    def hire(self) -> None:
        """Let one more worker begin."""
        self.workers.append(Worker(self.handled))
        self.workers[-1].start()

    def handled(self, order: bytes) -> None:
        """Note an order, which may come twice if its worker left."""
        self.done.add(order)
        if len(self.done) == ORDERS:
            self.is_done.set()


def send(shop: Shop) -> None:
    """Send all orders, a little faster than four workers can handle them."""
    chance = random.Random(7)
    weights = [1 / rank for rank in range(1, CUSTOMERS + 1)]
    customers = chance.choices(range(CUSTOMERS), weights, k=ORDERS)
    with connect() as client:
        for number, customer in enumerate(customers):
            if number == ORDERS // 3:
                shop.hire()
            if number == ORDERS * 2 // 3:
                shop.workers[0].is_leaving = True
            headers = [("message_group", f"customer-{customer}")]
            headers.append(("timestamp", str(int(time.time() * 1000))))
            client.send("/queue/orders", headers, b"%d" % number)
            time.sleep(WORK_S / (WORKERS + 1))


def main() -> None:
    """Run the example."""
    shop = Shop()
    for _ in range(WORKERS):
        shop.hire()
    send(shop)
    shop.is_done.wait(60)
    for worker in shop.workers:
        worker.is_leaving = True
        worker.join()
    sys.stdout.write(f"{len(shop.done)} orders are done\n")


if __name__ == "__main__":
    main()
