"""Plot: bars and curves as SVG, written by hand: no library, no dates, small diffs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import floor, log10

from covey.bench.result import Result, figure

WIDTH = 860
LABEL_WIDTH = 260
BAR_WIDTH = 440
BAR_HEIGHT = 16
GAP = 14
COLOURS = ("#2b6cb0", "#2c7a7b", "#b7791f", "#9b2c2c", "#718096", "#6b46c1")
CURVES_HEIGHT = 300
MARGIN = 50
TEXT = 'font-family="sans-serif" font-size="12"'


def bars(results: Sequence[Result]) -> str:
    """Draw each result's median with its range, the cases in order; each must have values."""
    names = list(dict.fromkeys(result.contender for result in results))
    lowest = 10 ** floor(log10(min(min(result.values) for result in results)))
    highest = max(10 * lowest, *(max(result.values) for result in results))
    parts: list[str] = []
    top = GAP
    case = ""
    for result in results:
        if result.case != case:
            case = result.case
            top += GAP
            parts.append(_text(8, top + BAR_HEIGHT - 4, case))
        colour = COLOURS[names.index(result.contender) % len(COLOURS)]
        parts.append(_bar(result, top, colour, lowest, highest))
        top += BAR_HEIGHT + 2
    return _page(parts, top + GAP)


def curves(lines: Mapping[str, Sequence[float]], steps: Sequence[int], across: str, up: str) -> str:
    """Draw a curve for each name over evenly spaced steps, from 1 upwards, named at its end."""
    highest = max(max(values) for values in lines.values())
    step = (WIDTH - LABEL_WIDTH - MARGIN) // (len(steps) - 1)
    floor_y = CURVES_HEIGHT - MARGIN

    def height(value: float) -> int:
        return round(floor_y - (value - 1) / max(highest - 1, 0.01) * (floor_y - MARGIN))

    parts = [_text(8, MARGIN // 2, f"{up} ({highest:.2f} at most, 1 at the bottom)")]
    parts += [_text(MARGIN + step * i, floor_y + 20, str(name)) for i, name in enumerate(steps)]
    parts.append(_text(8, floor_y + 40, across))
    # Names of curves that end at the same height are put below one another.
    taken = CURVES_HEIGHT * 2
    ends = sorted(lines, key=lambda name: -height(lines[name][-1]))
    for name in ends:
        colour = COLOURS[list(lines).index(name) % len(COLOURS)]
        places = [f"{MARGIN + step * i},{height(value)}" for i, value in enumerate(lines[name])]
        parts.append(
            f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour}"'
            ' stroke-width="2"/>'
        )
        taken = min(height(lines[name][-1]) + 4, taken - 14)
        end = MARGIN + step * (len(steps) - 1) + 8
        parts.append(_text(end, taken, f"{name} {lines[name][-1]:.2f}", colour))
    return _page(parts, CURVES_HEIGHT)


def tails(results: Sequence[Result]) -> str:
    """Draw for each result the times from p50 to p99.9, logarithmic, named at its end."""
    steps = ("p50", "p90", "p99", "p99.9")
    lines = {
        f"{result.contender}, {result.case.split(' of ')[0].removeprefix('pace, ')}": [
            result.median,
            *(result.notes[name] for name in ("p90_us", "p99_us", "p999_us")),
        ]
        for result in results
    }
    lowest = 10 ** floor(log10(min(min(values) for values in lines.values())))
    highest = max(max(values) for values in lines.values())
    height = CURVES_HEIGHT * 2
    step = (WIDTH - LABEL_WIDTH - MARGIN) // (len(steps) - 1)
    floor_y = height - MARGIN
    up = (floor_y - MARGIN) / log10(max(10.0, highest / lowest))
    parts = [_text(8, MARGIN // 2, f"us, logarithmic, from {lowest:.0f} at the bottom")]
    parts += [_text(MARGIN + step * i, floor_y + 20, name) for i, name in enumerate(steps)]
    contenders = list(dict.fromkeys(result.contender for result in results))
    ends = []
    for result, (name, values) in zip(results, lines.items(), strict=True):
        colour = COLOURS[contenders.index(result.contender) % len(COLOURS)]
        heights = [round(floor_y - up * log10(value / lowest)) for value in values]
        places = " ".join(f"{MARGIN + step * i},{y}" for i, y in enumerate(heights))
        parts.append(
            f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        ends.append((heights[-1], f"{name}: {figure(values[-1])}", colour))
    taken = height
    for y, name, colour in sorted(ends, reverse=True):  # names must not overlap
        taken = min(y + 4, taken - 14)
        parts.append(_text(MARGIN + step * (len(steps) - 1) + 8, taken, name, colour))
    return _page(parts, height)


def _page(parts: list[str], height: int) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        f' viewBox="0 0 {WIDTH} {height}"><rect width="100%" height="100%" fill="white"/>'
    )
    return "\n".join([head, *parts, "</svg>", ""])


def _bar(result: Result, top: int, colour: str, lowest: float, highest: float) -> str:
    middle, low, high = (
        _length(value, lowest, highest)
        for value in (result.median, min(result.values), max(result.values))
    )
    y = top + BAR_HEIGHT // 2
    return (
        f'<rect x="{LABEL_WIDTH}" y="{top}" width="{middle}" height="{BAR_HEIGHT - 2}"'
        f' fill="{colour}"/>'
        f'<line x1="{LABEL_WIDTH + low}" x2="{LABEL_WIDTH + high}" y1="{y}" y2="{y}"'
        ' stroke="black"/>'
        + _text(LABEL_WIDTH + high + 8, top + 12, f"{result.contender} {figure(result.median)}")
    )


def _length(value: float, lowest: float, highest: float) -> int:
    return round(BAR_WIDTH * log10(value / lowest) / log10(highest / lowest))


def _text(x: int, y: int, text: str, colour: str = "black") -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}" {TEXT}>{escape(text)}</text>'
