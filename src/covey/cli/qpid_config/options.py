"""The options of `covey-config`: qpid-config's own, and ours for what Qpid has no word for.

Which option stands for which declaration argument is said once, in `config.qpid`. Every option of
qpid-config is known. One without a counterpart is refused with the reason if the queue would be
another one without it. Otherwise it is taken, and a note on standard error says why it does
nothing, so that scripts go on working.
"""

from __future__ import annotations

import argparse
from typing import Final

from covey.client.base import TIMEOUT_S
from covey.client.management import PORT
from covey.config.qpid import (
    HEADER_KEY,
    OWN_FLAGS,
    OWN_OPTIONS,
    OWN_TEXTS,
    POLICY_KEY,
    POLICY_NONE,
    SHARED_KEY,
    STRATEGY_OPTION,
    setting_about,
)
from covey.groups import OPTIONS, STRATEGIES

LIMIT_POLICIES: Final = (POLICY_NONE, "reject", "ring", "ring-strict")
REPLICATE_LEVELS: Final = ("none", "configuration", "all")

NO_EXCHANGES: Final = "Covey has queues and topics, no exchanges and no bindings"

# Options of qpid-config that have no counterpart, with the reason.
REFUSED: Final = {
    "--ssl-certificate": "a login is a user and a password; tls:// in -b speaks TLS",
    "--ssl-key": "a login is a user and a password; tls:// in -b speaks TLS",
    "--start-replica": "no queue is a replica of another broker's; see covey shovel",
    "--file": NO_EXCHANGES,
}
NO_FILES: Final = "all queues share the store's journal"
NO_FLOW: Final = "a producer has credit; to let producers wait at a limit: covey.full_policy=block"

# Options of qpid-config that are taken and do nothing, with the reason.
IDLE: Final = {
    "--sasl-service-name": "it is Kerberos' word, and a login is a user and a password",
    "--ha-admin": "any broker of a cluster answers",
    "--ignore-default": "there is no default exchange",
    "--replicate": "no queue has replicas of its own; a store in PostgreSQL has all",
    "--flow-stop-size": NO_FLOW,
    "--flow-resume-size": NO_FLOW,
    "--flow-stop-count": NO_FLOW,
    "--flow-resume-count": NO_FLOW,
    "--file-count": NO_FILES,
    "--file-size": NO_FILES,
    "--efp-partition-num": NO_FILES,
    "--efp-pool-file-size": NO_FILES,
    "--wcache-page-size": NO_FILES,
    "--wcache-num-pages": NO_FILES,
}
REFUSED_FLAGS: Final = {"--sequence": NO_EXCHANGES, "--ive": NO_EXCHANGES}

# Options of `add queue` that hold one value, with the argument each stands for.
NUMBERS: Final = {
    "--max-queue-size": "qpid.max_size",
    "--max-queue-count": "qpid.max_count",
}
TEXTS: Final = {
    "--alternate-exchange": "alternate-exchange",
    "--lvq-key": "qpid.last_value_queue_key",
    "--group-header": HEADER_KEY,
}
OWN: Final = {option: key for key, option in OWN_OPTIONS.items()}
IDLE_NUMBERS: Final = tuple(name for name, why in IDLE.items() if why in (NO_FILES, NO_FLOW))
MECHANISM: Final = "PLAIN"


class Refused(argparse.Action):
    """An option that is known, and whose answer is the reason why it cannot be."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Give the reason, and end."""
        name = option_string or ""
        parser.error(f"{name}: {(REFUSED | REFUSED_FLAGS)[self.option_strings[-1]]}")


