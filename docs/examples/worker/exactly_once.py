"""Each message changes the database once, whatever dies when: its id is in the same transaction.

    python exactly_once.py [PORT [HOST [DATABASE]]]

The broker delivers a message again if it has not heard the acknowledgement. So the handler writes
the message's id into the same transaction as its effect: a second try finds the id and does
nothing. The sender's id makes it work from end to end: a message that is sent twice is one id.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from contextlib import closing

from covey.worker import Message, Producer, Worker

PORT = sys.argv[1] if len(sys.argv) > 1 else "61613"
HOST = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
URL = f"covey://admin:password@{HOST}:{PORT}"
QUEUE = "example.accounts"

TABLES = """
CREATE TABLE IF NOT EXISTS done (id TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, balance INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS entries (place INTEGER PRIMARY KEY, name TEXT, amount INTEGER);
"""


def open_book(path: str) -> sqlite3.Connection:
    """Open the database; several workers may share it."""
    book = sqlite3.connect(path, timeout=30, isolation_level=None)
    book.execute("PRAGMA journal_mode = WAL")
    book.executescript(TABLES)
    return book


def book_once(book: sqlite3.Connection, message: Message) -> bool:
    """Book a message's amount, unless it was booked before; False: it was."""
    book.execute("BEGIN IMMEDIATE")
    try:
        fresh = book.execute("INSERT OR IGNORE INTO done VALUES (?)", [message.id]).rowcount == 1
        if fresh:
            name, amount = str(message.group), int(message.text)
            book.execute(
                "INSERT INTO accounts VALUES (?, ?)"
                " ON CONFLICT (name) DO UPDATE SET balance = balance + excluded.balance",
                [name, amount],
            )
            book.execute("INSERT INTO entries (name, amount) VALUES (?, ?)", [name, amount])
        book.execute("COMMIT")
    except BaseException:
        book.execute("ROLLBACK")
        raise
    return fresh


def make_worker(url: str, path: str, queue: str = QUEUE, concurrency: int = 32) -> Worker:
    """Make a worker that books what comes."""
    worker = Worker(url, queue=queue, concurrency=concurrency)
    book = open_book(path)

    @worker.handler
    async def handle(message: Message) -> None:
        book_once(book, message)  # a local file: quicker than a thread's way there and back

    return worker


async def main() -> None:
    """Run the example."""
    path = sys.argv[3] if len(sys.argv) > 3 else ":memory:"
    worker = Worker(URL, queue=QUEUE, concurrency=8)
    seen = 0
    finished = asyncio.Event()
    with closing(open_book(path)) as book:

        @worker.handler
        async def handle(message: Message) -> None:
            nonlocal seen
            book_once(book, message)
            seen += 1
            if seen == 7:
                finished.set()

        async with Producer(URL) as producer, worker:
            for name, amount in [("anna", 100), ("bert", 50), ("anna", -30), ("bert", 5)]:
                await producer.send(QUEUE, str(amount), group=name)
            for _ in range(3):  # a sender that is not sure sends again, with the same id
                await producer.send(QUEUE, "7", group="cleo", id="the same one")
            await asyncio.wait_for(finished.wait(), 30)
        for name, balance in book.execute("SELECT name, balance FROM accounts ORDER BY name"):
            sys.stdout.write(f"{name}: {balance}\n")


if __name__ == "__main__":
    asyncio.run(main())
