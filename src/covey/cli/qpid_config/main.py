"""The `covey-config` command: declares and lists queues in qpid-config's own grammar.

Output and exit codes follow qpid-config: 0 done; 1 refused, nothing matched, or no sense in the
words; 2 an option that does not exist. Everything goes to standard output, complaints too, as
there; only notes on options that do nothing here go to standard error. Exchanges and bindings are
not in Covey's model: their forms are refused with a reason.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Final

from covey.cli.output import (
    GROUP_COLUMNS,
    complain,
    harmless_lines,
    plain_lines,
    printable,
    say,
)
from covey.cli.qpid_config.options import NO_EXCHANGES, declaration, idle, make_parser
from covey.client.errors import ClientError
from covey.client.management import PORT, Management, Row
from covey.client.place import parse_place

USAGE: Final = """\
Usage:  covey-config [OPTIONS]
        covey-config [OPTIONS] queues [filter-string]
        covey-config [OPTIONS] add queue <name> [AddQueueOptions]
        covey-config [OPTIONS] del queue <name> [DelQueueOptions]
        covey-config [OPTIONS] add <type> <name> [--argument <name>=<value>]
        covey-config [OPTIONS] del <type> <name>
        covey-config [OPTIONS] list <type> [--show-property <property-name>]
        covey-config [OPTIONS] groups <queue-name>
        covey-config [OPTIONS] close-group <queue-name> <group>
        covey-config [OPTIONS] rebalance <queue-name>

Types: queue, topic, subscription, group, consumer, connection, broker.

Examples:

