"""Report: a self-contained page of HTML, and its charts.

Texts, tables and charts stand in the order in which they are added. Every value is escaped, because
anybody may choose a group name.

Charts are matplotlib figures as inline SVG, 10 to 20 kB each. They are also written beside the page
(`skew-1.svg`, ...), for use in other pages. A chart stays readable whatever its data. Rows beyond
a limit are left out or drawn as one, and long names are cut. The caller says in the caption what is
left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from io import StringIO
from math import log10
from pathlib import Path
from typing import Final, NamedTuple
from warnings import catch_warnings, simplefilter

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogFormatter, MaxNLocator

from covey.pipeline.places import Place, put_text

STYLE: Final = """
:root { color-scheme: light dark; --line: #ddd; --faint: #555; --best: #e8f4ea; --code: #f5f5f5;
        --good: #176b2c; --bad: #a61b1b }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; color: #222;
       background: #fff; padding: 0 1rem }
table { border-collapse: collapse; font-size: 13px; margin: 1rem 0; display: block;
        overflow-x: auto }
th, td { padding: .2rem .5rem; border-bottom: 1px solid var(--line); text-align: left }
td { white-space: nowrap } th { vertical-align: bottom } th.number { text-align: right }
tr.best td { background: var(--best); font-weight: 600 }
h1, h2, p, figcaption { overflow-wrap: anywhere }
td[title] { white-space: normal; overflow-wrap: anywhere; min-width: 16rem; max-width: 32rem }
td.number { text-align: right; font-variant-numeric: tabular-nums }
.good { color: var(--good) } .bad { color: var(--bad) }
pre { background: var(--code); padding: .7rem; overflow-x: auto }
svg { max-width: 100%; height: auto; background: #fff } figure { margin: 1.5rem 0 }
figcaption { font-weight: 600 }
p.lead { font-size: 18px } abbr { text-decoration: underline dotted; cursor: help }
dl { font-size: 13px; color: var(--faint) } dt { float: left; clear: left; font-weight: 600 }
dd { margin-left: 9rem }
@media (prefers-color-scheme: dark) {
  :root { --line: #444; --faint: #aaa; --best: #1d3a26; --code: #2a2a2a; --good: #7fd397;
          --bad: #ff9a94 }
  body { background: #181818; color: #ddd }
}
@media (max-width: 40rem) {
  body { margin: 1rem auto } dt { float: none } dd { margin: 0 0 .5rem }
}
"""

CELL_LENGTH: Final = 40  # characters that fit into one line of a cell
LEAST: Final = 0.001  # smaller values are of no interest: a millisecond, a thousandth part

Cell = str | int | float | None


class Report:
    """A page in the making."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []
        self._pictures: list[str] = []

    def heading(self, text: str) -> None:
        """Begin a section."""
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str) -> None:
        """Add a paragraph."""
        self._parts.append(f"<p>{escape(text)}</p>")

    def lead(self, text: str) -> None:
        """Add a conclusion, ahead of the figures that it is drawn from."""
        self._parts.append(f'<p class="lead">{escape(text)}</p>')

    def verdict(self, text: str, *, is_good: bool) -> None:
        """Add the job's verdict, coloured as good or bad."""
        self._parts.append(f'<p class="{"good" if is_good else "bad"}"><b>{escape(text)}</b></p>')

    def terms(self, meanings: Mapping[str, str]) -> None:
        """Explain words, each in a line."""
        lines = "".join(
            f"<dt>{escape(word)}</dt><dd>{escape(meaning)}</dd>"
            for word, meaning in meanings.items()
        )
        self._parts.append(f"<dl>{lines}</dl>")

    def code(self, text: str) -> None:
        """Show something to copy."""
        self._parts.append(f"<pre>{escape(text)}</pre>")

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Cell]],
        terms: Mapping[str, str] | None = None,
        best: Cell = None,
    ) -> None:
        """Show rows under their columns' names; hovering over a term shows its meaning.

        The row that begins with `best` stands out.
        """
        known = terms or {}
        numbers = [isinstance(value, int | float) for value in rows[0]] if rows else []
        numbers += [False] * (len(columns) - len(numbers))
        head = "".join(
            _head(column, known.get(column, ""), is_number)
            for column, is_number in zip(columns, numbers, strict=True)
        )
        body = "".join(_line(row, best) for row in rows)
        self._parts.append(f"<table><tr>{head}</tr>{body}</table>")

    def figure(self, figure: Figure, caption: str) -> None:
        """Show a picture under a line that says what is to be seen in it."""
        drawn = StringIO()
        # Dates and random ids would make two reports of one log differ. Texts are not drawn as
        # shapes: matplotlib's font lacks many letters and warns of it, a browser has them all.
        settings = mpl.rc_context({"svg.hashsalt": self._title, "svg.fonttype": "none"})
        with settings, catch_warnings():
            simplefilter("ignore", UserWarning)
            figure.savefig(drawn, format="svg", bbox_inches="tight", metadata={"Date": None})
        svg = drawn.getvalue()
        self._pictures.append(svg)
        self._parts.append(
            f"<figure><figcaption>{escape(caption)}</figcaption>{svg[svg.index('<svg') :]}</figure>"
        )

    def write(self, out: Place, name: str) -> None:
        """Write the page NAME.html, and its pictures beside it."""
        title = escape(self._title)
        put_text(
            out / f"{name}.html",
            f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width"><title>'
            f"{title}</title>"
            f"<style>{STYLE}</style></head><body><h1>{title}</h1>"
            f"{''.join(self._parts)}</body></html>\n",
        )
        for old in out.glob(f"{name}-[0-9]*.svg") if isinstance(out, Path) else ():
            old.unlink()
        for number, svg in enumerate(self._pictures, 1):
            put_text(out / f"{name}-{number}.svg", svg)


