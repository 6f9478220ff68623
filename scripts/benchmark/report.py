"""Report: the page with the figures, the comparison with peers, and the noise.

The text that a person wrote under "What it says" is kept when the page is written again.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path

from scripts.benchmark.goals import verdict
from scripts.benchmark.peers import PEERS
from scripts.benchmark.plot import bars
from scripts.benchmark.workloads.workloads import OTHERS, flows

from covey.bench.flows import RATE
from covey.bench.result import Result, figure, ratio

HEAD = """# Benchmarks

Written by `scripts/bench {arguments}`; run it again on your machine before you believe it.

Broker and generator share {cores} cores ({processor}), Python {python}. Every repetition was
checked: each message arrived once, and each group's in order. Figures are the median of the
repetitions, with the lowest and the highest behind it; contenders took turns. `sink` is a broker
that does nothing: what it reaches is what the generator can do. A repetition during
which other programs used more than 10 % of the machine is counted as noisy. A ratio is by medians,
its range from our worst against their best to our best against their worst.
"""

REMARKS = "## What it says\n"


def write(page: Path, results: Sequence[Result], *, arguments: str, processor: str) -> None:
    """Write the page, and its picture beside it."""
    parts = [
        HEAD.format(
            arguments=arguments,
            cores=os.cpu_count(),
            processor=processor,
            python=platform.python_version(),
        )
    ]
    remarks = _remarks(page)
    if remarks:
        parts.append(remarks)
    parts.append("## Workloads\n\n" + _workloads())
    rates = [result for result in results if result.unit == RATE and result.values]
    if rates:
        picture = page.with_suffix(".svg")
        picture.write_text(bars(rates))
        parts.append(f"![Deliveries per second, logarithmic]({picture.name})\n")
    parts.append("## Figures\n\n" + _figures(results))
    compared = _ratios(results)
    if compared:
        parts.append("## Ratios to the best peer\n\n" + compared)
    page.write_text("\n".join(parts))


def _remarks(page: Path) -> str:
    """Return what a person wrote on an earlier page, with its heading."""
    text = page.read_text() if page.exists() else ""
    _, heading, rest = text.partition(REMARKS)
    return heading + rest.partition("\n## ")[0].rstrip() + "\n" if heading else ""


def _workloads() -> str:
    lines = [f"- **{flow.name}**: {flow.about}" for flow in flows()]
    lines += [f"- **{name}**: {about}" for name, about in OTHERS.items()]
    return "\n".join(lines) + "\n"


def _figures(results: Sequence[Result]) -> str:
    lines = ["| case | broker | figure | unit | notes |", "|---|---|---|---|---|"]
    lines += [
        f"| {result.case} | {result.contender} | {result.text()} | {result.unit}"
        f" | {_notes(result)} |"
        for result in results
    ]
    return "\n".join(lines) + "\n"


def _notes(result: Result) -> str:
    notes = [f"{name.replace('_', ' ')} {figure(value)}" for name, value in result.notes.items()]
    if result.noisy():
        notes.append(f"{result.noisy()} of {len(result.values)} repetitions noisy")
    return ", ".join(notes)


def _ratios(results: Sequence[Result]) -> str:
    """Compare each build of ours with the best peer of the same case."""
    lines = ["| case | broker | best peer | times better (range) | goal |", "|---|---|---|---|---|"]
    for result in results:
        peers = [
            other
            for other in results
            if other.case == result.case and other.values and other.contender in PEERS
        ]
        if is_ours(result) and result.values and peers:
            best = min(peers, key=lambda peer: ratio(result, peer)[0])
            middle, low, high = ratio(result, best)
            lines.append(
                f"| {result.case} | {result.contender} | {best.contender}"
                f" | {middle:.2f} ({low:.2f} to {high:.2f}) | {verdict(result, middle)} |"
            )
    return "\n".join(lines) + "\n" if len(lines) > 2 else ""


def is_ours(result: Result) -> bool:
    """Return True if a result is of a build of Covey."""
    return result.contender.startswith("covey")
