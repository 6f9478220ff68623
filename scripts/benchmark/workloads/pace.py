"""Pace: how long messages take while a broker is lightly, half and almost fully loaded.

For each contender this measures its highest rate with one producer and one consumer, then an open
loop at 10, 50 and 90 % of that rate (`covey.bench.paced`). Contenders take turns. A figure is
the median message's time of each repetition. Its notes are the time that one message in ten, in a
hundred and in a thousand exceeds, in the worst repetition. `--picture` draws the curves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from scripts.benchmark.contender import Contender
from scripts.benchmark.plot import tails
from scripts.benchmark.process import Process
from scripts.benchmark.runner import US_PER_S

from covey.bench.flows import LATENCY
from covey.bench.generator import generate
from covey.bench.result import Result, percentile
from covey.bench.wire.link import Job

SHARES: Final = (10, 50, 90)
SIZE: Final = 128
HIGHEST_COUNT: Final = 100_000
SECONDS: Final = 2.0  # of each repetition
TAIL: Final = {"p90_us": 0.9, "p99_us": 0.99, "p999_us": 0.999}
_numbers = count(1)


def measure(
    contenders: Sequence[Contender],
    repetitions: int,
    scale: float,
    say: Callable[[str], None],
    picture: Path | None = None,
) -> list[Result]:
    """Measure all contenders in turn."""
    running = [(contender, contender.start()) for contender in contenders]
    results = []
    try:
        highest = {each.name: _highest(each, process, scale) for each, process in running}
        for share in SHARES:
            case = f"pace, {share} % of the highest rate, {SIZE} B"
            found = [Result(case, each.name, LATENCY) for each, _ in running]
            for _ in range(repetitions):
                for (each, process), result in zip(running, found, strict=True):
                    _repeat(each, process, highest[each.name] * share / 100, scale, result)
            for result in found:
                say(_line(result))
            results += found
    finally:
        for _, process in running:
            process.stop()
    if picture is not None:
        picture.write_text(tails([result for result in results if result.values]))
    return results


def _job(contender: Contender, process: Process, messages: int) -> Job:
    return Job(
        port=process.port,
        destination=f"/queue/bench.pace.{next(_numbers)}",
        count=messages,
        size=SIZE,
        host=contender.host,
        user=contender.user,
        password=contender.password,
        window=min(20_000, contender.window_max),
    )


def _highest(contender: Contender, process: Process, scale: float) -> float:
    """Return the rate of a closed loop; the first run warms up and is not counted."""
    messages = max(1000, int(HIGHEST_COUNT * scale))
    for _ in range(2):
        outcome, _ = generate(_job(contender, process, messages))
    return outcome.deliveries / outcome.elapsed_s


def _repeat(
    contender: Contender, process: Process, rate: float, scale: float, result: Result
) -> None:
    if result.failure:
        return
    messages = max(100, int(rate * SECONDS * min(1.0, scale)))
    try:
        outcome, _ = generate(replace(_job(contender, process, messages), rate=rate))
    except RuntimeError as error:
        result.failure = str(error)
        return
    result.values.append(percentile(outcome.round_trips_s, 0.5) * US_PER_S)
    result.notes["per_s"] = rate
    for name, share in TAIL.items():
        worst = percentile(outcome.round_trips_s, share) * US_PER_S
        result.notes[name] = max(worst, result.notes.get(name, 0.0))


def _line(result: Result) -> str:
    line = f"{result.case:<40} {result.contender:<16} {result.text()}"
    if result.failure:
        return line
    notes = ", ".join(f"{name.removesuffix('_us')} {result.notes[name]:.0f}" for name in TAIL)
    return f"{line} {result.unit} at {result.notes['per_s']:,.0f}/s; at worst {notes}"
