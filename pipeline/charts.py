"""Charts: the pictures of the reports, as matplotlib figures.

A picture stays readable whatever is in it: what is too much for it is left out or drawn as one, and
names that are too long are cut. Who calls says in the caption what is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log10
from typing import Final, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogFormatter, MaxNLocator

WIDTH: Final = 9.0  # inches; the page shows it as wide as itself
BARS_MAX: Final = 30  # more labels than this cannot be read
LABEL_MAX: Final = 40  # characters; longer ones would leave no room for the bars
TICKS_MAX: Final = 3  # of a narrow panel
GREY: Final = 7  # of the ten colours
COLOURS: Final = tuple(mpl.colormaps["tab10"](at) for at in range(10) if at != GREY)
OTHERS_COLOUR: Final = mpl.colormaps["tab10"](GREY)

Colour = tuple[float, float, float, float]


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
    colours = _colours(spans)
    figure = Figure(figsize=(WIDTH, 0.8 + 0.25 * max(len(rows), len(set(colours.values())) - 2)))
    axes = figure.subplots()
    for span in spans:
        if span.row in rows:
            axes.broken_barh(
                [(span.start, max(span.end - span.start, 1e-6))],
                (rows.index(span.row) - 0.4, 0.8),
                facecolors=colours[span.holder],
            )
    for holder in sorted(holder for holder in colours if colours[holder] != OTHERS_COLOUR):
        axes.plot([], [], color=colours[holder], linewidth=6, label=f"consumer {holder}")
    others = list(colours.values()).count(OTHERS_COLOUR)
    if others:
        axes.plot([], [], color=OTHERS_COLOUR, linewidth=6, label=f"{others} others")
    axes.set_yticks(range(len(rows)), [_short(row) for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(axis)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _colours(spans: Sequence[Span]) -> dict[int, Colour]:
    """Give each holder a colour of its own; those who held least share one if there are many."""
    held: dict[int, float] = {}
    for span in spans:
        held[span.holder] = held.get(span.holder, 0.0) + span.end - span.start
    if len(held) <= len(COLOURS):
        return dict(zip(sorted(held), COLOURS, strict=False))
    most = sorted(sorted(held, key=lambda holder: -held[holder])[: len(COLOURS)])
    return dict.fromkeys(held, OTHERS_COLOUR) | dict(zip(most, COLOURS, strict=True))


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
    for axis in (axes.xaxis, axes.yaxis):  # 1, 10, 100, and what lies between where they are few
        axis.set_major_formatter("{x:,.0f}")
        axis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))
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
        axes.set_xlim(0, None if any(values) else 1)
        axes.xaxis.set_major_locator(MaxNLocator(TICKS_MAX) if any(values) else FixedLocator([0]))
    panels[0].set_yticks(range(len(labels)), labels, fontsize=8)
    panels[0].invert_yaxis()
    return figure


def _short(label: str) -> str:
    plain = " ".join(label.split())
    short = plain if len(plain) <= LABEL_MAX else f"{plain[: LABEL_MAX - 3]}..."
    return short.replace("$", r"\$")  # `$` begins a formula in matplotlib's texts