$ covey-config add queue q
$ covey-config add queue MyMsgQueue --group-header="GROUP_KEY" --shared-groups
$ covey-config queues -b guest/guest@broker-host:10000
"""

# Forms of qpid-config that have no counterpart, with the reason.
FOREIGN: Final = {
    "exchanges": NO_EXCHANGES,
    "bind": NO_EXCHANGES,
    "unbind": NO_EXCHANGES,
    "add exchange": NO_EXCHANGES,
    "del exchange": NO_EXCHANGES,
    "list exchange": NO_EXCHANGES,
    "list binding": NO_EXCHANGES,
    "reload-acl": "permissions are part of the configuration, which SIGHUP reloads",
    "log": "the level is set at the start: covey serve --verbose",
    "shutdown": "a signal ends the broker: SIGTERM",
}

LIST_COLUMNS: Final = {"queue": ("name", "durable", "autoDelete")}
LIST_COLUMNS_MAX: Final = 6
LIST_PREFIX: Final = "  "
MISSING: Final = "n/a"

Handler = Callable[[Management, Sequence[str], argparse.Namespace], int]


class UsageError(Exception):
    """No command has these words."""


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options = make_parser(USAGE).parse_intermixed_args(argv)
    words: list[str] = options.words
    for option, reason in idle(options).items():
        complain(f"note: {option} does nothing here: {reason}")
    try:
        handler, arguments = _find(words)
        place = parse_place(options.broker, PORT)
        with Management(place, options.timeout or None) as client:
            return handler(client, arguments, options)
    except UsageError:
        say(USAGE)
    except (ClientError, ValueError) as error:
        say(f"Failed: {type(error).__name__}: {harmless_lines(str(error))}")
    return 1


def _find(words: Sequence[str]) -> tuple[Handler, Sequence[str]]:
    """Return what does a command, and the words behind its name."""
    for count in (2, 1, 0):
        name = " ".join(words[:count])
        if len(words) < count or (count == 0 and words):
            continue
        if name in FOREIGN:
            raise ValueError(FOREIGN[name])
        if name in COMMANDS:
            handler, least, most = COMMANDS[name]
            if least <= len(words) - count <= most:
                return handler, words[count:]
    raise UsageError


def overview(client: Management, words: Sequence[str], options: argparse.Namespace) -> int:
    """Print totals."""
    queues = client.query("queue")
    durable = sum(1 for queue in queues if queue["durable"])
    say(f"   Total Topics: {len(client.query('topic'))}")
    say()
    say(f"   Total Queues: {len(queues)}")
    say(f"        durable: {durable}")
    say(f"    non-durable: {len(queues) - durable}")
    return 0


def queues(client: Management, words: Sequence[str], options: argparse.Namespace) -> int:
    """Print each queue with the options that would make it again."""
    wanted = words[0] if words else ""
    rows = [row for row in client.query("queue") if wanted in row["name"]]
    if wanted and not rows:
        return 1
    if options.recursive:
        for row in rows:
            say(f"Queue '{printable(row['name'])}'")
        return 0
    names = [printable(row["name"]) for row in rows]
    width = max(len(name) for name in ("Queue Name", *names))
    say(f"{'Queue Name':<{width}}  Attributes")
    say("=====" * (width // 5 + 5))
    for name, row in zip(names, rows, strict=True):
        say(f"{name:<{width}}  {' '.join(_attributes(row))}".rstrip())
    return 0


def add(client: Management, words: Sequence[str], options: argparse.Namespace) -> int:
    """Declare a queue, or make a thing of another type."""
    type_name, name = words
    client.ask("CREATE", type_name, name, {"arguments": declaration(options)})
    return 0


def delete(client: Management, words: Sequence[str], options: argparse.Namespace) -> int:
    """Delete a thing; a queue must be empty and unused unless forced."""
    type_name, name = words
    client.ask(
        "DELETE",
        type_name,
        name,
        if_empty=not (options.force or options.force_if_not_empty),
        if_unused=not (options.force or options.force_if_used),
    )
    return 0


def list_type(client: Management, words: Sequence[str], options: argparse.Namespace) -> int:
    """Print a table of everything of one type."""
    (type_name,) = words
    rows = [_as_qpid(row) for row in client.query(type_name)]
    known = list(rows[0]) if rows else []
    for name in options.show_property:
        if name not in known:
            say(f"Warning: No such property '{name}' for type '{type_name}'")
    shown = [name for name in options.show_property if name in known]
    if not options.show_property:
        shown = list(LIST_COLUMNS.get(type_name, known[:LIST_COLUMNS_MAX]))
    say(f"Objects of type '{type_name}'")
    if rows:
        _table(shown, rows, LIST_PREFIX)
    return 0


def groups(client: Management, words: Sequence[str], options: argparse.Namespace) -> int:
    """Print who owns which group of a queue, since when, and why it waits."""
    _table(GROUP_COLUMNS, client.groups(words[0]), "")
    return 0


def close_group(client: Management, words: Sequence[str], options: argparse.Namespace) -> int:
    """Take a group from its owner."""
    queue, group = words
    client.ask("CLOSE-GROUP", "queue", queue, group=group)
    return 0


def rebalance(client: Management, words: Sequence[str], options: argparse.Namespace) -> int:
    """Share a queue's groups out anew."""
    client.ask("REBALANCE", "queue", words[0])
    return 0


# A command's words, what does it, and how many words may follow.
COMMANDS: Final[dict[str, tuple[Handler, int, int]]] = {
    "": (overview, 0, 0),
    "queues": (queues, 0, 1),
    "add": (add, 2, 2),
    "del": (delete, 2, 2),
    "list": (list_type, 1, 1),
    "groups": (groups, 1, 1),
    "close-group": (close_group, 2, 2),
    "rebalance": (rebalance, 1, 1),
}


def _attributes(row: Row) -> list[str]:
    """Return the options that would make a queue again; one made by its use is `auto-del`."""
    options = [printable(option) for option in row["options"]]
    if row["declared"]:
        return options
    first = int(options[:1] == ["--durable"])
    return [*options[:first], "auto-del", *options[first:]]


def _as_qpid(row: Row) -> Row:
    """Add the names under which qpid-config shows our attributes."""
    if row.get("type") != "queue":
        return row
    theirs = {
        "autoDelete": not row["declared"],
        "msgDepth": row["messages"],
        "byteDepth": row["bytes"],
        "consumerCount": row["consumers"],
    }
    return row | theirs


def _table(columns: Sequence[str], rows: list[Row], prefix: str) -> None:
    cells = [[printable(row.get(name, MISSING)) for name in columns] for row in rows]
    for line in plain_lines(columns, cells, has_rule=True):
        say(prefix + line)


if __name__ == "__main__":
    sys.exit(main())
