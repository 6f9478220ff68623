"""Rooms: draws the rooms of the source and their imports as docs/images/rooms.svg.

Each room is a floor, from the top of the house to its ground. A line begins at the room that
imports and ends, with a dot, at the room that is imported. It is wide if there are many imports.
Floors that every room may import have no lines, because these would hide the others.
"""

from __future__ import annotations

import sys
from html import escape

from scripts.tour.imports import ROOT, imports, rooms

PICTURE = ROOT / "docs/images/rooms.svg"

WORDS = {
    "cli": "the commands covey and covey-config",
    "pipeline": "the event log's jobs and data source, for Spark",
    "server": "settings in, a running broker out",
    "client": "the clients of the commands and the jobs",
    "worker": "the library for ordered work",
    "bench": "the load generator",
    "protocols/stomp": "STOMP 1.0, 1.1, 1.2",
    "protocols/amqp": "AMQP 1.0",
    "protocols/http": "management, metrics, WebSocket",
    "protocols": "the shell: sockets, TLS, all waiting",
    "core/management": "what operators see and do",
    "core/broker": "the front door; the end of every turn",
    "core/publishing": "the way in; transactions",
    "core/host": "queues, topics, subscriptions of a host",
    "core/storage": "what waits for the disk; the stores",
    "core/queue": "one queue: policy, quota, timers",
    "core/dispatch": "lanes and the gate: who gets what next",
    "core/model": "message, entry, consumer",
    "core/security": "users, passwords, permissions",
    "core/jobs": "long work in portions; turns measured",
    "core/events": "what happened, for whoever listens",
    "core/selector": "SQL conditions on messages",
    "core/naming": "destinations, patterns, policies",
    "core": "session, clock, errors: for everybody",
    "groups": "who owns a group: one file a strategy",
    "config": "every option: for everybody",
}
GROUND = ("core", "config")  # every room may import these

# Sizes in pixels.
FLOOR, BOX, WIDTH, NAME_WIDTH = 34, 28, 468, 148
LEFT, TOP, MARGIN = 12, 12, 16
GAP = 10  # between two wings
REACH_MIN, REACH = 24, 300  # how far the shortest and the longest line go to the right
MANY = 5  # from so many imports on a line is wide

# A colour for each wing of the house, readable on white and on black.
COLOURS = {
    "application": "#8250df",
    "protocols": "#0a84d0",
    "core": "#1a9c5b",
    "groups": "#d9730d",
    "config": "#8a8f98",
}
STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
.name { font-weight: 600; }
.words { fill: #59636e; font-size: 12px; }
.box { fill: #ffffff; stroke-width: 1.5; }
.line { fill: none; stroke-width: 1; opacity: .45; }
.many { stroke-width: 2.5; opacity: .7; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .words { fill: #9198a1; }
  .box { fill: #151b23; }
  .line { opacity: .6; }
  .many { opacity: .9; }
}
"""


def draw() -> str:
    """Return the picture as SVG."""
    floors = _floors()
    ground = max(floors.values())
    lines = [
        _line(importer, floors[importer], floors[target], count, ground)
        for (importer, target), count in sorted(imports().items())
        if target not in GROUND
    ]
    width = LEFT + WIDTH + REACH + MARGIN
    height = ground + BOX + TOP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" role="img">',
        "<title>The rooms of the source, from top to bottom, and what each imports</title>",
        f"<style>{STYLE}</style>",
        *lines,
        *(_box(room, top) for room, top in floors.items()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def wing(room: str) -> str:
    """Return the part of the house that a room belongs to."""
    first = room.partition("/")[0]
    return first if first in COLOURS else "application"


def _floors() -> dict[str, int]:
    """Return where the box of each room begins, from the top."""
    found: dict[str, int] = {}
    top, last = TOP, ""
    for room in rooms():
        if last and wing(room) != wing(last):
            top += GAP
        found[room] = top
        top, last = top + FLOOR, room
    return found


def _box(room: str, top: int) -> str:
    colour = COLOURS[wing(room)]
    middle = top + BOX // 2 + 4
    return (
        f'<rect class="box" x="{LEFT}" y="{top}" width="{WIDTH}" height="{BOX}" rx="6"'
        f' stroke="{colour}"/>'
        f'<rect x="{LEFT}" y="{top}" width="7" height="{BOX}" rx="3" fill="{colour}"/>'
        f'<text class="name" x="{LEFT + 18}" y="{middle}">{escape(room)}</text>'
        f'<text class="words" x="{LEFT + 18 + NAME_WIDTH}" y="{middle}">'
        f"{escape(WORDS[room])}</text>"
    )


def _line(importer: str, start: int, end: int, count: int, height: int) -> str:
    """Draw an arc on the right of the house; it reaches further out if it passes more floors."""
    right = LEFT + WIDTH
    begin, finish = start + BOX * 2 // 3, end + BOX // 3
    # A cubic curve reaches three quarters of the way to its control points.
    out = right + (REACH_MIN + (REACH - REACH_MIN) * (end - start) / height) * 4 / 3
    colour = COLOURS[wing(importer)]
    many = " many" if count >= MANY else ""
    return (
        f'<path class="line{many}" stroke="{colour}"'
        f' d="M{right} {begin} C{out:.0f} {begin} {out:.0f} {finish} {right + 4} {finish}"/>'
        f'<circle cx="{right + 4}" cy="{finish}" r="2.5" fill="{colour}"/>'
    )


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(draw())
    sys.stderr.write(f"covey: drew {PICTURE.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
