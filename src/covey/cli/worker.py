"""`covey worker run`: run a worker that a program has made, until SIGTERM or SIGINT.

    covey worker run shop:worker

The name is a module's and a variable's. The current directory is where modules are looked for
first, as with `python -m`.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Annotated

import typer

from covey.cli.options import EXAMPLE, Noun
from covey.client.errors import AnswerError, ClientError, DeniedError, UnreachableError
from covey.worker import Worker
from covey.worker import errors as worker_errors
from covey.worker.address import parse_addresses

app = Noun(help="Run a program's worker.")


@app.callback()
def _worker() -> None:
    """Run a program's worker."""


@app.command(epilog=EXAMPLE.format("covey worker run shop:worker"))
def run(
    name: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="the worker's variable")],
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="another broker than the program's")
    ] = "",
    concurrency: Annotated[int, typer.Option(min=0, help="0 = the program's own")] = 0,
) -> None:
    """Run a worker; SIGTERM and SIGINT finish what runs and give the rest back."""
    worker = _found(name)
    if url:
        try:
            worker.link.addresses = parse_addresses(url)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--url") from error
    worker.concurrency = concurrency or worker.concurrency
    try:
        asyncio.run(worker.run())
    except worker_errors.WorkerError as error:
        raise _translated(error) from error


def _found(name: str) -> Worker:
    module_name, colon, variable = name.partition(":")
    if not colon or not module_name or not variable:
        raise typer.BadParameter(f"{name}: MODULE:NAME is needed", param_hint="MODULE:NAME")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # what the program itself imports is missing
        raise typer.BadParameter(f"there is no module {error.name}") from error
    found = getattr(module, variable, None)
    if not isinstance(found, Worker):
        raise typer.BadParameter(f"{module_name} has no worker {variable}")
    return found


def _translated(error: worker_errors.WorkerError) -> ClientError:
    """Return the command line's own error, for the exit code."""
    if isinstance(error, worker_errors.DeniedError):
        return DeniedError(str(error))
    if isinstance(error, worker_errors.UnreachableError):
        return UnreachableError(str(error))
    return AnswerError(str(error))
