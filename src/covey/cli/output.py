"""Output: what commands print, for people and for programs.

- A terminal gets a rich table that fits it: names are never cut, the last column wraps, and
  columns that tell least stay away where there is no room for them (`--wide` shows them all).
  A pipe gets plain aligned text with whole cells and no colour; `--json` gets everything the broker
  tells, whoever reads it.
- Results go to stdout, progress and complaints to stderr, so that a pipe carries results alone.
- Names come from clients and may hold anything: what cannot be printed is written as an escape,
  so that no name can steer the terminal it is shown on.

rich is imported where it draws only: `covey-config` and pipes do without it.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

Row = dict[str, Any]
T = TypeVar("T")

# Queues of one connection start so; the reply queue of whoever asks is among them.
TEMPORARY = "temp."
GAP = 2  # blanks behind each column
LAST_MIN = 24  # what the last column needs at least, for a sentence in it to be readable

# The view of a queue's groups, in both commands.
GROUP_COLUMNS = (
    "group", "messages", "unsettled", "owner", "owner_name", "owner_client", "state", "oldest_s",
    "owned_s", "why",
)  # fmt: skip
GROUP_SPARE = ("owned_s", "owner_name", "unsettled", "owner_client", "oldest_s", "state")


# The view of single messages.
SHOWN = ("seq", "group", "state", "deliveries", "size", "dead_reason", "body")
BODY_SHOWN = 60  # characters of a body in a list

# What a command on messages answers, and the words for it.
ANSWERS = {
    "moved": "moved",
    "purged": "purged",
    "dead_lettered": "dead-lettered",
    "retried": "retried",
}


def told(answer: Row) -> str:
    """Say what a command on messages has done."""
    words = [f"{answer[key]} {word}" for key, word in ANSWERS.items() if key in answer]
    if answer.get("held"):
        words.append(f"{answer['held']} are held by a consumer and stay")
    if answer.get("missing"):
        words.append(f"{answer['missing']} are not there")
    return "; ".join(words)


def shown_message(message: Row) -> Row:
    """Return a message with the start of its body only, for a table."""
    body = str(message.get("body", message.get("body_base64", "")))
    return {**message, "body": body[:BODY_SHOWN]}


def say(line: str = "") -> None:
    """Write a result line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    """Write lines that are not a result; what the broker said may hold a client's name."""
    sys.stderr.write(f"{harmless_lines(text)}\n")


def is_terminal() -> bool:
    """Return True if a person looks on."""
    return sys.stdout.isatty()


def printable(value: object) -> str:
    """Return a value as one harmless cell."""
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, list):
        return " ".join(printable(each) for each in value)
    if isinstance(value, dict):
        return " ".join(f"{printable(key)}={printable(each)}" for key, each in value.items())
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def harmless_lines(text: str) -> str:
    """Return a text whose lines can be printed; it keeps its lines."""
    return text if text.isprintable() else "\n".join(printable(line) for line in text.split("\n"))


def plain_lines(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, has_rule: bool = False
) -> list[str]:
    """Return aligned lines, the first one with the columns' names, over a rule if wanted."""
    table = [columns, *rows]
    widths = [max(len(row[place]) for row in table) + GAP for place in range(len(columns))]
    lines = [
        "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    if has_rule:
        lines.insert(1, "=" * sum(widths))
    return lines


def show(
    rows: list[Row],
    columns: Sequence[str],
    *,
    as_json: bool,
    spare: Sequence[str] = (),
    is_wide: bool = False,
) -> None:
    """Print rows: all of them as JSON, or the named columns as a table.

    `spare` names columns that a narrow terminal does without, the first one goes first.
    """
    if as_json:
        say(json.dumps(rows, indent=2, default=str))
        return
    if is_terminal():
        _draw(rows, columns, () if is_wide else spare)
    else:
        cells = [[printable(row.get(name, "")) for name in columns] for row in rows]
        say("\n".join(plain_lines(columns, cells)))


def moment(time_ms: int) -> str:
    """Write a time for people, to the second and in their time zone; "" for none."""
    if not time_ms:
        return ""
    return datetime.fromtimestamp(time_ms / 1000).astimezone().isoformat(" ", "seconds")


def show_one(row: Row, *, as_json: bool) -> None:
    """Print one thing, an attribute a line."""
    if as_json:
        say(json.dumps(row, indent=2, default=str))
        return
    width = max((len(name) for name in row), default=0)
    for name, value in row.items():
        say(f"{name:<{width}}  {printable(value)}".rstrip())


def done(line: str, record: Row, *, as_json: bool) -> None:
    """Tell what was done: a record for programs, a line for people, nothing if there is none."""
    if as_json:
        show_one(record, as_json=True)
    elif line:
        say(line)


def repeat(look: Callable[[], None], watch_s: float) -> None:
    """Look once, or again and again until Ctrl-C."""
    if not watch_s:
        look()
        return
    with _interrupts() as noted:
        look()
        while not noted:
            time.sleep(watch_s)
            separate()
            look()
    raise KeyboardInterrupt


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Note each Ctrl-C, too: where C calls Python, what is raised goes no further."""
    noted: list[int] = []

    def interrupted(number: int, _frame: object) -> None:
        noted.append(number)
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGINT, interrupted)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, former)


def separate() -> None:
    """Part two looks: a terminal is cleared, a pipe gets a blank line."""
    if is_terminal():
        sys.stdout.write("\x1b[H\x1b[2J")  # home, and clear
    else:
        say()


def progress(work: Iterable[T], title: str, total: int | None) -> Iterator[T]:
    """Pass work on; a person sees a bar on stderr meanwhile."""
    if not sys.stderr.isatty():
        yield from work
        return
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(work, description=title, total=total, console=console, transient=True)


def fitting(widths: dict[str, int], spare: Sequence[str], room: int) -> list[str]:
    """Return the columns to show: all of them, less those of `spare` that have to go.

    The last column may be narrower than its cells: it wraps.
    """
    columns = list(widths)
    last = columns[-1]

    def need() -> int:
        return sum(min(widths[name], LAST_MIN) if name == last else widths[name] + GAP
                   for name in columns)  # fmt: skip

    for name in spare:
        if need() <= room:
            break
        columns.remove(name)
    return columns


def _draw(rows: list[Row], columns: Sequence[str], spare: Sequence[str]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    cells = {name: [printable(row.get(name, "")) for row in rows] for name in columns}
    widths = {name: max(map(len, [name, *each])) for name, each in cells.items()}
    shown = fitting(widths, spare, console.width)
    fixed = sum(widths[name] + GAP for name in shown[:-1])
    # Where even that has no room the terminal breaks lines: better than a name that is cut.
    console.width = max(console.width, fixed + min(widths[shown[-1]], LAST_MIN))
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in shown:
        table.add_column(name, no_wrap=name != shown[-1], overflow="fold")
    for row in zip(*(cells[name] for name in shown), strict=True):
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
    if len(shown) < len(columns):
        left_out = [name for name in columns if name not in shown]
        console.print(Text(f"{', '.join(left_out)}: --wide", style="dim"))