def _head(column: str, meaning: str, is_number: bool) -> str:
    start = '<th class="number">' if is_number else "<th>"
    if not meaning:
        return f"{start}{escape(column)}</th>"
    return f'{start}<abbr title="{escape(meaning)}">{escape(column)}</abbr></th>'


def _line(row: Sequence[Cell], best: Cell) -> str:
    start = '<tr class="best">' if best is not None and row[0] == best else "<tr>"
    return f"{start}{''.join(_cell(value) for value in row)}</tr>"


def _cell(value: Cell) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, str):
        # The page's style breaks a text with a title, as it is too long for one line.
        title = f' title="{escape(value)}"' if len(value) > CELL_LENGTH else ""
        return f"<td{title}>{escape(value)}</td>"
    return f'<td class="number">{escape(_number(value))}</td>'


def _number(value: float) -> str:
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if 0 < value < LEAST:
        return f"< {LEAST}"
    return f"{value:.3g}"


WIDTH: Final = 9.0  # inches; the page scales a chart to its own width
BARS_MAX: Final = 30  # more labels than this cannot be read
LABEL_MAX: Final = 40  # characters; longer ones would leave no room for the bars
TICKS_MAX: Final = 3  # of a narrow panel
GREY: Final = 7  # its place among the ten colours
COLOURS: Final = tuple(mpl.colormaps["tab10"](at) for at in range(10) if at != GREY)
OTHERS_COLOUR: Final = mpl.colormaps["tab10"](GREY)
BEST_COLOUR: Final = mpl.colormaps["tab10"](2)  # green

Colour = tuple[float, float, float, float]


class Span(NamedTuple):
    """Somebody held something from one time to another, in seconds."""

    row: str
    holder: int | str
    start: float
    end: float


def bars(labels: Sequence[str], values: Sequence[float], axis: str, even: float = 0) -> Figure:
    """Draw values as bars, the first on top; with a line where all would be if they were even."""
    labels, values = labels[:BARS_MAX], values[:BARS_MAX]
    figure = Figure(figsize=(WIDTH, 0.6 + 0.22 * len(labels)))
    axes = figure.subplots()
    axes.barh(range(len(labels)), values, color=COLOURS[0])
    axes.set_yticks(range(len(labels)), [_short(label) for label in labels], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(axis)
    if even:
        axes.axvline(even, color=OTHERS_COLOUR, linestyle="--", label="an even part")
        axes.legend(fontsize=8, loc="lower right")
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
    shown = [holder for holder in colours if colours[holder] != OTHERS_COLOUR]
    for holder in sorted(shown, key=_by_name):
        axes.plot([], [], color=colours[holder], linewidth=6, label=f"consumer {holder}")
    others = list(colours.values()).count(OTHERS_COLOUR)
    if others:
        axes.plot([], [], color=OTHERS_COLOUR, linewidth=6, label=f"{others} others")
    axes.set_yticks(range(len(rows)), [_short(row) for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(axis)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _colours(spans: Sequence[Span]) -> dict[int | str, Colour]:
    """Give each holder its own colour; if there are too many, those that held least share one."""
    held: dict[int | str, float] = {}
    for span in spans:
        held[span.holder] = held.get(span.holder, 0.0) + span.end - span.start
    if len(held) <= len(COLOURS):
        return dict(zip(sorted(held, key=_by_name), COLOURS, strict=False))
    largest = sorted(held, key=lambda holder: -held[holder])[: len(COLOURS)]
    most = sorted(largest, key=_by_name)
    return dict.fromkeys(held, OTHERS_COLOUR) | dict(zip(most, COLOURS, strict=True))


def _by_name(holder: int | str) -> tuple[int, str]:
    """Return the sort key of a holder: numbers come first, by their value."""
    return (holder, "") if isinstance(holder, int) else (1 << 62, holder)


def ranked(counts: Sequence[float], slope: float, intercept: float) -> Figure:
    """Draw counts by rank on logarithmic axes, with the power law fitted to them."""
    figure = Figure(figsize=(WIDTH * 0.7, 3.2))
    axes = figure.subplots()
    ranks = range(1, len(counts) + 1)
    axes.loglog(ranks, counts, ".", markersize=4, label="groups")
    fitted = [10 ** (intercept + slope * log10(rank)) for rank in ranks]
    axes.loglog(ranks, fitted, "-", linewidth=1, label=f"rank^{slope:.2f}")
    axes.set_xlabel("rank of the group: 1 is the largest")
    axes.set_ylabel("messages of the group")
    for axis in (axes.xaxis, axes.yaxis):  # label 1, 10, 100, and values between if there are few
        axis.set_major_formatter("{x:,.0f}")
        axis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))
    axes.legend(fontsize=8)
    return figure


def compared(labels: Sequence[str], columns: Mapping[str, Sequence[float]]) -> Figure:
    """Draw one panel a column, the same bars in each: how policies compare; the first is best."""
    figure = Figure(figsize=(WIDTH, 0.8 + 0.28 * len(labels)))
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axes, (title, values) in zip(panels, columns.items(), strict=True):
        colours = [BEST_COLOUR, *[COLOURS[0]] * (len(labels) - 1)]
        axes.barh(range(len(labels)), values, color=colours)
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
