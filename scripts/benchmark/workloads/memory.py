"""Memory: what an idle connection and a waiting message of 1 KiB cost a broker.

The figure is how much the resident set of the broker's processes grows. A fresh broker first gets a
thousand connections that log in and stay idle, then messages into a queue that nobody reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from scripts.benchmark.contender import Contender
from scripts.benchmark.process import Process

from covey.bench.result import Result
from covey.bench.wire import stomp_wire as wire
from covey.bench.wire.link import IncompleteError, Job
from covey.bench.wire.stomp import StompLink

CONNECTIONS: Final = 1000
MESSAGES: Final = 50_000
MESSAGE_SIZE: Final = 1024
WARM_UP: Final = 100  # connections and messages before the measurement: code, pools, a JIT
SETTLED_S: Final = 1.0  # until a garbage collector and a pool of sockets come to rest


def measure(contenders: Sequence[Contender], say: Callable[[str], None]) -> list[Result]:
    """Measure each contender on a process of its own."""
    results = []
    for contender in contenders:
        process = contender.start()
        try:
            found = [_connections(contender, process), _messages(contender, process)]
        except (OSError, IncompleteError) as error:
            found = [Result("memory", contender.name, "bytes", failure=str(error))]
        finally:
            process.stop()
        results += found
        for result in found:
            say(f"{result.case:<32} {result.contender:<16} {result.text()} {result.unit}")
    return results


def _job(contender: Contender, process: Process) -> Job:
    return Job(
        port=process.port,
        destination="/queue/bench.memory",
        count=0,
        size=MESSAGE_SIZE,
        host=contender.host,
        user=contender.user,
        password=contender.password,
    )


def _connections(contender: Contender, process: Process) -> Result:
    job = _job(contender, process)
    links = [StompLink(job) for _ in range(WARM_UP)]
    before = at_rest(process)
    links += [StompLink(job) for _ in range(CONNECTIONS)]
    growth = at_rest(process) - before
    for link in links:
        link.socket.close()
    return Result("memory, idle connection", contender.name, "bytes", [growth / CONNECTIONS])


def _messages(contender: Contender, process: Process) -> Result:
    job = _job(contender, process)
    link = StompLink(job)
    fill(link, wire.send_frames(job.destination, WARM_UP, job.size, 0))
    before = at_rest(process)
    fill(link, wire.send_frames(job.destination, MESSAGES, job.size, 0))
    growth = at_rest(process) - before
    link.socket.close()
    return Result("memory, queued 1 KiB message", contender.name, "bytes", [growth / MESSAGES])


def fill(link: StompLink, frames: list[bytes]) -> None:
    """Send messages; wait for the last one's receipt, which means that the broker has all."""
    last = frames[-1].replace(b"SEND\n", b"SEND\nreceipt:last\n", 1)
    link.socket.sendall(b"".join(frames[:-1]))
    link.ask(last, b"RECEIPT")


def at_rest(process: Process) -> int:
    """Return the resident bytes once the broker is idle."""
    time.sleep(SETTLED_S)
    return process.resident_bytes()
