"""The `covey-config` command: declares and lists queues in qpid-config's own grammar.

    covey-config [-b [user/password@]host[:port]]            an overview
    covey-config queues [FILTER]                             queues, with the options that make them
    covey-config add queue NAME [options]                    declare
    covey-config del queue NAME [--force ...]                delete
    covey-config list TYPE [--show-property P ...]           any type the broker manages
    covey-config groups QUEUE                                who owns which group, and why it waits
    covey-config close-group QUEUE GROUP | rebalance QUEUE

Output and exit codes follow qpid-config: 0 done; 1 refused, nothing matched, or no sense in the
words; 2 an option that does not exist. Exchanges and bindings are not in Covey's model: their
forms are refused with a reason.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from covey.client.management import (
    DeniedError,
    Management,
    ManagementError,
    UnreachableError,
)

DEFAULT_PORT = 5672
DEFAULT_LOGIN = "admin/password"  # works from the broker's own machine only
NO_EXCHANGES = "Covey has queues and topics, no exchanges"
LIST_COLUMNS = {"queue": ("name", "durable", "autoDelete")}
FIRST_COLUMNS = 6

Client = Management
Words = Sequence[str]


class Failed(Exception):
    """Ends the command with exit code 1 and this text."""


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options = _parser().parse_args(argv)
    words: list[str] = options.words
    try:
        handler = _find(words)
        with _connect(options) as client:
            return handler(client, words, options)
    except (Failed, UnreachableError, DeniedError) as error:
        _say(f"Failed: {type(error).__name__.removesuffix('Error')}: {error}")
    except ManagementError as error:
        _say(f"Failed: {'Exception'}: {error}")
    return 1


def _find(words: Words) -> Callable[[Client, Words, argparse.Namespace], int]:
    for count in (2, 1):
        handler = COMMANDS.get(" ".join(words[:count]))
        if handler is not None and len(words) >= count:
            return handler
    if not words:
        return overview
    if words[0] in ("exchanges", "bind", "unbind") or words[1:2] == ["exchange"]:
        raise Failed(NO_EXCHANGES)
    _usage(f"unknown command {' '.join(words)}")


def overview(client: Client, words: Words, options: argparse.Namespace) -> int:
    """Print totals."""
    queues = client.query("queue")
    durable = sum(1 for queue in queues if queue["durable"])
    _say(f"Total Topics: {len(client.query('topic'))}")
    _say("")
    _say(f"   Total Queues: {len(queues)}")
    _say(f"        durable: {durable}")
    _say(f"    non-durable: {len(queues) - durable}")
    return 0


def queues(client: Client, words: Words, options: argparse.Namespace) -> int:
    """Print each queue with the options that would make it again."""
    wanted = words[1] if len(words) > 1 else ""
    rows = [queue for queue in client.query("queue") if wanted in queue["name"]]
    if wanted and not rows:
        return 1
    width = max([len("Queue Name"), *(len(row["name"]) for row in rows)])
    _say(f"{'Queue Name':<{width}}  Attributes")
    _say("=====" * (width // 5 + 5))
    for row in sorted(rows, key=lambda each: str(each["name"])):
        _say(f"{row['name']:<{width}}  {' '.join(row['options'])}".rstrip())
    return 0


def add_queue(client: Client, words: Words, options: argparse.Namespace) -> int:
    """Declare a queue."""
    name = _word(words, 2, "add queue NAME")
    client.ask("CREATE", "queue", name, {"arguments": _arguments(options)})
    return 0


def add_topic(client: Client, words: Words, options: argparse.Namespace) -> int:
    """Declare a topic."""
    client.ask("CREATE", "topic", _word(words, 2, "add topic NAME"))
    return 0


def del_queue(client: Client, words: Words, options: argparse.Namespace) -> int:
    """Delete a queue; it must be empty and unused unless forced."""
    name = _word(words, 2, "del queue NAME")
    client.ask(
        "DELETE",
        "queue",
        name,
        if_empty=not (options.force or options.force_if_not_empty),
        if_unused=not (options.force or options.force_if_used),
    )
    return 0


def del_topic(client: Client, words: Words, options: argparse.Namespace) -> int:
    """Delete a topic; it must be unused unless forced."""
    name = _word(words, 2, "del topic NAME")
    client.ask("DELETE", "topic", name, if_unused=not options.force)
    return 0


def list_type(client: Client, words: Words, options: argparse.Namespace) -> int:
    """Print a table of everything of one type."""
    type_name = _word(words, 1, "list TYPE")
    rows = [_as_qpid(row) for row in client.query(type_name)]
    shown = options.show_property or LIST_COLUMNS.get(type_name)
    if shown is None:
        shown = list(rows[0])[:FIRST_COLUMNS] if rows else ["name"]
    for name in shown:
        if rows and name not in rows[0]:
            _say(f"WARNING: unknown property {name} for type {type_name}")
    _say(f"Objects of type '{type_name}'")
    _table(shown, [[_cell(row.get(name, "n/a")) for name in shown] for row in rows])
    return 0


def groups(client: Client, words: Words, options: argparse.Namespace) -> int:
    """Print who owns which group of a queue, since when, and why it waits."""
    queue = _word(words, 1, "groups QUEUE")
    client.ask("READ", "queue", queue)
    rows = [row for row in client.query("group") if row["queue"] == queue]
    columns = ("group", "messages", "unsettled", "owner", "state", "oldest_s", "owned_s", "why")
    _table(columns, [[_cell(row.get(name, "n/a")) for name in columns] for row in rows])
    return 0


def close_group(client: Client, words: Words, options: argparse.Namespace) -> int:
    """Take a group from its owner."""
    queue, group = (_word(words, place, "close-group QUEUE GROUP") for place in (1, 2))
    client.ask("CLOSE-GROUP", "queue", queue, group=group)
    return 0


def rebalance(client: Client, words: Words, options: argparse.Namespace) -> int:
    """Share a queue's groups out anew."""
    client.ask("REBALANCE", "queue", _word(words, 1, "rebalance QUEUE"))
    return 0


