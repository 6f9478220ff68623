"""The `covey` command, but for `serve`: its parts put together, and their exit codes.

    0 done    1 failed    2 wrong usage    3 nobody answers    4 not allowed

Each noun has a file of its own. `covey serve` is `cli.serve`, which `__main__` calls without
coming here: a broker does not wait for typer and rich to load. It stands here for the help.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from covey import __version__
from covey.cli import (
    cluster,
    config,
    connections,
    consumers,
    groups,
    jobs,
    messages,
    policies,
    queues,
    users,
    worker,
)
from covey.cli import monitoring as health
from covey.cli import monitoring as top
from covey.cli import monitoring as trace
from covey.cli.importers import shovel
from covey.cli.options import EXAMPLE, Noun
from covey.cli.output import complain, say
from covey.cli.upkeep import backup, bench, definitions, doctor
from covey.client.errors import ClientError, DeniedError, UnreachableError
from covey.config.errors import ConfigError

FAILED: Final = 1
WRONG_USAGE: Final = 2
UNREACHABLE: Final = 3
DENIED: Final = 4
INTERRUPTED: Final = 130  # 128 and SIGINT, as shells count

# typer shows its parser's errors in a frame of several lines, and has no name for their class.
UsageError: Final[type[Exception]] = typer.BadParameter.__mro__[1]

app = Noun(
    name="covey",
    help="A message broker for work that must stay in order.",
    epilog=EXAMPLE.format("covey serve; then, elsewhere: covey message send orders hello"),
    pretty_exceptions_enable=False,
)
app.add_typer(queues.app, name="queue")
app.add_typer(groups.app, name="group")
app.add_typer(messages.app, name="message")
app.add_typer(consumers.app, name="consumer")
app.add_typer(connections.app, name="connection")
app.add_typer(jobs.app, name="job")
app.add_typer(users.app, name="user")
app.add_typer(policies.app, name="policy")
app.add_typer(config.app, name="config")
app.add_typer(definitions.app, name="definitions")
app.add_typer(worker.app, name="worker")
app.add_typer(cluster.app, name="cluster")


def _version(is_wanted: bool) -> None:
    if is_wanted:
        say(f"covey {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="say the version")
    ] = False,
) -> None:
    """Hold what stands before a command's name."""


@app.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def serve(context: typer.Context) -> None:
    """Run the broker; `covey serve --help` lists its options."""
    from covey.cli.serve import main

    raise typer.Exit(main(context.args))


app.command("check", epilog=EXAMPLE.format("covey check --queue orders --backlog-max 1000"))(
    health.check
)
app.command("top", epilog=EXAMPLE.format("covey top --interval 5"))(top.top)
app.command("trace", epilog=EXAMPLE.format("covey trace orders --count 20"))(trace.trace)
app.command("bench", epilog=EXAMPLE.format("covey bench queue groups --repetitions 3"))(bench.bench)
app.command("doctor", epilog=EXAMPLE.format("covey doctor --config /etc/covey/covey.toml"))(
    doctor.doctor
)
app.command("backup", epilog=EXAMPLE.format("covey backup /backups/monday --data data"))(
    backup.backup
)
app.command("restore", epilog=EXAMPLE.format("covey restore /backups/monday --data data"))(
    backup.restore
)
app.command(
    "shovel",
    epilog=EXAMPLE.format("covey shovel orders orders --from app/secret@old:61613 --wait 0"),
)(shovel.shovel)


def run(argv: list[str]) -> int:
    """Run a command; return its exit code."""
    try:
        code = app(argv, prog_name="covey", standalone_mode=False)
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else FAILED
    except UsageError as error:
        told = _wrong_usage(error)
        if told:
            complain(told)
        return WRONG_USAGE
    except typer.Abort:
        return INTERRUPTED
    except UnreachableError as error:
        complain(f"covey: {error}")
        return UNREACHABLE
    except DeniedError as error:
        complain(f"covey: {error}")
        return DENIED
    except ConfigError as error:
        complain(str(error))  # each of its lines names the file it is about
        return FAILED
    except (ClientError, OSError) as error:
        complain(f"covey: {error}")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _wrong_usage(error: Any) -> str:
    """Say in one line what is wrong with the words; "" for a noun whose help has been shown."""
    message = error.format_message().rstrip(".")
    if not message:
        return ""
    path = error.ctx.command_path if error.ctx is not None else "covey"
    return f"covey: {message[0].lower()}{message[1:]} ({path} -h tells more)"
