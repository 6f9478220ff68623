"""Charts: the pictures of the reports, as matplotlib figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log10
from typing import Final, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

WIDTH: Final = 9.0  # inches; the page shows it as wide as itself
BARS_MAX: Final = 30  # more labels than this cannot be read
COLOURS: Final = mpl.colormaps["tab10"].colors  # type: ignore[attr-defined]  # a listed map


class Span(NamedTuple):
    """Somebody held something from one time to another, in seconds."""

    row: str
    holder: int
    start: float
    end: float


def bars(labels: Sequence[str], values: Sequence[float], axis: str) -> Figure:
    """Draw values as bars, the first on top."""
    labels, values = labels[:BARS_MAX], values[:BARS_MAX]
    figure = Figure(figsize=(WIDTH, 0.6 + 0.22 * len(labels)))
    axes = figure.subplots()
    axes.barh(range(len(labels)), values, color=COLOURS[0])
    axes.set_yticks(range(len(labels)), [_short(label) for label in labels], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(axis)
    return figure


def holdings(spans: Sequence[Span], axis: str = "seconds") -> Figure:
    """Draw who held what when: a row for each thing, a colour for each holder."""
    rows = list(dict.fromkeys(span.row for span in spans))[:BARS_MAX]
    holders = sorted({span.holder for span in spans})
    figure = Figure(figsize=(WIDTH, 0.8 + 0.25 * len(rows)))
    axes = figure.subplots()
    for holder in holders:
        colour = COLOURS[holder % len(COLOURS)]
        for span in spans:
            if span.holder == holder and span.row in rows:
                axes.broken_barh(
                    [(span.start, max(span.end - span.start, 1e-6))],
                    (rows.index(span.row) - 0.4, 0.8),
                    facecolors=colour,
                )
        axes.plot([], [], color=colour, linewidth=6, label=f"consumer {holder}")
    axes.set_yticks(range(len(rows)), [_short(row) for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(axis)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def ranked(counts: Sequence[float], slope: float, intercept: float) -> Figure:
    """Draw counts by rank on logarithmic axes, with the power law fitted to them."""
    figure = Figure(figsize=(WIDTH * 0.7, 3.2))
    axes = figure.subplots()
    ranks = range(1, len(counts) + 1)
    axes.loglog(ranks, counts, ".", markersize=4, label="groups")
    fitted = [10 ** (intercept + slope * log10(rank)) for rank in ranks]
    axes.loglog(ranks, fitted, "-", linewidth=1, label=f"rank^{slope:.2f}")
    axes.set_xlabel("rank")
    axes.set_ylabel("messages")
    axes.legend(fontsize=8)
    return figure


def compared(labels: Sequence[str], columns: Mapping[str, Sequence[float]]) -> Figure:
    """Draw one panel a column, the same bars in each: how policies compare."""
    figure = Figure(figsize=(WIDTH, 0.8 + 0.28 * len(labels)))
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axes, (title, values) in zip(panels, columns.items(), strict=True):
        axes.barh(range(len(labels)), values, color=COLOURS[0])
        axes.set_title(title, fontsize=9)
        axes.tick_params(labelsize=7)
        axes.set_xlim(left=0)
    panels[0].set_yticks(range(len(labels)), labels, fontsize=8)
    panels[0].invert_yaxis()
    return figure


def _short(label: str) -> str:
    # `$` begins a formula in matplotlib's texts.
    plain = label.replace("$", r"\$")
    return plain if len(plain) <= 40 else f"{plain[:37]}..."