COMMANDS: dict[str, Callable[[Client, Words, argparse.Namespace], int]] = {
    "queues": queues,
    "add queue": add_queue,
    "add topic": add_topic,
    "del queue": del_queue,
    "del topic": del_topic,
    "list": list_type,
    "groups": groups,
    "close-group": close_group,
    "rebalance": rebalance,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="covey-config", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="COMMAND")
    general = parser.add_argument_group("general")
    for flag in ("-b", "-a"):
        long = "--broker" if flag == "-b" else "--broker-addr"
        general.add_argument(flag, long, dest="broker", metavar="ADDR", default="localhost")
    general.add_argument("-t", "--timeout", type=float, default=10.0, metavar="SECS")
    general.add_argument("--sasl-mechanism", help="accepted for qpid-config's sake: PLAIN is used")
    general.add_argument("--ignore-default", action="store_true")
    general.add_argument("--show-property", action="append", metavar="NAME")
    adding = parser.add_argument_group("add queue")
    adding.add_argument("--durable", action="store_true")
    adding.add_argument("--alternate-exchange", metavar="QUEUE", help="the dead-letter queue")
    adding.add_argument("--max-queue-size", type=int, metavar="BYTES")
    adding.add_argument("--max-queue-count", type=int, metavar="N")
    adding.add_argument("--limit-policy", choices=("none", "reject", "ring", "ring-strict"))
    adding.add_argument("--lvq-key", metavar="KEY")
    adding.add_argument("--group-header", metavar="NAME")
    adding.add_argument("--shared-groups", action="store_true")
    adding.add_argument("--argument", action="append", default=[], metavar="NAME=VALUE")
    ours = parser.add_argument_group("add queue, Covey's own")
    ours.add_argument("--group-strategy", metavar="NAME")
    for option in OWN_NUMBERS:
        ours.add_argument(option, type=int, metavar="N")
    deleting = parser.add_argument_group("del queue")
    for option in ("--force", "--force-if-not-empty", "--force-if-used"):
        deleting.add_argument(option, action="store_true")
    return parser


OWN_NUMBERS = {
    "--group-buckets": "covey.groups.bucket_count",
    "--group-cache-size": "covey.groups.cache_size",
    "--ring-points": "covey.groups.ring_points",
    "--consumers-before-dispatch": "covey.groups.consumers_before_dispatch",
    "--time-before-dispatch": "covey.groups.time_before_dispatch_ms",
}

QPID_KEYS = {
    "max_queue_size": "qpid.max_size",
    "max_queue_count": "qpid.max_count",
    "lvq_key": "qpid.last_value_queue_key",
    "group_header": "qpid.group_header_key",
    "alternate_exchange": "alternate-exchange",
    "group_strategy": "covey.groups.strategy",
}


def _arguments(options: argparse.Namespace) -> dict[str, object]:
    """Turn the options of `add queue` into declaration arguments."""
    found: dict[str, object] = {"durable": options.durable}
    for name, key in QPID_KEYS.items():
        value = getattr(options, name)
        if value is not None:
            found[key] = value
    for option, key in OWN_NUMBERS.items():
        value = getattr(options, option.lstrip("-").replace("-", "_"))
        if value is not None:
            found[key] = value
    if options.limit_policy not in (None, "none"):
        found["qpid.policy_type"] = options.limit_policy
    if options.shared_groups:
        found["qpid.shared_msg_group"] = 1
    for text in options.argument:
        key, equals, value = text.partition("=")
        if not equals:
            raise Failed(f"--argument {text}: NAME=VALUE is needed")
        found[key] = int(value) if value.lstrip("-").isdigit() else value
    return found


def _connect(options: argparse.Namespace) -> Client:
    login, _, place = options.broker.rpartition("@")
    user, _, password = (login or DEFAULT_LOGIN).partition("/")
    _, colon, port = place.rpartition(":")
    address = place if colon and port.isdigit() else f"{place}:{DEFAULT_PORT}"
    return Management(address, user, password, options.timeout or None)


def _as_qpid(row: dict[str, Any]) -> dict[str, Any]:
    """Add the names under which qpid-config shows our attributes."""
    if row.get("type") == "queue":
        row["autoDelete"] = not row["declared"]
        row["msgDepth"] = row["messages"]
        row["byteDepth"] = row["bytes"]
        row["consumerCount"] = row["consumers"]
    return row


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}"
    return str(value)


def _table(columns: Sequence[str], rows: list[list[str]]) -> None:
    table = [list(columns), *rows]
    widths = [max(len(row[place]) for row in table) for place in range(len(columns))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    lines.insert(1, "=" * (sum(widths) + 2 * (len(widths) - 1)))
    _say("\n".join(lines))


def _word(words: Words, place: int, form: str) -> str:
    if len(words) <= place:
        _usage(f"{form}: a word is missing")
    return words[place]


def _usage(problem: str) -> NoReturn:
    sys.stderr.write(f"covey-config: {problem}\n\n{__doc__}\n")
    raise SystemExit(1)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
