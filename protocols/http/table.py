"""Table: rows of plain values as HTML. Every text goes through `cell`, which escapes it.

No script and no inline style: a bar is a `<meter>`, which a browser draws by its value. A link
leads to another row of the page, or to the page of another thing; what is put into it is quoted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final
from urllib.parse import quote

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
    link: str = ""  # where it leads; the value of `link_to`, or its own, is put behind
    link_to: str = ""


def table(
    heading: str,
    columns: Sequence[Column],
    rows: Sequence[Attributes],
    total: int,
    anchor: str = "",
) -> str:
    """Write a table, and how many rows it leaves out; links find a row by anchor and first cell."""
    title = f"<h2>{escape(heading)}</h2>"
    if not rows:
        return f'{title}<p class="soft">none</p>'
    largest = {
        column.attribute: max([_number(row[column.attribute]) for row in rows])
        for column in columns
        if column.kind == "bar"
    }
    head = "".join(
        f"<th{_class_of(column, rows[0])}>{escape(column.heading)}</th>" for column in columns
    )
    body = "\n".join(
        f"<tr{_id_of(anchor, row[columns[0].attribute])}>"
        + "".join(_column(column, row, largest) for column in columns)
        + "</tr>"
        for row in rows
    )
    more = "" if len(rows) == total else f'<p class="soft">{len(rows)} of {total} are shown</p>'
    return f'{title}<div class="wide"><table><tr>{head}</tr>\n{body}\n</table></div>{more}'


def tiles(figures: Sequence[tuple[Plain, str]]) -> str:
    """Write a few large numbers with what they count."""
    items = "".join(f"<li><b>{cell(value)}</b> {cell(name)}</li>" for value, name in figures)
    return f"<ul>{items}</ul>"


def link(address: str, text: str) -> str:
    """Write a link whose address is in order."""
    return f'<a href="{escape(address)}">{escape(text)}</a>'


def cell(value: Plain) -> str:
    """Write a value so that it is text whatever it holds."""
    if isinstance(value, list | tuple):
        return ", ".join(cell(each) for each in value)
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
    elif column.link and value:
        text = link(column.link + _quoted(row[column.link_to or column.attribute]), str(value))
    return f"<td{_class_of(column, row)}>{text}</td>"


def _id_of(anchor: str, value: Plain) -> str:
    return f' id="{anchor}-{_quoted(value)}"' if anchor else ""


def _quoted(value: Plain) -> str:
    return quote(str(value), safe="", errors="replace")


def _class_of(column: Column, row: Attributes) -> str:
    if column.kind == "prose":
        return ' class="prose"'
    value = row[column.attribute]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return ' class="number"' if is_number else ""


def _number(value: Plain) -> float:
    return value if isinstance(value, int | float) else 0
