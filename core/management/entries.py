"""Entries: which of several entries of one name holds, when several virtual hosts have kept one.

What operators set at run time is kept by the virtual host through which it was set
(`core.management.overlay`). The virtual hosts of a cluster have different owners, so nobody could
take an older entry of the same name away from another virtual host. Instead each entry says when it
was set. The newest one holds, on every broker. An entry that was removed stays as a note that says
so, for as long as an older one is kept somewhere.

    $at         when it was set, in milliseconds; always later than what it replaces
    $removed    there is no such entry any more

Outside of a cluster entries say neither, and the last one in the list holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

AT: Final = "$at"
REMOVED: Final = "$removed"

Fields = dict[str, object]


def in_force(places: Iterable[Mapping[str, Fields]]) -> dict[str, Fields]:
    """Return the entries that hold, by name, of all that these places keep."""
    found: dict[str, Fields] = {}
    for entries in places:
        for name, fields in entries.items():
            if name not in found or age(fields) >= age(found[name]):
                found[name] = fields
    return {name: plain(fields) for name, fields in found.items() if REMOVED not in fields}


def age(fields: Fields) -> tuple[int, str]:
    """Return what orders entries of one name: the time, then anything that all brokers agree on."""
    at = fields.get(AT)
    return (at, json.dumps(fields, sort_keys=True)) if isinstance(at, int) else (0, "")


def plain(fields: Fields) -> Fields:
    """Return the entry itself."""
    return {key: value for key, value in fields.items() if key not in (AT, REMOVED)}


def later(now_ms: int, known: Iterable[Fields]) -> int:
    """Return a time for a new entry that is later than all known ones, whatever the clocks say."""
    return max([now_ms, *[age(fields)[0] + 1 for fields in known]])
