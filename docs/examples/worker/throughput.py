"""How many messages a second: covey.worker, a naive loop, and stomp.py alone.

    python throughput.py [PORT [HOST [MESSAGES]]]          needs `pip install stomp.py`

The same messages in 100 groups, once with a handler that does nothing and once with one that waits
for 1 ms, as for a database. Each contender keeps the order within a group. The naive loop takes one
message, handles it, acknowledges it and takes the next; stomp.py handles them in its own thread.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import stomp

from covey.worker import Message, Producer, Worker
from covey.worker.address import parse_addresses
from covey.worker.connection import open_connection

PORT = sys.argv[1] if len(sys.argv) > 1 else "61613"
HOST = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000
URL = f"covey://admin:password@{HOST}:{PORT}"

GROUPS = 100
WAITS = {"nothing": 0.0, "1 ms": 0.001}

Contender = Callable[[str, float], Awaitable[float]]


async def fill(queue: str) -> None:
    """Send the messages."""
    async with Producer(URL) as producer:
        for start in range(0, COUNT, GROUPS):
            groups = range(min(GROUPS, COUNT - start))
            await asyncio.gather(*[producer.send(queue, b"x" * 128, group=f"g{g}") for g in groups])


async def by_worker(queue: str, wait_s: float, batch: int = 1) -> float:
    """Work with covey.worker, 32 at a time."""
    worker = Worker(URL, queue=queue, concurrency=32, batch=batch)
    left = COUNT
    finished = asyncio.Event()

    @worker.handler
    async def handle(given: Message | list[Message]) -> None:
        nonlocal left
        if wait_s:
            await asyncio.sleep(wait_s)
        left -= len(given) if isinstance(given, list) else 1
        if not left:
            finished.set()

    begun = time.perf_counter()
    async with worker:
        await finished.wait()
    return time.perf_counter() - begun


async def by_batches(queue: str, wait_s: float) -> float:
    """Work with covey.worker, 32 batches of up to 50 at a time."""
    return await by_worker(queue, wait_s, batch=50)


async def by_loop(queue: str, wait_s: float) -> float:
    """Take one, handle it, acknowledge it, take the next."""
    connection = await open_connection(parse_addresses(URL)[0])
    inbox: asyncio.Queue[str] = asyncio.Queue()
    connection.read("loop", lambda headers, body: inbox.put_nowait(headers["ack"]))
    wanted = [("id", "loop"), ("destination", f"/queue/{queue}"), ("credit", "1,0")]
    begun = time.perf_counter()
    await connection.ask("SUBSCRIBE", [*wanted, ("ack", "client-individual")])
    for _ in range(COUNT):
        name = await inbox.get()
        if wait_s:
            await asyncio.sleep(wait_s)
        connection.write("ACK", [("id", name)])
    await connection.close()
    return time.perf_counter() - begun


async def by_stomp_py(queue: str, wait_s: float) -> float:
    """Handle messages in stomp.py's receiver thread."""
    finished = threading.Event()
    left = COUNT

    class Listener(stomp.ConnectionListener):  # type: ignore[misc]
        def on_message(self, frame: Any) -> None:
            """Handle one."""
            nonlocal left
            if wait_s:
                time.sleep(wait_s)
            connection.ack(frame.headers["ack"])
            left -= 1
            if not left:
                finished.set()

    connection = stomp.Connection12([(HOST, int(PORT))])
    connection.set_listener("", Listener())
    connection.connect("admin", "password", wait=True)
    begun = time.perf_counter()
    connection.subscribe(f"/queue/{queue}", id="s", ack="client-individual")
    await asyncio.to_thread(finished.wait)
    elapsed = time.perf_counter() - begun
    connection.disconnect()
    return elapsed


CONTENDERS: dict[str, Contender] = {
    "covey.worker": by_worker,
    "covey.worker, batch=50": by_batches,
    "naive loop": by_loop,
    "stomp.py": by_stomp_py,
}


async def main() -> None:
    """Run every contender with every handler."""
    sys.stdout.write(f"| {COUNT} messages, the handler waits for | {' | '.join(WAITS)} |\n")
    for place, (name, contender) in enumerate(CONTENDERS.items()):
        figures = []
        for number, wait_s in enumerate(WAITS.values()):
            queue = f"example.throughput.{place}.{number}"
            await fill(queue)
            figures.append(f"{COUNT / await contender(queue, wait_s):,.0f}/s")
        sys.stdout.write(f"| {name} | {' | '.join(figures)} |\n")


if __name__ == "__main__":
    asyncio.run(main())