def make_parser(usage: str) -> argparse.ArgumentParser:
    """Return the parser of the whole command."""
    parser = argparse.ArgumentParser(
        prog="covey-config",
        usage=argparse.SUPPRESS,
        description=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", metavar="COMMAND", help=argparse.SUPPRESS)
    _add_general(parser)
    _add_queue(parser)
    deleting = parser.add_argument_group("del queue")
    deleting.add_argument("--force", action="store_true", help="even if used and not empty")
    deleting.add_argument("--force-if-not-empty", action="store_true", help="even if not empty")
    deleting.add_argument("--force-if-used", action="store_true", help="even if used")
    return parser


def declaration(options: argparse.Namespace) -> dict[str, object]:
    """Turn the options of `add queue` into declaration arguments; ValueError if one is wrong."""
    found = dict(parse_argument(text) for text in options.argument)
    found["durable"] = options.durable
    for option, key in (NUMBERS | TEXTS | OWN).items():
        value = getattr(options, option.removeprefix("--").replace("-", "_"))
        if value is not None:
            found[key] = value
    if options.limit_policy not in (None, POLICY_NONE):
        found[POLICY_KEY] = options.limit_policy
    if options.shared_groups:
        found[SHARED_KEY] = 1
    return found


def idle(options: argparse.Namespace) -> dict[str, str]:
    """Return the options that are given and do nothing, each with the reason."""
    given = vars(options)
    return {
        option: reason
        for option, reason in IDLE.items()
        if given[option.removeprefix("--").replace("-", "_")] not in (None, False)
    }


def parse_argument(text: str) -> tuple[str, object]:
    """Read NAME=VALUE; a value that reads like an integer is one, as in qpid-config."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"argument {text}: NAME=VALUE is needed")
    try:
        return key, int(value)
    except ValueError:
        return key, value


def _add_general(parser: argparse.ArgumentParser) -> None:
    general = parser.add_argument_group("general")
    general.add_argument(
        "-b",
        "--broker",
        "-a",
        "--broker-addr",
        dest="broker",
        metavar="ADDRESS",
        default="localhost",
        help=f"[tls://][user/password@]host[:port][/virtual host] of AMQP (localhost:{PORT})",
    )
    general.add_argument(
        "-t",
        "--timeout",
        type=int,
        default=int(TIMEOUT_S),
        metavar="SECS",
        help="longest wait for an answer; 0 = for ever",
    )
    general.add_argument("-r", "--recursive", action="store_true", help="names only, in a list")
    general.add_argument("--sasl-mechanism", type=_mechanism, help=f"{MECHANISM} is what is used")
    general.add_argument("--ignore-default", action="store_true", help="there is nothing to ignore")
    general.add_argument("--sasl-service-name", help=argparse.SUPPRESS)  # Kerberos asks for it
    general.add_argument("--ha-admin", action="store_true", help=argparse.SUPPRESS)  # no cluster
    for option in REFUSED:
        names = ("-f", option) if option == "--file" else (option,)
        general.add_argument(*names, action=Refused, help=argparse.SUPPRESS)
    for option in REFUSED_FLAGS:
        general.add_argument(option, action=Refused, nargs=0, help=argparse.SUPPRESS)
    general.add_argument(
        "--show-property",
        action="append",
        default=[],
        metavar="NAME",
        help="a column of `list`; may be repeated",
    )


def _add_queue(parser: argparse.ArgumentParser) -> None:
    adding = parser.add_argument_group("add queue")
    adding.add_argument("--durable", action="store_true", help="persistent messages are stored")
    for option in NUMBERS:
        adding.add_argument(option, type=int, metavar="N")
    adding.add_argument("--limit-policy", choices=LIMIT_POLICIES, help="what to do at a limit")
    for option in TEXTS:
        adding.add_argument(option, metavar="NAME")
    adding.add_argument(
        "--shared-groups", action="store_true", help="a group may change hands when it is settled"
    )
    adding.add_argument(
        "--argument",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any declaration argument; may be repeated",
    )
    adding.add_argument("--replicate", choices=REPLICATE_LEVELS, help=argparse.SUPPRESS)
    for option in IDLE_NUMBERS:
        adding.add_argument(option, type=int, help=argparse.SUPPRESS)
    ours = parser.add_argument_group("add queue, Covey's own")
    about = {option.flag: option.about for option in OPTIONS.values()}
    ours.add_argument(STRATEGY_OPTION, metavar="NAME", help=f"of {', '.join(STRATEGIES)}")
    for option, key in OWN.items():
        if option == STRATEGY_OPTION:
            continue
        text = about.get(option) or setting_about(key)
        if option in OWN_FLAGS:
            ours.add_argument(option, action="store_const", const=True, help=text)
        elif option in OWN_TEXTS:
            ours.add_argument(option, metavar="WORD", help=text)
        else:
            ours.add_argument(option, type=_number, metavar="N", help=text)


def _mechanism(text: str) -> str:
    """Read the name of a login's mechanism; of a list of names one must be ours."""
    if MECHANISM not in text.split():
        raise argparse.ArgumentTypeError(f"the login is {MECHANISM}: a user and a password")
    return MECHANISM


def _number(text: str) -> int | float:
    """Read a number; the settings say whether it may have decimals."""
    return int(text) if text.lstrip("-").isdigit() else float(text)
