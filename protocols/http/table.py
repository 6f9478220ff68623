"""Table: rows of plain values as HTML. Every text goes through `cell`, which escapes it.

No script and no inline style: a bar is a `<meter>`, which a browser draws by its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from covey.core.describe import Attributes, Plain

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
SIZE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, the attribute below it, and how that is written."""

    heading: str
    attribute: str
    kind: str = ""  # "bar": with its share of the largest; "age"; "size"; "prose": may wrap


def table(heading: str, columns: Sequence[Column], rows: Sequence[Attributes], total: int) -> str:
    """Write a table, and how many rows it leaves out."""
    title = f"<h2>{escape(heading)}</h2>"
    if not rows:
        return f'{title}<p class="empty">none</p>'
    largest = {
        column.attribute: max([_number(row[column.attribute]) for row in rows])
        for column in columns
        if column.kind == "bar"
    }
    head = "".join(
        f"<th{_class_of(column, rows[0])}>{escape(column.heading)}</th>" for column in columns
    )
    body = "\n".join(
        "<tr>" + "".join(_column(column, row, largest) for column in columns) + "</tr>"
        for row in rows
    )
    more = "" if len(rows) == total else f"<p>{len(rows)} of {total} are shown</p>"
    return f"{title}<table><tr>{head}</tr>\n{body}\n</table>{more}"


def tiles(figures: Sequence[tuple[Plain, str]]) -> str:
    """Write a few large numbers with what they count."""
    items = "".join(f"<li><b>{cell(value)}</b> {cell(name)}</li>" for value, name in figures)
    return f"<ul>{items}</ul>"


def cell(value: Plain) -> str:
    """Write a value so that it is text whatever it holds."""
    return escape(f"{value:.1f}" if isinstance(value, float) else str(value))


def age(seconds: float) -> str:
    """Write a time that has passed, in the two units that matter."""
    if seconds < MINUTE:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < HOUR:
        return f"{whole // MINUTE} m {whole % MINUTE} s"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE} m"
    return f"{whole // DAY} d {whole % DAY // HOUR} h"


def size(count: float) -> str:
    """Write a number of bytes."""
    unit = 0
    while count >= KIB and unit < len(SIZE_UNITS) - 1:
        count /= KIB
        unit += 1
    return f"{count:.0f} {SIZE_UNITS[unit]}" if unit == 0 else f"{count:.1f} {SIZE_UNITS[unit]}"


def _column(column: Column, row: Attributes, largest: dict[str, float]) -> str:
    value = row[column.attribute]
    text = cell(value)
    if column.kind == "age":
        text = age(_number(value)) if value else ""
    elif column.kind == "size":
        text = size(_number(value))
    elif column.kind == "bar":
        top = largest[column.attribute] or 1
        text += f' <meter min="0" max="{top}" value="{_number(value)}"></meter>'
    return f"<td{_class_of(column, row)}>{text}</td>"


def _class_of(column: Column, row: Attributes) -> str:
    if column.kind == "prose":
        return ' class="prose"'
    value = row[column.attribute]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return ' class="number"' if is_number else ""


def _number(value: Plain) -> float:
    return value if isinstance(value, int | float) else 0
