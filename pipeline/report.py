"""Report: a page of HTML that needs nothing but itself.

Texts, tables and pictures in the order they are added. Pictures are matplotlib figures as inline
SVG, 10 to 20 kB each, and lie beside the page as well (`skew-1.svg`, ...), for other pages. Every
value is escaped, for group names come from anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from io import StringIO
from pathlib import Path
from typing import Final
from warnings import catch_warnings, simplefilter

import matplotlib as mpl
from matplotlib.figure import Figure

STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; color: #222;
       padding: 0 1rem }
table { border-collapse: collapse; font-size: 13px; margin: 1rem 0; display: block;
        overflow-x: auto }
th, td { padding: .2rem .5rem; border-bottom: 1px solid #ddd; text-align: left;
         white-space: nowrap; max-width: 32rem; overflow: hidden; text-overflow: ellipsis }
h2, p, figcaption { overflow-wrap: anywhere }
td.number { text-align: right; font-variant-numeric: tabular-nums }
.good { color: #176b2c } .bad { color: #a61b1b } pre { background: #f5f5f5; padding: .7rem }
svg { max-width: 100%; height: auto }
"""

CELL_LENGTH: Final = 40  # characters that surely fit
LEAST: Final = 0.001  # what is less is of no interest: a millisecond, a part of a thousand

Cell = str | int | float | None


class Report:
    """A page in the making."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []
        self._pictures: list[str] = []

    def heading(self, text: str) -> None:
        """Begin a part."""
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str) -> None:
        """Say something."""
        self._parts.append(f"<p>{escape(text)}</p>")

    def verdict(self, text: str, *, is_good: bool) -> None:
        """Say what the job found, in the colour of it."""
        self._parts.append(f'<p class="{"good" if is_good else "bad"}"><b>{escape(text)}</b></p>')

    def code(self, text: str) -> None:
        """Show something to copy."""
        self._parts.append(f"<pre>{escape(text)}</pre>")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Show rows under their columns' names."""
        head = "".join(f"<th>{escape(column)}</th>" for column in columns)
        body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
        self._parts.append(f"<table><tr>{head}</tr>{body}</table>")

    def figure(self, figure: Figure, caption: str) -> None:
        """Show a picture."""
        drawn = StringIO()
        # Dates and random ids would make two reports of one log differ. Texts stay texts: a
        # browser has the letters of every language, matplotlib's font has not, and says so.
        settings = mpl.rc_context({"svg.hashsalt": self._title, "svg.fonttype": "none"})
        with settings, catch_warnings():
            simplefilter("ignore", UserWarning)
            figure.savefig(drawn, format="svg", bbox_inches="tight", metadata={"Date": None})
        svg = drawn.getvalue()
        self._pictures.append(svg)
        self._parts.append(
            f"<figure>{svg[svg.index('<svg') :]}<figcaption>{escape(caption)}</figcaption></figure>"
        )

    def write(self, path: Path) -> None:
        """Write the page, and its pictures beside it."""
        title = escape(self._title)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f"<style>{STYLE}</style></head><body><h1>{title}</h1>"
            f"{''.join(self._parts)}</body></html>\n",
            encoding="utf-8",
        )
        for old in path.parent.glob(f"{path.stem}-[0-9]*.svg"):
            old.unlink()
        for number, svg in enumerate(self._pictures, 1):
            path.with_name(f"{path.stem}-{number}.svg").write_text(svg, encoding="utf-8")


def _cell(value: Cell) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, str):
        # What is too long for its column is seen whole when it is pointed at.
        title = f' title="{escape(value)}"' if len(value) > CELL_LENGTH else ""
        return f"<td{title}>{escape(value)}</td>"
    return f'<td class="number">{escape(_number(value))}</td>'


def _number(value: float) -> str:
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if 0 < value < LEAST:
        return f"< {LEAST}"
    return f"{value:.3g}"
