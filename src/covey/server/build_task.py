"""Build task: has the hot modules compiled beside a broker that runs from source.

`scripts/serve` starts a broker at once, compiled or not. If there is no build of the source, it
names the script that makes one in COVEY_BUILD. The broker runs that script at the lowest priority,
tells in its log and to `covey check` how far it is, and the next start uses what was built.

The script ends when its standard input does. That pipe is held here, so a compilation ends with
its broker, even if the broker is killed.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Mapping
from typing import Final

import anyio
import structlog
from anyio.abc import Process

from covey.core.broker.shared import Shared
from covey.core.model import entry

VARIABLE: Final = "COVEY_BUILD"
COMPILED: Final = "compiled"
PLAIN: Final = "plain Python"
FAILED: Final = "failed: "  # what the script's last line begins with if nothing came of it
STEP_PERCENT: Final = 25  # a line in the log for each

Log = structlog.typing.FilteringBoundLogger


def build_name(environ: Mapping[str, str]) -> str:
    """Say which build runs, and whether another is on its way."""
    if not entry.__file__.endswith(".py"):
        return COMPILED
    is_coming = VARIABLE in environ
    return f"{PLAIN}, compiling beside it; the next start is faster" if is_coming else PLAIN


async def compile_beside(shared: Shared, script: str, log: Log) -> None:
    """Run the script to its end; say how far it is."""
    try:
        process = await anyio.open_process(
            [script, "--beside"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # the script ends all of its group
        )
    except OSError as error:
        _note(shared, log, f"{FAILED}{script}: {error}")
        return
    log.info("compiling", note="this broker runs from source until its next start")
    told = 0
    line = ""
    async with process:
        async for line in _lines(process):
            percent = _percent(line)
            shared.build = f"{PLAIN}; compiling: {line}"
            if percent >= told + STEP_PERCENT:
                told = percent - percent % STEP_PERCENT
                log.info("compiling", percent=percent)
        await process.wait()
    if process.returncode and not line.startswith(FAILED):
        line = f"{FAILED}it ended with code {process.returncode}"
    _note(shared, log, line)


def _note(shared: Shared, log: Log, last: str) -> None:
    """Tell what came of it."""
    if last.startswith(FAILED):
        shared.build = f"{PLAIN}; the compilation failed"
        log.warning("compilation_failed", reason=last.removeprefix(FAILED))
        return
    shared.build = f"{PLAIN}; compiled: the next start uses it"
    log.info("compiled", note="the next start uses it")


def _percent(line: str) -> int:
    """Return how far the compiler is, by a line such as "34 % compiled"."""
    number, _, rest = line.partition(" % ")
    return int(number) if rest and number.isdigit() else 0


async def _lines(process: Process) -> AsyncIterator[str]:
    """Yield each line that the script prints."""
    assert process.stdout is not None
    waiting = b""
    async for data in process.stdout:
        *whole, waiting = (waiting + data).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
