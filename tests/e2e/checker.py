"""Checker: was every promise kept? It reads the clients' own logs and nothing else.

Each client writes down what it did and what it heard, with the time; clients of one run share a
clock. A log is JSON lines, one list each: [time, what, id, ...].

| line                              | written                                                      |
|-----------------------------------|--------------------------------------------------------------|
| send, id, producer, group, number | before a message is sent; numbers of a producer ascend       |
| void, id                          | the transaction it was sent in was aborted                   |
| safe, id                          | its receipt or accepted outcome has come                     |
| got, id                           | a delivery was read                                          |
| settling, id                      | before it is acknowledged, or its transaction committed      |
| settled, id                       | the receipt for that has come                                |
| copy, id, original                | before a copy is sent in the transaction that settles it     |

What must not be, once everything was drained:

    lost         safe, and nobody ever settled it
    phantom      got, though nobody sent it, or it was void
    redelivered  got after it was settled for sure
    reordered    of one producer and group, a first delivery after that of a later message
    split        of one original two copies got through: a transaction was done by half

A copy is safe, like any message, when the receipt of its transaction has come.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

Line = list[str | int]


@dataclass
class Verdict:
    """What was broken, by kind; and how much was looked at."""

    lost: list[str] = field(default_factory=list)
    phantom: list[str] = field(default_factory=list)
    redelivered: list[str] = field(default_factory=list)
    reordered: list[str] = field(default_factory=list)
    split: list[str] = field(default_factory=list)
    safe: int = 0
    settled: int = 0

    @property
    def is_good(self) -> bool:
        """Say whether every promise was kept."""
        broken = (self.lost, self.phantom, self.redelivered, self.reordered, self.split)
        return not any(broken)

    def __str__(self) -> str:
        kinds = ("lost", "phantom", "redelivered", "reordered", "split")
        found = [f"{kind} {len(getattr(self, kind))}" for kind in kinds]
        return f"{self.safe} safe, {self.settled} settled: {', '.join(found)}"


class History:
    """Everything the clients said, in order of time."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.sent: dict[str, tuple[str, str, int]] = {}  # producer, group, number
        self.void: set[str] = set()
        self.safe: set[str] = set()
        self.settling: set[str] = set()
        self.settled: set[str] = set()
        self.originals: dict[str, str] = {}
        self.deliveries: list[str] = []
        self.late: list[str] = []  # got after it was settled
        for _, what, name, *rest in sorted(lines, key=_time):
            self._take(str(what), str(name), rest)

    def _take(self, what: str, name: str, rest: list[str | int]) -> None:
        if what == "send":
            producer, group, number = rest
            self.sent[name] = (str(producer), str(group), int(number))
        elif what == "got":
            self.deliveries.append(name)
            if name in self.settled:
                self.late.append(name)
        elif what == "copy":
            self.originals[name] = str(rest[0])
        else:
            getattr(self, what).add(name)


def read_logs(folder: Path) -> list[Line]:
    """Read the logs of all clients."""
    return [
        json.loads(line)
        for path in sorted(folder.glob("*.log"))
        for line in path.read_text().splitlines()
    ]


def check(lines: Iterable[Line]) -> Verdict:
    """Judge a run that was drained at its end."""
    history = History(lines)
    verdict = Verdict(safe=len(history.safe), settled=len(history.settled))
    verdict.lost = sorted(history.safe - history.settling)
    known = history.sent.keys() | history.originals.keys()
    verdict.phantom = [
        name for name in history.deliveries if name not in known or name in history.void
    ]
    verdict.redelivered = history.late
    verdict.reordered = _reordered(history)
    verdict.split = _split(history)
    return verdict


def _reordered(history: History) -> list[str]:
    newest: dict[tuple[str, str], int] = {}
    found = []
    for name in dict.fromkeys(history.deliveries):  # the first delivery of each
        if name not in history.sent:
            continue
        producer, group, number = history.sent[name]
        if group and number < newest.get((producer, group), -1):
            found.append(name)
        newest[producer, group] = max(number, newest.get((producer, group), -1))
    return found


def _split(history: History) -> list[str]:
    copies: dict[str, set[str]] = defaultdict(set)
    for name in history.deliveries:
        if name in history.originals:
            copies[history.originals[name]].add(name)
    return sorted([name for name, found in copies.items() if len(found) > 1])


def _time(line: Line) -> int:
    return int(line[0])
