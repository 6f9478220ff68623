"""A job is cut into parts, the parts are worked off anywhere, and their results come together.

    python fan_out_fan_in.py [PORT [HOST]]

The parts have no group: whoever is free takes one. The results have the job as their group: so one
worker at a time adds them up, and its cache holds the sum.
"""

from __future__ import annotations

import asyncio
import sys

from covey.worker import Message, Producer, Worker

PORT = sys.argv[1] if len(sys.argv) > 1 else "61613"
HOST = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
URL = f"covey://admin:password@{HOST}:{PORT}"

JOBS = {"squares": range(1, 11), "large": range(1000, 1003)}

splitter = Worker(URL, queue="example.jobs")
squarer = Worker(URL, queue="example.parts", concurrency=16)
adder = Worker(URL, queue="example.results")
totals: dict[str, int] = {}
finished = asyncio.Event()


@splitter.handler
async def split(message: Message) -> None:
    """Send the parts of a job, all of them with the job's acknowledgement or none."""
    job = message.json()
    for number in job["numbers"]:
        part = {"job": job["name"], "number": number, "parts": len(job["numbers"])}
        message.send("example.parts", part)


@squarer.handler
async def square(message: Message) -> None:
    """Work off one part."""
    part = message.json()
    part["result"] = part["number"] ** 2
    message.send("example.results", part, group=part["job"])


@adder.group_cache
def sums(job: str) -> dict[int, int]:
    """Begin with nothing; a real program would read here what it has stored."""
    return {}


@adder.handler
async def add(message: Message) -> None:
    """Add a part's result; by its number, so that one that comes twice counts once."""
    part = message.json()
    known = await sums(message)
    known[part["number"]] = part["result"]
    if len(known) == part["parts"]:
        totals[part["job"]] = sum(known.values())
        if len(totals) == len(JOBS):
            finished.set()


async def main() -> None:
    """Run the example."""
    async with Producer(URL) as producer, splitter, squarer, adder:
        for name, numbers in JOBS.items():
            await producer.send("example.jobs", {"name": name, "numbers": list(numbers)})
        await asyncio.wait_for(finished.wait(), 30)
    for name in JOBS:
        sys.stdout.write(f"{name}: {totals[name]}\n")


if __name__ == "__main__":
    asyncio.run(main())
