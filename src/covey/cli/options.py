"""Options that many commands share, and the connections that they lead to."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Final, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from covey.cli.completion import group_names, queue_names
from covey.client import management, stomp
from covey.client.base import TIMEOUT_S, MessageClient
from covey.client.management import Management
from covey.client.place import Place, parse_place
from covey.client.stomp import StompClient

LOCAL = "localhost"
HELP: Final = ["-h", "--help"]
SEQ_OPTION: Final = "--seq"
Function = TypeVar("Function", bound=Callable[..., Any])
EXAMPLE = "Example: {}"  # below a command's options; no brackets there either
# No brackets: typer reads help as rich's markup. And short words, that a narrow terminal can wrap.
PLACE = "host or host:port, after user/password@ and tls://, before /virtual-host if need be;"

Broker = Annotated[
    str,
    typer.Option(
        "-b",
        "--broker",
        metavar="PLACE",
        envvar="COVEYCTL_BROKER",
        help=f"{PLACE} the AMQP port ({management.PORT})",
    ),
]
StompBroker = Annotated[
    str,
    typer.Option(
        "-b",
        "--broker",
        metavar="PLACE",
        envvar="COVEYCTL_STOMP",
        help=f"{PLACE} the STOMP port ({stomp.PORT})",
    ),
]
EitherBroker = Annotated[
    str,
    typer.Option(
        "-b",
        "--broker",
        metavar="PLACE",
        help=(
            f"{PLACE} the STOMP port (COVEYCTL_STOMP), with --amqp the AMQP port (COVEYCTL_BROKER)"
        ),
    ),
]
OverAmqp = Annotated[bool, typer.Option("--amqp", help="over AMQP instead of STOMP")]
Wide = Annotated[bool, typer.Option("--wide", help="every column, however narrow the terminal")]
AsJson = Annotated[bool, typer.Option("--json", help="print everything, as JSON")]
Watch = Annotated[
    float, typer.Option("--watch", min=0, metavar="SECONDS", help="look again at this interval")
]
DoneAsJson = Annotated[bool, typer.Option("--json", help="say what was done, as JSON")]
QueueName = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE", help="a queue's name, or /dsub/NAME", autocompletion=queue_names
    ),
]
GroupName = Annotated[
    str, typer.Argument(metavar="GROUP", help="a group's id", autocompletion=group_names)
]


LONG_S: Final = 7 * 24 * 3600.0  # for what may be long: the broker answers when it is done
Held = Annotated[
    str,
    typer.Option(
        metavar="leave|wait", help="messages that a consumer holds stay, or are waited for"
    ),
]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="why; it is shown with it")]


class _PlainSwitches:
    """Shows a switch without a type: `--json <bool>` invites `--json true`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, a switch without the name of a value."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class Command(_PlainSwitches, TyperCommand):
    """One command."""


class SeqCommand(Command):
    """A command on single messages: `--seq 3 4 9` names three, as `--seq 3 --seq 4 --seq 9` does.

    A queue whose name is a number is written before that.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Write the option before each number that follows one."""
        written: list[str] = []
        for word in args:
            if word.isdecimal() and written[-2:-1] == [SEQ_OPTION]:
                written.append(SEQ_OPTION)
            written.append(word)
        return super().parse_args(ctx, written)


class Group(_PlainSwitches, TyperGroup):
    """What holds a noun's commands."""


class Noun(typer.Typer):
    """The commands of one noun; `-h` stands for `--help` in all of them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            cls=Group,
            no_args_is_help=True,
            context_settings={"help_option_names": HELP},
            **settings,
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Register a function as a command."""
        return super().command(name, **({"cls": Command} | settings))


def managed(broker: str, timeout_s: float = TIMEOUT_S) -> Management:
    """Connect to a broker's management node; the timeout is for each answer."""
    return Management(place_of(broker, management.PORT), timeout_s)


def stomped(broker: str) -> StompClient:
    """Connect to a broker's STOMP port."""
    return StompClient(place_of(broker, stomp.PORT))


def messaging(broker: str, *, over_amqp: bool) -> MessageClient:
    """Connect to a broker's STOMP or AMQP port; no place means that of the environment."""
    if not over_amqp:
        return stomped(broker or os.environ.get("COVEYCTL_STOMP", LOCAL))
    from covey.client.amqp import AmqpClient  # half the protocol; the other commands do without

    place = broker or os.environ.get("COVEYCTL_BROKER", LOCAL)
    return AmqpClient(place_of(place, management.PORT))


def place_of(text: str, default_port: int) -> Place:
    """Read a place; a user without a password is asked for it."""
    try:
        place = parse_place(text, default_port)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--broker") from error
    if place.password is not None:
        return place
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"no password for {place.user}", param_hint="--broker")
    return replace(place, password=typer.prompt(f"Password of {place.user}", hide_input=True))
