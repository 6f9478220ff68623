"""What `qpid-config queues` prints: a table of queues with the options that made them.

    Queue Name      Attributes
    =====================================
    orders          --durable --max-queue-count=1000 --group-header=ORDER --shared-groups

An option means here what it means to `covey-config`, which reads it. Queues that Qpid made for
connections of its own (exclusive, auto-deleted ones) are left out.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from covey.cli.importers.imported import Imported, ImportRefused
from covey.cli.qpid_config.options import declaration, idle, make_parser
from covey.config.qpid import declared
from covey.config.queues import QueueSettings

HEAD: Final = re.compile(r"^\s*Queue Name\s+Attributes\s*$", re.MULTILINE)
PASSING: Final = ("excl", "auto-del")


def is_dump(text: str) -> bool:
    """Return True if a text is what the command prints."""
    return HEAD.search(text) is not None


def read(text: str, found: Imported) -> None:
    """Read every line below the head."""
    head = HEAD.search(text)
    assert head is not None  # the caller has looked
    for line in text[head.end() :].splitlines():
        if line.strip(" ="):
            _read_queue(line, found)


def _read_queue(line: str, found: Imported) -> None:
    name, *words = shlex.split(line)
    if any(word in PASSING for word in words):
        found.notes.append(f"queue {name} belongs to a connection and is left out")
        return
    try:
        options = make_parser("").parse_args(["add", "queue", name, *words])
        settings = declared(name, declaration(options), QueueSettings())
    except (SystemExit, ValueError) as error:
        raise ImportRefused(f"queue {name}: {' '.join(words)}: {error}") from error
    for option, reason in idle(options).items():
        found.notes.append(f"queue {name}: {option} does nothing here: {reason}")
    for word in options.words[3:]:
        found.notes.append(f"queue {name}: {word} has no counterpart")
    entry = settings.model_dump(exclude_defaults=True)
    found.add("queue", {**entry, "id": name, "durable": settings.durable, "auto_delete_after_s": 0})
