"""Backlog: a long queue of persistent messages, a kill, a restart, and how fast it drains.

Each build gets a fresh process. The steps are:

- measure the rate of a nearly empty queue, with a producer and a consumer at work;
- fill the queue, and measure the broker's memory;
- send SIGKILL, restart, and measure the time until the broker listens again;
- measure its memory, which does not include the bodies;
- drain a million messages of the queue by the same kind of consumer.

`--scale 10` makes it ten million. Every message expires in a day and belongs to one of many groups,
100,000 at most, because such messages cost most beyond the window. The figure is the drain's rate.
All others are its notes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Final

from scripts.benchmark.contender import Covey
from scripts.benchmark.process import Process
from scripts.benchmark.workloads.memory import at_rest, fill

from covey.bench.flows import CREDIT, RATE
from covey.bench.generator import generate
from covey.bench.result import Result
from covey.bench.wire import stomp_wire as wire
from covey.bench.wire.link import IncompleteError, Job
from covey.bench.wire.stomp import StompLink

MESSAGES: Final = 1_000_000
FLOW_MESSAGES: Final = 40_000  # through the nearly empty queue
DRAINED: Final = 1_000_000  # so many at most: all of ten million would take minutes
MESSAGES_PER_GROUP: Final = 10  # of each portion
GROUPS_MAX: Final = 100_000
CHUNK: Final = 10_000  # messages written at a time: a million would be a gigabyte
HEADER: Final = b"persistent:true\nttl:86400000\n"
NOTES: Final = {
    "empty_queue_per_s": "{:,.0f}/s on an empty queue",
    "filled_per_s": "filled at {:,.0f}/s",
    "filled_bytes": "{:,.0f} bytes resident then",
    "start_s": "{:.1f} s to listen again",
    "resident_bytes": "{:,.0f} bytes resident after it",
    "bytes_per_message": "{:.0f} of them a message",
}


def measure(builds: Sequence[Covey], scale: float, say: Callable[[str], None]) -> list[Result]:
    """Measure each build once, because the fill takes long."""
    results = []
    for build in builds:
        count = max(CHUNK, int(MESSAGES * scale) // CHUNK * CHUNK)
        result = Result(f"backlog {count:,}, drain", build.name, RATE)
        process = build.start()
        try:
            _measure(process, count, min(1.0, scale * 10), result)
        except (OSError, IncompleteError, RuntimeError) as error:
            result.failure = str(error)
        finally:
            process.stop()
        results.append(result)
        notes = [text.format(result.notes[name]) for name, text in NOTES.items() if result.notes]
        say(f"{result.case:<32} {result.contender:<16} {result.text()} {', '.join(notes)}")
    return results


def _measure(process: Process, count: int, flow_scale: float, result: Result) -> None:
    job = Job(
        port=process.port,
        destination="/queue/bench.backlog",
        count=count,
        size=1024,
        ack="client-individual",
        credit=CREDIT,
        is_persistent=True,
        groups=max(1, CHUNK // MESSAGES_PER_GROUP),
    )
    empty = at_rest(process)
    flow_count = int(FLOW_MESSAGES * flow_scale)
    flow = replace(job, destination="/queue/bench.flow", count=flow_count)
    outcome, _ = generate(Job(**asdict(flow)))
    began = time.perf_counter()
    _fill(job)
    result.notes["filled_per_s"] = count / (time.perf_counter() - began)
    result.notes["filled_bytes"] = at_rest(process)
    start_s = process.restart()
    resident = at_rest(process)
    result.notes["empty_queue_per_s"] = outcome.deliveries / outcome.elapsed_s
    result.notes["start_s"] = start_s
    result.notes["resident_bytes"] = resident
    result.notes["bytes_per_message"] = (resident - empty) / count
    result.values.append(_drain(job))


def _fill(job: Job) -> None:
    """Fill the queue; each portion has groups of its own, until there are too many."""
    link = StompLink(job)
    for portion in range(job.count // CHUNK):
        frames = wire.send_frames(job.destination, CHUNK, job.size, job.groups, HEADER)
        # Frames name their group in two headers, and the queue reads either.
        own = b"%%b:p%dg" % (portion % (GROUPS_MAX // job.groups))
        for header in (b"JMSXGroupID", b"message_group"):
            frames = [frame.replace(header + b":g", own % header, 1) for frame in frames]
        fill(link, frames)
    link.socket.close()


def _drain(job: Job) -> float:
    """Take and acknowledge messages from the beginning on; return the rate."""
    count = min(job.count, DRAINED)
    link = StompLink(job)
    start = time.perf_counter()
    link.socket.sendall(wire.subscribe(job.destination, job.ack, job.credit))
    received = -1  # -1: the receipt of the subscription counts as a frame
    while received < count:
        frames = link.read()
        received += link.deliveries(frames)
        link.socket.sendall(link.answer(frames))
    elapsed = time.perf_counter() - start
    link.socket.close()
    return received / elapsed
